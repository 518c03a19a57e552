"""Real nodes on this machine, through the process provider's own interface (design §7)."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from cluster_reconciler.actors.swarm import SwarmListener
from cluster_reconciler.executors.provider import (
    BootstrapContext,
    LeaseState,
    ProviderError,
    Stream,
)
from cluster_reconciler.executors.providers.process import Containment, ProcessProvider
from cluster_reconciler.executors.providers.process.leases import RunHeld
from cluster_reconciler.executors.providers.process.processes import processes_of_lease
from cluster_reconciler.executors.providers.process.spawning import unshare_command
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootSpec,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapSessionSpec,
    DestroyHandle,
    LocalEndpoint,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    NodeGroupId,
    ProviderKind,
    ProviderLeaseId,
    RoleId,
    RunId,
    SessionObservation,
    SwactorId,
    SwarmJoinSpec,
)

RUN = RunId(7)
SESSION = BootstrapSessionId(41)
PROCESS = ProviderKind("process")
HANDLE = DestroyHandle(PROCESS, ProviderLeaseId("any"))
STUBBORN = "(setsid sh -c 'trap : TERM; while :; do sleep 1; done' &); exec sleep 1000"
"""A command with a grandchild in a session of its own that ignores TERM."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger.remove()
    yield
    logger.add(sys.stderr)


class Rig:
    """A provider, a real swarm listener, and all that is told."""

    def __init__(self, state_dir: Path, containment: Containment) -> None:
        self.provider = ProcessProvider(
            state_dir, join_after=timedelta(milliseconds=50), containment=containment
        )
        self.state_dir = state_dir
        self.changed = threading.Condition()
        self.reports: list[SessionObservation] = []
        self.losses: list[str] = []
        self.lines: list[tuple[Stream, int, str]] = []
        self.joins: list[tuple[AttemptIdentity, BootstrapSessionId, SwactorId]] = []
        self.swarm_losses: list[str] = []
        self.swarm = SwarmListener(grace=timedelta(seconds=30))
        self.swarm.start(
            lambda *joined: self._add(self.joins, joined),
            lambda _identity, reason: self._add(self.swarm_losses, reason),
        )

    def _add(self, where: list[Any], what: object) -> None:
        with self.changed:
            where.append(what)
            self.changed.notify_all()

    def lease(self, node: str = "g-0", attempt: int = 1) -> AttemptIdentity:
        identity = AttemptIdentity(RUN, LogicalNodeId(node), NodeAttemptId(attempt))
        self.provider.create_lease(identity, _spec(node))
        return identity

    def start(self, identity: AttemptIdentity, boot: BootSpec, **env: str) -> Path:
        created = self.provider.find_lease(identity)
        assert created is not None
        assert isinstance(created.endpoint, LocalEndpoint)
        session = BootstrapSessionSpec(
            RUN, identity.node, created.lease.lease_id, created.endpoint, boot, SwarmJoinSpec()
        )
        context = BootstrapContext(
            identity=identity,
            session_id=SESSION,
            env=env,
            ticket=self.swarm.ticket(identity),
            report=lambda seen: self._add(self.reports, seen),
            lost=lambda reason: self._add(self.losses, reason),
            output=lambda *line: self._add(self.lines, line),
        )
        self.provider.start_bootstrap(session, context)
        return Path(created.endpoint.directory)

    def running(self, command: str, node: str = "g-0") -> tuple[AttemptIdentity, Path]:
        """A node that has joined."""
        identity = self.lease(node)
        directory = self.start(identity, BootSpec(start_swactor_command=command))
        self.until(lambda: any(joined[0] == identity for joined in self.joins))
        return identity, directory

    def until(self, holds: Callable[[], object], seconds: float = 10.0) -> None:
        with self.changed:
            assert self.changed.wait_for(holds, seconds), (self.reports, self.losses, self.lines)

    def close(self) -> None:
        self.provider.close()
        self.swarm.close(timedelta(seconds=2))


def _spec(node: str) -> LogicalNodeSpec:
    return LogicalNodeSpec(RUN, LogicalNodeId(node), NodeGroupId("g"), RoleId("worker"), PROCESS)


@pytest.fixture(params=list(Containment))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    containment: Containment = request.param
    if containment is Containment.NAMESPACE and unshare_command() is None:
        pytest.skip("this machine allows no pid namespace")
    rig = Rig(tmp_path / "state dir", containment)
    yield rig
    rig.close()
    for path in (tmp_path / "state dir").glob("run-*/*"):
        assert processes_of_lease(str(path)) == []


