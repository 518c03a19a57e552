"""The reconciler is killed with SIGKILL: no process of a node outlives it (design §7).

At random moments, a hundred times and with `up` itself: `python -m tests.proofs sigkill`.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cluster_reconciler.executors.provider import LeaseState
from cluster_reconciler.executors.providers.process import Containment, ProcessProvider
from cluster_reconciler.executors.providers.process.processes import processes_of_lease
from cluster_reconciler.executors.providers.process.run_lock import RunHeld
from cluster_reconciler.messages import RunId
from tests.containments import CONTAINMENTS
from tests.process_kit import STUBBORN, wait_until

ROUNDS = 4
RUN = RunId(7)

RECONCILER = """
import os, sys, time
from pathlib import Path
from cluster_reconciler.executors.providers.process import Containment
from tests.process_kit import Ground
ground = Ground(Path(sys.argv[1]), Containment(sys.argv[2]))
lock = ground.provider.lock_run(7)
for number in range(3):
    ground.start(sys.argv[3] + "exec sleep 1000", name=f"n-{number}")
    print("started", flush=True)
for node in list(ground.nodes.values()):
    node.wait_said("stubborn")
if len(sys.argv) > 4:
    fork = os.fork()
    if fork == 0:
        time.sleep(1000)
    Path(sys.argv[4]).write_text(str(fork))
print("all", flush=True)
time.sleep(1000)
"""


class Reconciler:
    """A process with three nodes, each with a grandchild that ignores TERM."""

    def __init__(
        self, state_dir: Path, containment: Containment, repository: Path, *more: Path
    ) -> None:
        self.state_dir = state_dir
        self.process = subprocess.Popen(
            [sys.executable, "-c", RECONCILER, state_dir, containment, STUBBORN, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=repository,
        )

    def wait_for(self, word: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word.encode():
                return
        raise AssertionError(f"it ended before it said {word!r}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def left(self) -> list[int]:
        found = self.state_dir.glob(f"run-{RUN}/*")
        return [pid for directory in found for pid in processes_of_lease(str(directory))]


def _nothing_left(reconciler: Reconciler) -> bool:
    return not reconciler.left()


@pytest.fixture(params=CONTAINMENTS)
def containment(request: pytest.FixtureRequest) -> Containment:
    found: Containment = request.param
    return found


@pytest.fixture
def reconcilers(
    tmp_path: Path, containment: Containment, repository: Path
) -> Iterator[list[Reconciler]]:
    started: list[Reconciler] = []
    yield started
    for reconciler in started:
        reconciler.kill()
        # What a test has left that did not wait for the end, or failed.
        wait_until(partial(_nothing_left, reconciler), "the end of all nodes", 2.0)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_no_node_outlives_a_reconciler_that_is_killed(
    tmp_path: Path,
    containment: Containment,
    repository: Path,
    reconcilers: list[Reconciler],
    number: int,
) -> None:
    # Given a reconciler, somewhere on the way from its first node to all three
    reconciler = Reconciler(tmp_path, containment, repository)
    reconcilers.append(reconciler)
    if number == 0:
        reconciler.wait_for("all")
        assert len(reconciler.left()) >= 3 * 4
    else:
        reconciler.wait_for("started")
        moment = time.monotonic() + random.Random(number).uniform(0.0, 0.3)
        while time.monotonic() < moment:
            time.sleep(0.001)

    # When it is killed
    reconciler.kill()

    # Then nothing of its nodes is left soon after
    wait_until(lambda: not reconciler.left(), "the end of all nodes", 2.0)

    # And the next one finds their leases, dead, and reclaims them
    provider = ProcessProvider(tmp_path, containment=containment)
    lock = provider.lock_run(RUN)
    listed = provider.list_leases(RUN)
    assert len(listed) >= 1
    assert {lease.state for lease in listed} == {LeaseState.DEAD}
    for lease in listed:
        assert f"made by process {reconciler.process.pid}" in lease.detail
        assert provider.find_bootstrap(lease.identity) is None
        assert provider.destroy_lease(lease.identity, lease.lease.handle)
    assert provider.list_leases(RUN) == []
    lock.close()
    provider.close()


def test_a_run_is_held_by_one_process_and_free_once_that_is_dead(
    tmp_path: Path, containment: Containment, repository: Path, reconcilers: list[Reconciler]
) -> None:
    reconciler = Reconciler(tmp_path, containment, repository)
    reconcilers.append(reconciler)
    reconciler.wait_for("all")
    provider = ProcessProvider(tmp_path)

    with pytest.raises(RunHeld, match=f"process {reconciler.process.pid} drives run 7"):
        provider.lock_run(RUN)
    assert {lease.state for lease in provider.list_leases(RUN)} == {LeaseState.LIVE}

    reconciler.kill()
    provider.lock_run(RUN).close()
    provider.close()


def test_a_fork_of_the_reconciler_keeps_no_node_alive(
    tmp_path: Path, containment: Containment, repository: Path, reconcilers: list[Reconciler]
) -> None:
    """A host that forks (multiprocessing) hands copies of every pipe to its children."""
    fork_file = tmp_path / "fork"
    reconciler = Reconciler(tmp_path, containment, repository, fork_file)
    reconcilers.append(reconciler)
    reconciler.wait_for("all")
    fork = int(fork_file.read_text())
    try:
        reconciler.kill()

        wait_until(lambda: not reconciler.left(), "the end of all nodes", 2.0)
        ProcessProvider(tmp_path).lock_run(RUN).close()
    finally:
        os.kill(fork, signal.SIGKILL)
