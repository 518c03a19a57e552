"""The field case of Ctrl-C while machines are being made (F24): real signals, the real runtime, and
a provider in memory whose creates are held until the test lets them go.

The same with processes of this machine is in `test_cli_up_processes`.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.reports import UpReport
from tests.cli_kit import insist

SHAPE = "run_id: 7\ngroups:\n- {group_id: w, role: r, count: 5, provider: process}\n"
SLOW = ("w-2", "w-3", "w-4")

PROGRAM = """
import sys, threading, time
from cluster_reconciler.actors import Cluster
from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.output import prepare_streams
from cluster_reconciler.actors.cli.up import up
from cluster_reconciler.executors.providers.memory import CallKind, MemoryProvider

provider = MemoryProvider("process")
hangs = [provider.script.create(node).hang() for node in ("w-2", "w-3", "w-4")]
if "stuck" in sys.argv[1]:
    provider.script.destroy("w-0").refuse("the cloud says no", times=None)

if "hung" in sys.argv[1]:
    provider.script.destroy("w-0").hang()
    provider.script.destroy("w-1").refuse("the cloud says no", times=None)

def start(loaded, trace, drain_timeout):
    cluster = Cluster.start(loaded.shape, providers=[provider], retry=loaded.retry,
                            drain_timeout=drain_timeout)
    def tell():
        for hang in hangs:
            hang.wait_until_reached()
        while provider.world.size < 2:
            time.sleep(0.01)
        print("three creates are in flight", file=sys.stderr, flush=True)
        sys.stdin.readline()
        for hang in hangs:
            hang.release()
    threading.Thread(target=tell, daemon=True).start()
    return cluster

prepare_streams()
code = up(make_parser().parse_args(sys.argv[2:], UpOptions()), start)
print(f"machines: {provider.world.creations()} made, {provider.world.size} left", file=sys.stderr)
sys.exit(code)
"""


class Up:
    """`up` in a process of its own; a line on its stdin lets the creates go."""

    def __init__(self, folder: Path, *arguments: str, behaviour: str = "") -> None:
        (folder / "shape.yaml").write_text(SHAPE)
        self._errors = folder / "stderr"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, behaviour, "up", "shape.yaml", *arguments],
                cwd=folder,
                env={**os.environ, "TZ": "UTC"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.errors:
            assert self.process.poll() is None, self.errors
            assert time.monotonic() < deadline, f"no {text!r} in: {self.errors}"
            time.sleep(0.01)

    def let_the_creates_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def report(self) -> UpReport:
        """Once it has ended."""
        out, _ = self.process.communicate(timeout=30)
        assert "Traceback" not in self.errors
        return msgspec.json.decode(out.splitlines()[-1], type=UpReport)


@pytest.fixture
def ups() -> Iterator[list[Up]]:
    started: list[Up] = []
    yield started
    for up in started:
        if up.process.poll() is None:
            up.process.kill()
        up.process.communicate()


def test_f24_the_first_ctrl_c_resolves_the_creates_in_flight_and_leaves_nothing(
    tmp_path: Path, ups: list[Up]
) -> None:
    # given five nodes, three of whose creates are in flight
    ups.append(up := Up(tmp_path, "--json"))
    up.wait_for("three creates are in flight")

    # when the user presses Ctrl-C once
    up.process.send_signal(signal.SIGINT)

    # then it says what it waits for, for how long, and how to force
    up.wait_for("SIGINT: draining, waits for")
    [said] = [line for line in up.errors.splitlines() if "SIGINT: draining" in line]
    assert "3 creates in flight, at most 2m" in said
    assert f"Ctrl-C again, or `kill {up.process.pid}`, ends it at once" in said

    # and once they answer, what they made is destroyed
    up.let_the_creates_go()
    report = up.report()
    assert (report.exit_code, up.process.returncode, report.signal) == (130, 130, "SIGINT")
    assert (report.drained, report.left) == (True, ())
    assert "drained: nothing is left" in up.errors
    assert "machines: 5 made, 0 left" in up.errors


def test_f24_the_end_lists_every_lease_that_still_exists(tmp_path: Path, ups: list[Up]) -> None:
    # given a machine that its provider does not destroy
    ups.append(up := Up(tmp_path, "--json", "--drain-timeout", "1s", behaviour="stuck"))
    up.wait_for("three creates are in flight")

    # when the user presses Ctrl-C once, and the time for the drain is over
    up.process.send_signal(signal.SIGINT)
    up.wait_for("SIGINT: draining, waits for")
    up.let_the_creates_go()
    report = up.report()

    # then that lease alone is named, and the exit code says that something is left
    assert [(left.node, left.certain) for left in report.left] == [("w-0", True)]
    assert (report.exit_code, up.process.returncode, report.drained) == (1, 1, False)
    assert "machines: 5 made, 1 left" in up.errors
    [named] = [line for line in up.errors.splitlines() if "node w-0, attempt 1" in line]
    assert report.left[0].lease_id is not None
    assert report.left[0].lease_id in named


def test_f24_the_second_ctrl_c_ends_within_two_seconds_and_names_what_may_exist(
    tmp_path: Path, ups: list[Up]
) -> None:
    # given a drain that waits for three creates
    ups.append(up := Up(tmp_path, "--json"))
    up.wait_for("three creates are in flight")
    up.process.send_signal(signal.SIGINT)
    up.wait_for("SIGINT: draining, waits for")

    # when the user presses Ctrl-C again
    took = insist(up.process, signal.SIGINT)
    report = up.report()

    # then it ends at once, and each create of unknown outcome stands there with its token
    assert took < 2
    assert (report.exit_code, up.process.returncode, report.drained) == (1, 1, False)
    unknown = {left.node: left for left in report.left if not left.certain}
    assert set(unknown) == set(SLOW)
    for node, left in unknown.items():
        token = f"run 7, node {node}, attempt {left.attempt}"
        assert left.lease_id is None
        assert token in str(left)
        assert token in up.errors


def test_f24_the_second_ctrl_c_says_of_each_lease_what_was_asked_and_nothing_follows(
    tmp_path: Path, ups: list[Up]
) -> None:
    # given a drain in which one destroy hangs, one is refused, and three creates are in flight
    ups.append(up := Up(tmp_path, "--once", behaviour="hung"))
    up.wait_for("three creates are in flight")
    up.process.send_signal(signal.SIGINT)
    up.wait_for("w-1 the cloud says no")

    # when the user presses Ctrl-C again
    insist(up.process, signal.SIGINT)
    up.process.communicate(timeout=30)

    # then each line says what was sent and how long ago, and the list is the last that is said
    said = re.sub(r"\d+\.\d s", "N s", re.sub(r"op\((\d+),\d+\)", r"op(\1)", up.errors))
    end = said[said.index("SIGINT again:") :].splitlines()
    assert end[1] == "5 leases are left, or may be:"
    assert [line.partition(" (")[2] for line in end[2:-1]] == [
        "destroy_lease, op(1), is in flight, unanswered for N s)",
        "its cleanup waits for its next try; last error: the cloud says no)",
        "create_lease, op(3), is in flight, unanswered for N s)",
        "create_lease, op(4), is in flight, unanswered for N s)",
        "create_lease, op(5), is in flight, unanswered for N s)",
    ]
    assert end[-1] == "the next `up` of this run names them and takes back what it can"
