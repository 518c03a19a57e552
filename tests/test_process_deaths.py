"""How nodes die: by their own fault, by kill -9 of any one part, and stopped but not dead."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cluster_reconciler.executors.providers.process import Containment, provider
from tests.containments import CONTAINMENTS
from tests.process_kit import STUBBORN, Ground, Node, wait_until

BOUND_S = 3.0


@pytest.fixture(params=CONTAINMENTS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    containment: Containment = request.param
    ground = Ground(tmp_path / "state", containment)
    yield ground
    ground.close()


def settled(ground: Ground, node: Node) -> str:
    """The node's loss, once; nothing of it runs any more."""
    reason = node.wait_lost()
    wait_until(lambda: node.failures, "a failed bootstrap")
    assert (node.losses, node.failures) == ([reason], [reason])
    assert node.processes() == []
    assert ground.destroy(node)
    return reason


def test_a_boot_check_that_fails_is_named_with_what_it_said(ground: Ground) -> None:
    node = ground.start("echo never", verify_commands=("true", "echo no disk >&2; exit 4"))

    reason = settled(ground, node)

    assert reason == (
        "boot check 'echo no disk >&2; exit 4' ended with exit code 4; its last output: no disk"
    )
    assert node.stages == ["boot_checking"]
    assert "never" not in node.said


def test_a_boot_check_that_hangs_is_ended(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ground.provider, "_verify_timeout", timedelta(milliseconds=500))
    check = STUBBORN + "trap '' TERM; echo waiting for a disk; sleep 1000"
    node = ground.start("echo never", verify_commands=(check,))

    reason = settled(ground, node)

    assert "did not end within 0.5 s" in reason
    assert "waiting for a disk" in reason


def test_the_output_of_a_boot_check_is_not_lost(ground: Ground) -> None:
    # More than one read of the pipe, and less than what may wait for a slow reader.
    node = ground.start(verify_commands=("seq 1 10000",))

    node.wait_joined()

    wait_until(lambda: len(node.said) == 10_000, "every line")
    assert node.said[-1] == "10000"


def test_a_command_that_ends_at_once_says_why(ground: Ground) -> None:
    node = ground.start("seq 1 9; exec sh -c 'echo last >&2; exit 3'")

    reason = settled(ground, node)

    # The two streams are read one after the other: which one comes last is not told.
    assert "exit code 3; its last output: " in reason
    assert "9" in reason
    assert node.stages[:2] == ["boot_checking", "swactor_starting"]


def test_a_command_that_goes_into_the_background_is_told_what_to_do(ground: Ground) -> None:
    node = ground.start("sleep 1000 &")

    reason = settled(ground, node)

    assert reason == (
        "'sleep 1000 &' ended with exit code 0: keep it in the foreground, a node lives as long "
        "as its command; it printed nothing"
    )


def test_a_command_that_cannot_be_started_says_why(ground: Ground) -> None:
    node = ground.start("no-such-command-anywhere")

    assert "exit code 127; its last output: /bin/sh: 1: no-such-command-anywhere" in settled(
        ground, node
    )


def test_an_impossible_environment_says_why(ground: Ground) -> None:
    node = ground.create(ground.node())
    boot = ground.boot("true", env={"A=B": "x", "NUL": "a\0b"})

    ground.bootstrap(node, boot)

    assert "exit code 127; its last output: " in settled(ground, node)


def test_the_reason_of_a_death_is_short(ground: Ground) -> None:
    long = "y" * 50_000
    node = ground.start(f"for i in 1 2 3 4 5 6; do printf '%s\\n' {long}; done; exit 9")

    reason = settled(ground, node)

    assert "exit code 9" in reason
    assert len(reason) < 4000


def test_a_command_that_ends_after_the_join_leaves_the_swarm(ground: Ground) -> None:
    node = ground.start("while [ ! -e go ]; do sleep 0.01; done; echo bye; exit 5")
    node.wait_joined()

    (node.directory / "work" / "go").touch()

    reason = settled(ground, node)
    assert reason.endswith("exit code 5; its last output: bye")
    wait_until(lambda: node.left, "the end of its membership")
    assert reason in node.left[0]


@pytest.mark.parametrize("part", ["command", "agent", "shim"])
def test_kill_9_of_one_part_ends_the_whole(ground: Ground, part: str) -> None:
    # Given a node with a grandchild that would outlive anything
    node = ground.start(STUBBORN + "exec sleep 1000")
    node.wait_said("stubborn")
    node.wait_joined()
    assert len(node.processes()) >= 5

    # When one part of it is killed
    os.kill(node.pids()[part], signal.SIGKILL)

    # Then it is lost within a second, with a reason that a person can read
    reason = node.wait_lost(1.0)
    assert "SIGKILL" in reason
    assert part in reason or "sleep 1000" in reason
    assert settled(ground, node) == reason


def test_kill_9_of_shim_and_agent_at_once(ground: Ground) -> None:
    node = ground.start(STUBBORN + "exec sleep 1000")
    node.wait_said("stubborn")

    pids = node.pids()
    for part in ("agent", "shim"):
        os.kill(pids[part], signal.SIGKILL)

    node.wait_lost(1.0)
    assert node.processes() == []


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "STOP_SECONDS", 0.5)


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize("part", ["command", "agent", "shim"])
def test_a_part_that_is_stopped_holds_up_no_destroy(ground: Ground, part: str) -> None:
    node = ground.start(STUBBORN + "exec sleep 1000")
    node.wait_said("stubborn")
    node.wait_joined()
    os.kill(node.pids()[part], signal.SIGSTOP)

    began = time.monotonic()
    assert ground.destroy(node)

    assert time.monotonic() - began < BOUND_S
    assert node.processes() == []
    assert not node.directory.exists()
    assert node.losses == []


@pytest.mark.usefixtures("short_patience")
def test_a_stopped_shim_holds_up_no_cancel_and_no_close(ground: Ground) -> None:
    cancelled, closed = ground.start(name="a"), ground.start(name="b")
    for node in (cancelled, closed):
        node.wait_joined()
        os.kill(node.pids()["shim"], signal.SIGSTOP)

    began = time.monotonic()
    ground.provider.cancel_bootstrap(cancelled.identity, cancelled.session_id)
    assert cancelled.processes() == []
    ground.provider.close()

    assert closed.processes() == []
    assert time.monotonic() - began < 2 * BOUND_S


def test_killed_and_stopped_at_once(ground: Ground) -> None:
    """The shim is killed while its agent is stopped and cannot notice."""
    node = ground.start(STUBBORN + "exec sleep 1000")
    node.wait_said("stubborn")
    os.kill(node.pids()["agent"], signal.SIGSTOP)
    os.kill(node.pids()["shim"], signal.SIGKILL)

    node.wait_lost(1.0)

    assert node.processes() == []


def test_children_that_hide_their_mark_end_with_their_node(ground: Ground) -> None:
    """A process can clear its environment; it is found by its descent."""
    node = ground.start("(setsid env -i sleep 1000 & echo $!) ; exec sleep 1000")
    node.wait_joined()
    wait_until(lambda: ground.descendants(node), "descendants")
    hidden = [pid for pid in ground.descendants(node) if pid not in node.processes()]
    assert len(hidden) == 1

    os.kill(node.pids()["shim"], signal.SIGKILL)

    node.wait_lost(1.0)
    wait_until(lambda: not any(ground.is_living(pid) for pid in hidden), "the end of all", 2.0)