def pids(directory: Path) -> dict[str, int]:
    found = json.loads((directory / "processes.json").read_text(encoding="utf-8"))
    return {name: pid for name, (pid, _started) in found.items()}


def test_a_node_checks_starts_joins_and_goes(rig: Rig) -> None:
    identity = rig.lease()
    boot = BootSpec(
        verify_commands=("echo checked", "test -w ."),
        start_swactor_command="echo hello; echo oops >&2; exec sleep 1000 #",
        args=("it's", "quoted"),
    )
    directory = rig.start(identity, boot, GREETING="hi")
    rig.until(lambda: rig.joins and len(rig.lines) == 3)
    stages = [seen.stage for seen in rig.reports if isinstance(seen, BootstrapObserved)]
    assert stages == ["boot_checking", "swactor_starting", "waiting_for_swactor_join"]
    assert rig.joins == [(identity, SESSION, "g-0/1")]
    assert sorted(rig.lines) == [
        ("stderr", 1, "oops"),
        ("stdout", 1, "checked"),
        ("stdout", 2, "hello"),
    ]
    assert set(pids(directory)) == {"shim", "agent", "command"}
    rig.provider.cancel_bootstrap(identity, SESSION)
    assert processes_of_lease(str(directory)) == []
    assert rig.provider.destroy_lease(identity, HANDLE)
    assert rig.provider.destroy_lease(identity, HANDLE)
    assert not directory.exists()
    assert (rig.losses, rig.provider.find_lease(identity)) == ([], None)
    [kept] = rig.provider.ended_dir.glob("*/stdout.log")
    assert kept.read_text(encoding="utf-8") == "checked\nhello\n"


def test_a_lease_is_made_once(rig: Rig) -> None:
    identity = rig.lease()
    first = rig.provider.find_lease(identity)
    assert rig.provider.create_lease(identity, _spec("g-0")) == first
    assert [lease.identity for lease in rig.provider.list_leases(RUN)] == [identity]


@pytest.mark.parametrize(
    ("boot", "said"),
    [
        (BootSpec(verify_commands=("true", "echo no gpu; exit 3")), "exit code 3.*no gpu"),
        (BootSpec(start_swactor_command="echo bad config >&2; exit 4"), "exit code 4.*bad config"),
        (BootSpec(start_swactor_command="kill -SEGV $$"), "ended by SIGSEGV"),
        (BootSpec(start_swactor_command="no-such-program"), "exit code 127.*not found"),
    ],
)
def test_a_bootstrap_that_fails_says_why(rig: Rig, boot: BootSpec, said: str) -> None:
    directory = rig.start(rig.lease(), boot)
    rig.until(lambda: rig.losses)
    [failed] = [seen for seen in rig.reports if isinstance(seen, BootstrapFailed)]
    assert re.search(said, failed.reason)
    assert rig.losses == [failed.reason]
    assert rig.joins == []
    assert processes_of_lease(str(directory)) == []


@pytest.mark.parametrize("victim", ["command", "agent", "shim"])
def test_the_death_of_any_part_is_the_nodes_loss_and_leaves_nothing(rig: Rig, victim: str) -> None:
    _identity, directory = rig.running(STUBBORN)
    os.kill(pids(directory)[victim], signal.SIGKILL)
    rig.until(lambda: rig.losses)
    assert processes_of_lease(str(directory)) == []
    [reason] = rig.losses
    expected = {"command": "ended by SIGKILL", "agent": "SIGKILL", "shim": "shim ended"}[victim]
    assert expected in reason


@pytest.mark.parametrize("victim", ["agent", "shim", "command"])
def test_a_stopped_process_delays_the_end_and_does_not_prevent_it(rig: Rig, victim: str) -> None:
    identity, directory = rig.running(STUBBORN)
    os.kill(pids(directory)[victim], signal.SIGSTOP)
    assert rig.provider.destroy_lease(identity, HANDLE)
    assert processes_of_lease(str(directory)) == []
    assert not directory.exists()


def test_no_secret_stands_where_others_can_read_it(rig: Rig) -> None:
    identity = rig.lease()
    boot = BootSpec(start_swactor_command="exec sleep 1000")
    directory = rig.start(identity, boot, API_KEY="s3cr3t-value")
    rig.until(lambda: rig.joins)
    found = pids(directory)
    token = rig.swarm.ticket(identity).token
    for name, pid in found.items():
        assert b"s3cr3t-value" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert token.encode() not in environment
        assert (b"s3cr3t-value" in environment) == (name == "command")
    for path in rig.state_dir.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"s3cr3t-value" not in content
            assert token.encode() not in content


