"""Nodes whose command means no good with what it shares with us: its folder and what it says."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_reconciler.executors.node.streams import LINE_BYTES_MAX
from cluster_reconciler.executors.provider import ProviderError
from cluster_reconciler.executors.providers.process import Containment
from cluster_reconciler.executors.providers.process import files as process_files
from cluster_reconciler.executors.providers.process.files import mounts_at, remove_tree
from cluster_reconciler.messages import BootSpec, RunId
from tests.process_kit import Ground

SECRET = "s3cr3t-value-of-this-test"
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----"


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path / "state", Containment.SUBREAPER)
    yield ground
    ground.close()


@pytest.mark.parametrize("after_the_join", [False, True])
def test_a_secret_that_a_command_prints_gets_nowhere(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_the_join: bool
) -> None:
    # Given a command that prints its secrets, one of them just where a long line is cut, and dies
    monkeypatch.setenv("SECRET", SECRET)
    (tmp_path / "key").write_text(KEY, encoding="utf-8")
    node = ground.create(ground.node())
    line = 'printf "%395s%s\\n" x "$API_KEY"; echo "$API_KEY" >&2; echo "$KEY"; echo "$API_KEY" >f'
    boot = BootSpec(
        start_swactor_command=f"{line}; {'sleep 0.3; ' if after_the_join else ''}exit 3",
        stdout_sources=("f",),
        env={"API_KEY": "env:SECRET", "KEY": f"file:{tmp_path / 'key'}"},
    )

    # When it runs
    ground.bootstrap(node, boot, env={"API_KEY": SECRET, "KEY": KEY})
    reason = node.wait_lost()

    # Then neither what it said, nor why it died, nor any log holds a piece of them
    told = [reason, *node.failures, *node.left, *(text for _, _, text in node.lines)]
    logs = (node.directory / "stdout.log", node.directory / "stderr.log")
    told += [path.read_text(encoding="utf-8") for path in logs]
    for piece in ("s3cr", "MIIE", "hkiG"):
        assert not [text for text in told if piece in text]
    assert "***" in node.said
    assert "exit code 3" in reason
    assert (len(node.left) == 1) is after_the_join


def test_a_secret_across_the_bound_of_a_line_gets_nowhere(ground: Ground) -> None:
    """Lines are cut at 64 KiB, and what is read comes in pieces of any size."""
    node = ground.create(ground.node())
    line = f'printf \'%{LINE_BYTES_MAX - 9}s%s\' x "$API_KEY"; sleep 0.2; echo "$API_KEY"; exit 3'
    boot = BootSpec(start_swactor_command=line, env={"API_KEY": "env:SECRET"})

    ground.bootstrap(node, boot, env={"API_KEY": SECRET})
    reason = node.wait_lost()

    told = [reason, *(text for _, _, text in node.lines)]
    assert not [text[-40:] for text in told if "s3cr" in text or "test" in text]
    assert sum(text.count("***") for text in node.said) == 2


def test_pipes_in_the_place_of_our_files_make_nobody_wait(ground: Ground) -> None:
    # Given a node that puts pipes where its log and its identity were, and dies without a word
    one = ground.start(
        "cd ..; rm identity.json shim.log stdout.log; mkfifo identity.json shim.log stdout.log; "
        "kill -9 $PPID",
        "n-0",
    )

    # Then its end is told, other nodes are heard, and listings answer
    assert "SIGKILL" in one.wait_lost()
    other = ground.start(name="n-1")
    other.wait_joined()
    assert [lease.identity for lease in ground.provider.list_leases(RunId(7))] == [other.identity]

    # And both can be destroyed
    assert ground.destroy(one)
    assert ground.destroy(other)
    assert not one.directory.exists()


def test_a_folder_that_is_too_deep_for_any_name_goes_with_its_lease(ground: Ground) -> None:
    dig = "import os\nfor _ in range(1100): os.mkdir('dddd'); os.chdir('dddd')"
    node = ground.start(f'{sys.executable} -c "{dig}"; exit 3')
    assert "exit code 3" in node.wait_lost()

    assert ground.destroy(node)

    assert not node.directory.exists()


def test_what_is_mounted_below_a_lease_is_never_removed(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a node in whose folder something is mounted
    node = ground.start("touch precious; exec sleep 1000")
    node.wait_joined()
    mounted = str(node.directory / "work" / "data")
    monkeypatch.setattr(process_files, "mounts_at", lambda _path: [mounted])

    # When it is destroyed
    with pytest.raises(
        ProviderError, match=f"a file system is mounted at {mounted}: unmount that first"
    ):
        ground.destroy(node)

    # Then nothing was removed, and it still is a lease
    assert (node.directory / "work" / "precious").exists()
    assert [lease.identity for lease in ground.provider.list_leases(RunId(7))] == [node.identity]
    monkeypatch.undo()
    assert ground.destroy(node)


def test_mounts_are_read_with_their_real_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = rb"""36 35 98:0 / /srv/a\040b/job/data rw - ext4 /dev/root rw
37 35 98:0 / /srv/a\040b rw - ext4 /dev/root rw
38 35 98:0 / /srv/a\040bc/x rw - ext4 /dev/root rw
"""
    table = tmp_path / "mountinfo"
    table.write_bytes(lines)
    monkeypatch.setattr(process_files, "MOUNTS", table)

    assert mounts_at(Path("/srv/a b")) == ["/srv/a b/job/data", "/srv/a b"]
    monkeypatch.setattr(process_files, "MOUNTS", tmp_path / "none")
    assert mounts_at(Path("/srv/a b")) == []


def test_folders_that_shut_their_owner_out_are_opened_again(ground: Ground) -> None:
    """For root they are open anyway; so it is their mode that is looked at."""
    node = ground.start("mkdir -p a/b; touch a/b/c; chmod 0 a/b a . .. ../..; exit 3")
    node.wait_lost()
    run = node.directory.parent
    assert [stat.S_IMODE(path.stat().st_mode) for path in (run, node.directory)] == [0, 0]

    assert [lease.identity for lease in ground.provider.list_leases(RunId(7))] == [node.identity]
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    other = ground.create(ground.node("n-1"))
    assert ground.destroy(node)

    assert not node.directory.exists()
    assert ground.destroy(other)


def test_removing_what_is_not_there_is_done(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "nothing")


def test_what_cannot_be_removed_is_said_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_arguments: object, **_options: object) -> None:
        raise PermissionError("immutable")

    (tmp_path / "kept").mkdir()
    monkeypatch.setattr("shutil.rmtree", refuses)
    monkeypatch.setattr(subprocess, "run", refuses)

    assert not remove_tree(tmp_path / "kept")


def test_a_second_session_finds_a_pipe_for_its_log_and_says_so(ground: Ground) -> None:
    node = ground.create(ground.node())
    os.mkfifo(node.directory / "shim.log")

    with pytest.raises(ProviderError, match="the node's shim cannot be started"):
        ground.bootstrap(node, BootSpec(start_swactor_command="exec sleep 1000"))
