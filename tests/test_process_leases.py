"""Leases as directories: what a killed process leaves of them, and what is kept how long.  No node
is started here."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from cluster_reconciler.executors.provider import ProviderError
from cluster_reconciler.executors.providers.process import ProcessProvider, leases
from cluster_reconciler.executors.providers.process.run_lock import RunHeld
from cluster_reconciler.messages import (
    AttemptIdentity,
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
)

KIND = ProviderKind("process")
HANDLE = DestroyHandle(KIND, ProviderLeaseId("any"))
DAY_S = 86_400


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[ProcessProvider]:
    provider = ProcessProvider(tmp_path)
    yield provider
    provider.close()


def identity_of(run: int, attempt: int = 1, node: str = "n-0") -> AttemptIdentity:
    return AttemptIdentity(RunId(run), LogicalNodeId(node), NodeAttemptId(attempt))


def spec_of(identity: AttemptIdentity) -> LogicalNodeSpec:
    return LogicalNodeSpec(identity.run_id, identity.node, NodeGroupId("n"), RoleId("worker"), KIND)


def leased(
    provider: ProcessProvider, run: int, attempt: int = 1, node: str = "n-0"
) -> AttemptIdentity:
    identity = identity_of(run, attempt, node)
    provider.create_lease(identity, spec_of(identity))
    return identity


def directory(provider: ProcessProvider, identity: AttemptIdentity) -> Path:
    found = provider.find_lease(identity)
    assert found is not None
    assert isinstance(found.endpoint, LocalEndpoint)
    return Path(found.endpoint.directory)


def test_a_half_removed_lease_is_none_and_goes_with_the_next_lock(
    provider: ProcessProvider,
) -> None:
    # Given a lease that is whole, and one whose removal was interrupted by a kill
    whole, half = leased(provider, 7, attempt=1), leased(provider, 7, attempt=2)
    place = directory(provider, half)
    (place / "work" / "old").write_text("of the attempt before", encoding="utf-8")
    (place / "work").chmod(0o500)
    (place / "identity.json").unlink()
    assert [lease.identity for lease in provider.list_leases(RunId(7))] == [whole]

    # When the next reconciler takes the run
    provider.lock_run(RunId(7)).close()

    # Then its name can come again and finds nothing of it, and the other lease is untouched
    assert not place.exists()
    assert [lease.identity for lease in provider.list_leases(RunId(7))] == [whole]
    again = leased(provider, 7, attempt=2)
    assert list((directory(provider, again) / "work").iterdir()) == []


def ruined(place: Path, how: str, neighbour: Path) -> None:
    """What a node may make of its folder."""
    identity = place / "identity.json"
    match how:
        case "identity is broken":
            identity.write_text("{", encoding="utf-8")
        case "identity is a folder":
            identity.unlink()
            identity.mkdir()
            (identity / "in it").touch()
        case "identity is a pipe":
            identity.unlink()
            os.mkfifo(identity)
        case "identity is huge":
            with identity.open("r+b") as file:
                file.truncate(8 * 1024**3)
        case "identity is deep":
            identity.write_text('{"x":' + "[" * 200_000, encoding="utf-8")
        case "identity is a link":
            identity.unlink()
            identity.symlink_to("/proc/kmsg")
        case "identity is another's":
            shutil.copy(neighbour / "identity.json", identity)
        case "a file":
            shutil.rmtree(place)
            place.write_text("precious", encoding="utf-8")
        case "a link":
            shutil.rmtree(place)
            place.symlink_to(neighbour)


RUINS = (
    "identity is broken",
    "identity is a folder",
    "identity is a pipe",
    "identity is huge",
    "identity is deep",
    "identity is a link",
    "identity is another's",
    "a file",
    "a link",
)


@pytest.mark.parametrize("how", RUINS)
def test_what_a_node_makes_of_its_folder_goes_with_it_and_harms_no_neighbour(
    provider: ProcessProvider, how: str
) -> None:
    # Given a node that has ruined its folder, and a neighbour
    identity, neighbour = leased(provider, 7, attempt=1), leased(provider, 7, attempt=2)
    place, other = directory(provider, identity), directory(provider, neighbour)
    (other / "stdout.log").write_text("of the neighbour", encoding="utf-8")
    ruined(place, how, other)

    # When it is destroyed
    assert provider.destroy_lease(identity, HANDLE)

    # Then it is gone, and the neighbour is whole
    assert not os.path.lexists(place)
    assert [lease.identity for lease in provider.list_leases(RunId(7))] == [neighbour]
    assert (other / "stdout.log").read_text(encoding="utf-8") == "of the neighbour"


@pytest.mark.parametrize("how", RUINS)
def test_what_cannot_be_read_is_put_aside_for_the_next_process(
    provider: ProcessProvider, how: str
) -> None:
    # Given what a process left that was killed
    identity, neighbour = leased(provider, 7, attempt=1), leased(provider, 7, attempt=2)
    place = directory(provider, identity)
    ruined(place, how, directory(provider, neighbour))

    # When the next one takes the run
    provider.lock_run(RunId(7)).close()

    # Then it is kept, for people, and its name is free
    [aside] = provider.ended_dir.iterdir()
    assert aside.name.startswith(f"run-7-{place.name}-")
    leased(provider, 7, attempt=1)
    assert [lease.identity for lease in provider.list_leases(RunId(7))] == [identity, neighbour]


def test_a_run_folder_that_is_none_is_put_aside(provider: ProcessProvider, tmp_path: Path) -> None:
    (tmp_path / "run-7").write_text("precious", encoding="utf-8")
    assert provider.list_leases(RunId(7)) == []

    provider.lock_run(RunId(7)).close()

    [aside] = provider.ended_dir.iterdir()
    assert aside.read_text(encoding="utf-8") == "precious"
    leased(provider, 7)


def test_what_a_node_says_of_its_processes_is_taken_for_no_more_than_that(
    provider: ProcessProvider,
) -> None:
    identity = leased(provider, 7)
    told = '{"command": [4, 5], "directory": [1, 2], "\\u001b[31m": [6, 7]}'
    (directory(provider, identity) / "processes.json").write_text(told, encoding="utf-8")

    described = provider.describe_node(identity)

    assert set(described) == {"directory", "logs_when_ended", "command"}
    assert described["directory"] == str(directory(provider, identity))
    assert described["command"].endswith("pid 4, started 5")


def test_a_lease_that_cannot_be_made_leaves_nothing(
    provider: ProcessProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ProviderError, match="No space left on device; make the place writable"):
        leased(provider, 7)

    assert list(tmp_path.glob("run-7/*")) == []


def test_kept_logs_go_after_a_week(provider: ProcessProvider) -> None:
    now = time.time()
    for attempt, days in ((1, 8), (2, 6)):
        identity = leased(provider, 7, attempt)
        (directory(provider, identity) / "stdout.log").write_text("hello\n", encoding="utf-8")
        assert provider.destroy_lease(identity, HANDLE)
        [kept] = provider.ended_dir.glob(f"*-{attempt}-*")
        os.utime(kept, (now - days * DAY_S, now - days * DAY_S))

    assert provider.destroy_lease(leased(provider, 7, attempt=3), HANDLE)

    [kept] = provider.ended_dir.iterdir()
    assert (kept / "stdout.log").read_text(encoding="utf-8") == "hello\n"
    assert kept.name.split("-")[-2] == "2"


def test_kept_logs_of_an_attempt_are_not_those_of_the_next_process(
    provider: ProcessProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(1)
    monkeypatch.setattr(leases, "_ended_at", lambda: f"20260101T00000{next(seconds)}")
    for word in ("first", "second"):
        identity = leased(provider, 7)
        (directory(provider, identity) / "stdout.log").write_text(word, encoding="utf-8")
        assert provider.destroy_lease(identity, HANDLE)

    kept = sorted(provider.ended_dir.iterdir())
    assert [(path / "stdout.log").read_text(encoding="utf-8") for path in kept] == [
        "first",
        "second",
    ]


def test_a_lock_that_is_refused_sweeps_nothing(provider: ProcessProvider, tmp_path: Path) -> None:
    lock = provider.lock_run(RunId(7))
    half = tmp_path / "run-7" / "n-0-being-made-1"
    half.mkdir(parents=True)
    other = ProcessProvider(tmp_path)

    with pytest.raises(Exception, match="drives run 7 already"):
        other.lock_run(RunId(7))

    assert half.is_dir()
    other.close()
    lock.close()


def test_a_lease_is_made_once(provider: ProcessProvider) -> None:
    identity = leased(provider, 7)
    first = provider.find_lease(identity)

    assert provider.create_lease(identity, spec_of(identity)) == first

    assert [lease.identity for lease in provider.list_leases(RunId(7))] == [identity]


@pytest.mark.parametrize(
    "node", ["../../etc", "a/b", "ünïcode ☃", "x" * 300, ".", "..", "new\nline", "'; rm -rf /"]
)
def test_any_node_id_makes_a_safe_directory(
    provider: ProcessProvider, tmp_path: Path, node: str
) -> None:
    identity = leased(provider, 7, node=node)

    assert directory(provider, identity).parent == tmp_path / "run-7"
    assert [lease.identity for lease in provider.list_leases(RunId(7))] == [identity]
    assert provider.destroy_lease(identity, HANDLE)


def test_a_state_directory_that_cannot_be_written_is_a_readable_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    provider = ProcessProvider(tmp_path / "file")

    with pytest.raises(ProviderError, match="the node directory cannot be made"):
        leased(provider, 7)

    provider.close()


def test_a_run_is_held_even_when_its_directory_was_removed(
    provider: ProcessProvider, tmp_path: Path
) -> None:
    # Given a run that is driven, and a person who removes the whole state directory
    lock = provider.lock_run(RunId(7))
    shutil.rmtree(tmp_path)
    other = ProcessProvider(tmp_path)

    # When another one wants the run, or another run
    with pytest.raises(RunHeld, match="another process of this machine drives run 7"):
        other.lock_run(RunId(7))
    other.lock_run(RunId(8)).close()

    # Then it gets it only once the first has let go
    lock.close()
    other.lock_run(RunId(7)).close()
    other.close()


def test_a_lock_file_that_is_removed_at_the_moment_of_locking_is_made_anew(
    provider: ProcessProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a lock file that is replaced between its opening and its locking
    file = tmp_path / "run-7.lock"
    flock, calls = fcntl.flock, []

    def replaced(descriptor: int, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:
            file.unlink()
            file.touch()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", replaced)

    # When it is locked
    lock = provider.lock_run(RunId(7))

    # Then what is locked is the file that stands there
    assert len(calls) == 2
    assert file.read_text(encoding="utf-8") == f"{os.getpid()}\n"
    lock.close()


def test_a_link_to_nowhere_among_what_is_kept_keeps_nothing_for_ever(
    provider: ProcessProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ENDED_MAX", 2)
    provider.ended_dir.mkdir()
    (provider.ended_dir / "link").symlink_to("/nowhere")
    for attempt in range(1, 5):
        identity = leased(provider, 7, attempt)
        (directory(provider, identity) / "stdout.log").write_text("hello", encoding="utf-8")
        assert provider.destroy_lease(identity, HANDLE)

    assert len(list(provider.ended_dir.iterdir())) == 2
