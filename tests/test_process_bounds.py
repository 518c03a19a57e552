"""What must not grow, leak or be seen: files, threads, logs, lines, secrets, descriptors.

Thousands of attempts: `python -m tests.proofs crashes`.
"""

import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_reconciler.executors.node import reports
from cluster_reconciler.executors.provider import LeaseState, ProviderError
from cluster_reconciler.executors.providers.process import Containment, ProcessProvider, leases
from cluster_reconciler.executors.providers.process.processes import processes_of_lease
from cluster_reconciler.executors.providers.process.provider import default_state_dir
from cluster_reconciler.messages import BootSpec, RunId
from tests.containments import CONTAINMENTS
from tests.process_kit import Ground, Node, wait_until

ATTEMPTS = 20
SETTLED = 5


@pytest.fixture(params=CONTAINMENTS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    containment: Containment = request.param
    ground = Ground(tmp_path / "state", containment)
    yield ground
    ground.close()


def level() -> dict[str, int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    return {
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "children": len(children.split()),
    }


def test_f22_nothing_grows_with_the_attempts_of_real_nodes(ground: Ground) -> None:
    settled: dict[str, int] = {}
    for attempt in range(1, ATTEMPTS + 1):
        node = ground.start("exit 3", attempt=attempt)
        node.wait_lost()
        assert ground.destroy(node)
        if attempt == SETTLED:
            settled = level()

    wait_until(lambda: level() == settled, f"the level of the first {SETTLED}: {settled}")
    assert not list(ground.state_dir.glob("run-*/*"))


def test_kept_logs_are_bounded(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "ENDED_MAX", 3)
    for attempt in range(1, 6):
        node = ground.start(f"echo attempt {attempt}; exit 3", attempt=attempt)
        node.wait_lost()
        assert ground.destroy(node)

    kept = sorted(path.name.split("-")[-2] for path in ground.provider.ended_dir.iterdir())

    assert kept == ["3", "4", "5"]


def test_a_closed_provider_leaves_no_thread_no_file_and_no_node(tmp_path: Path) -> None:
    before = level()
    ground = Ground(tmp_path / "state", Containment.SUBREAPER)
    node = ground.start()
    node.wait_joined()

    ground.close()

    assert node.processes() == []
    wait_until(lambda: level() == before, f"the level before: {before}")
    ground.provider.close()
    [listed] = ground.provider.list_leases(RunId(7))
    assert listed.state is LeaseState.DEAD
    with pytest.raises(ProviderError, match="is closed"):
        ground.create(ground.node("late"))
    with pytest.raises(ProviderError, match="is closed"):
        ground.bootstrap(node, BootSpec())
    ground.provider.cancel_bootstrap(node.identity, node.session_id)
    assert ground.destroy(node)
    ProcessProvider(tmp_path / "never used").close()
    assert level() == before


def test_secrets_are_seen_by_the_command_alone(ground: Ground) -> None:
    secret = "s3cr3t-but-not-in-any-list"
    node = ground.create(ground.node())
    boot = BootSpec(verify_commands=("exit 0",), start_swactor_command="exec sleep 1000")
    ground.bootstrap(node, boot, env={"API_KEY": secret})
    node.wait_joined()
    hidden = (secret.encode(), ground.swarm.ticket(node.identity).token.encode())

    for pid in node.processes():
        assert not any(word in Path(f"/proc/{pid}/cmdline").read_bytes() for word in hidden)
        if pid != node.pids()["command"]:
            assert not any(word in Path(f"/proc/{pid}/environ").read_bytes() for word in hidden)
    environment = Path(f"/proc/{node.pids()['command']}/environ").read_bytes()
    assert (hidden[0] in environment, hidden[1] in environment) == (True, False)
    assert ground.destroy(node)
    files = [path for path in ground.state_dir.rglob("*") if path.is_file()]
    assert not any(word in path.read_bytes() for path in files for word in hidden)


def test_a_secret_that_is_no_text_is_refused_without_being_told(ground: Ground) -> None:
    node = ground.create(ground.node())

    with pytest.raises(ProviderError, match="is no text") as refused:
        ground.bootstrap(node, BootSpec(), env={"API_KEY": "s3cr3t\ud800"})

    assert "s3cr3t" not in str(refused.value)
    assert "s3cr3t" not in repr(refused.value.__cause__)


def test_an_environment_that_is_no_utf8_goes_through_as_it_is(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = os.fsdecode(b"/opt/caf\xe9")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{strange}")
    node = ground.start('echo "${PATH##*:}" | od -An -tx1 | tr -d " "; exec sleep 1000')

    node.wait_said("2f6f70742f636166e90a")


def test_a_state_directory_that_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="choose another state_dir"):
        ProcessProvider(tmp_path / os.fsdecode(b"caf\xe9"))


def test_what_a_node_writes_is_for_its_owner_alone(ground: Ground) -> None:
    node = ground.start("echo hello; exec sleep 1000")
    node.wait_said("hello")

    names = ("stdout.log", "stderr.log", "shim.log")
    modes = [stat.S_IMODE((node.directory / name).stat().st_mode) for name in names]

    assert modes == [0o600] * 3
    above = (ground.state_dir, node.directory.parent, node.directory, node.directory / "work")
    assert [stat.S_IMODE(path.stat().st_mode) for path in above] == [0o700] * 4


def test_a_command_inherits_three_descriptors_and_no_session_of_ours(ground: Ground) -> None:
    ground.start(name="first").wait_joined()
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        node = ground.start(name="second")
    finally:
        os.close(inherited)
    node.wait_joined()

    assert sorted(os.listdir(f"/proc/{node.pids()['command']}/fd")) == ["0", "1", "2"]
    sessions = {os.getsid(pid) for pid in node.processes()}
    assert os.getsid(0) not in sessions


def test_a_host_that_blocks_signals_does_not_deafen_its_nodes(ground: Ground) -> None:
    numbers = (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        ended = ground.start("exit 3", name="ends")
        node = ground.start("trap 'echo heard; exit' TERM; echo up; while :; do sleep 0.05; done")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    assert "exit code 3" in ended.wait_lost(3.0)
    node.wait_said("up")
    assert ground.destroy(node)
    node.wait_said("heard")


def test_any_output_becomes_bounded_lines(ground: Ground) -> None:
    command = r"printf 'bad \377 byte\n\n'; head -c 200000 /dev/zero | tr '\0' x; printf '\nno end'"
    node = ground.start(command + "; exec sleep 1000 2>&1 >/dev/null")

    wait_until(lambda: "".join(node.said).count("x") == 200_000, "the long line")

    assert node.said[:2] == ["bad \ufffd byte", ""]
    assert max(len(text) for text in node.said) <= 64 * 1024


def test_a_last_line_without_its_end_is_told(ground: Ground) -> None:
    node = ground.start("printf 'no end'; exit 3")

    assert node.wait_lost().endswith("its last output: no end")
    assert node.said == ["no end"]


def test_further_sources_are_followed_to_their_last_line(ground: Ground) -> None:
    command = "echo one >app.log; sleep 0.4; printf 'two\nthree' >>app.log; exit 3"
    node = ground.start(command, stdout_sources=("app.log", "never.log"))

    node.wait_lost()

    assert node.said == ["one", "two", "three"]


def test_a_log_is_begun_anew_at_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "LOG_BYTES_MAX", 100)
    log = reports._Log(str(tmp_path / "stdout.log"))
    for number in range(100):
        log.write(f"line {number}")

    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert len(sizes) == 2
    assert max(sizes) <= 100
    assert (tmp_path / "stdout.log").read_text(encoding="utf-8").endswith("line 99\n")

    # A log that is opened again goes on within its bound.
    again = reports._Log(str(tmp_path / "stdout.log"))
    for _ in range(20):
        again.write("again")
    assert (tmp_path / "stdout.log").stat().st_size <= 100


def test_a_log_whose_place_is_gone_writes_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed descriptor's number is soon another file's."""
    monkeypatch.setattr(reports, "LOG_BYTES_MAX", 10)
    folder = tmp_path / "lease"
    folder.mkdir()
    log = reports._Log(str(folder / "stdout.log"))
    log.write("12345678")
    (folder / "stdout.log").unlink()
    folder.rmdir()
    log.write("to nobody")
    with (tmp_path / "other").open("wb") as other:
        for _ in range(3):
            log.write("to nobody")
        other.flush()

    assert (tmp_path / "other").read_bytes() == b""


def test_a_work_folder_that_resists_goes_with_its_lease(ground: Ground) -> None:
    node = ground.start("mkdir -p a/b; touch a/b/c; chmod 0 a/b a; exit 3")
    node.wait_lost()

    assert ground.destroy(node)

    assert not node.directory.exists()


def test_a_lock_that_cannot_be_taken_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    provider = ProcessProvider(tmp_path / "file")

    with pytest.raises(ProviderError, match=r"no lock can be taken below .*file: .*choose another"):
        provider.lock_run(RunId(7))

    provider.close()


def test_a_state_directory_has_one_name(tmp_path: Path) -> None:
    """However it is spelt: the next start must find the marks of this one."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ground = Ground(tmp_path / "link", Containment.SUBREAPER)
    node: Node = ground.create(ground.node())
    ground.bootstrap(node, BootSpec(start_swactor_command="exec sleep 1000"))
    node.wait_joined()

    assert len(processes_of_lease(str(tmp_path / "real" / node.lease_id))) >= 3

    assert ground.destroy(node)
    ground.close()


@pytest.mark.parametrize(
    ("given", "below"),
    [
        ("/elsewhere", "/elsewhere"),
        ("relative", "/of-somebody/.local/state"),
        ("~/state", "/of-somebody/.local/state"),
        ("", "/of-somebody/.local/state"),
        (None, "/of-somebody/.local/state"),
    ],
)
def test_a_state_home_that_is_not_absolute_is_ignored(
    monkeypatch: pytest.MonkeyPatch, given: str | None, below: str
) -> None:
    """As the XDG base directory specification asks."""
    monkeypatch.setenv("HOME", "/of-somebody")
    if given is None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", given)
    assert default_state_dir() == Path(below, "cluster-reconciler")