def test_a_command_inherits_no_descriptor_of_ours(rig: Rig) -> None:
    rig.running("exec sleep 1000", "g-0")
    _identity, directory = rig.running("exec sleep 1000", "g-1")
    opened = os.listdir(f"/proc/{pids(directory)['command']}/fd")
    assert sorted(opened) == ["0", "1", "2"]


@pytest.mark.parametrize(
    "node", ["../../etc", "a/b", "ünïcode ☃", "x" * 300, ".", "..", "new\nline", "'; rm -rf /"]
)
def test_any_node_id_makes_a_safe_directory(tmp_path: Path, node: str) -> None:
    provider = ProcessProvider(tmp_path / "state")
    identity = AttemptIdentity(RUN, LogicalNodeId(node), NodeAttemptId(1))
    created = provider.create_lease(identity, _spec(node))
    assert isinstance(created.endpoint, LocalEndpoint)
    assert Path(created.endpoint.directory).parent == tmp_path / "state" / "run-7"
    assert [lease.identity for lease in provider.list_leases(RUN)] == [identity]
    assert provider.destroy_lease(identity, HANDLE)
    provider.close()


def test_a_state_directory_that_cannot_be_written_is_a_readable_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    provider = ProcessProvider(tmp_path / "file")
    identity = AttemptIdentity(RUN, LogicalNodeId("g-0"), NodeAttemptId(1))
    with pytest.raises(ProviderError, match="the node directory cannot be made"):
        provider.create_lease(identity, _spec("g-0"))
    provider.close()


def test_a_run_is_driven_once(tmp_path: Path) -> None:
    one, other = ProcessProvider(tmp_path), ProcessProvider(tmp_path)
    lock = one.lock_run(RUN)
    with pytest.raises(RunHeld, match=f"process {os.getpid()} drives run 7 already"):
        other.lock_run(RUN)
    other.lock_run(RunId(8)).close()
    lock.close()
    other.lock_run(RUN).close()
    one.close()
    other.close()


OWNER = """
import sys, time
from datetime import timedelta
from pathlib import Path
from cluster_reconciler.actors import Cluster
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.executors.providers.process import Containment, ProcessProvider
from cluster_reconciler.messages import BootSpec
from msgspec.structs import replace
boot = BootSpec(start_swactor_command=sys.argv[3])
wanted = shape(replace(group(count=3), provider="process", boot=boot))
provider = ProcessProvider(Path(sys.argv[1]), containment=Containment(sys.argv[2]))
Cluster.start(wanted, providers=[provider])
print("started", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("after", [0.0, 0.15, 0.6, 2.0])
def test_no_node_outlives_a_reconciler_that_is_killed(rig: Rig, after: float) -> None:
    containment = rig.provider._containment_or_best()
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(rig.state_dir), containment, STUBBORN],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"started\n"
    threading.Event().wait(after)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    leases = [path for path in rig.state_dir.glob("run-7/*") if path.is_dir()]
    deadline = time.monotonic() + 2.0
    while any(processes_of_lease(str(path)) for path in leases) and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    assert [processes_of_lease(str(path)) for path in leases] == [[] for _ in leases]
    listed = rig.provider.list_leases(RUN)
    assert {lease.state for lease in listed} <= {LeaseState.DEAD}
    for lease in listed:
        assert f"made by process {owner.pid}" in lease.detail
        assert rig.provider.destroy_lease(lease.identity, lease.lease.handle)
    assert rig.provider.list_leases(RUN) == []


def test_a_hundred_ends_leave_nothing_growing(rig: Rig) -> None:
    def level() -> tuple[int, int]:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
        return len(os.listdir("/proc/self/fd")), len(children.split())

    levels = []
    for attempt in range(1, 61):
        identity = rig.lease(attempt=attempt)
        rig.start(identity, BootSpec(verify_commands=("exit 3",)))
        rig.until(lambda wanted=attempt: len(rig.losses) == wanted)  # type: ignore[misc]
        assert rig.provider.destroy_lease(identity, HANDLE)
        levels.append(level())
    assert levels[-1] == levels[4]


def test_a_closed_provider_starts_nothing(rig: Rig) -> None:
    _identity, directory = rig.running("exec sleep 1000")
    late = rig.lease("g-1")
    rig.provider.close()
    assert processes_of_lease(str(directory)) == []
    with pytest.raises(ProviderError, match="closed"):
        rig.start(late, BootSpec())
