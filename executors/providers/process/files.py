"""Files in a place that is the node's as much as ours: its command may have put anything there.

Reading never waits, removing never follows a mount and has no depth that is too deep.  What a file
means is the caller's business.
"""

import os
import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
REMOVE_SECONDS = 60.0
FILE_BYTES_MAX = 1024 * 1024
"""Our own files are far below that."""


def read_regular_file(path: Path | str, *, last_bytes: int | None = None) -> bytes:
    """The file's content, or the end of it.

    Raises:
        OSError: it cannot be read; is no regular file (to open a pipe would wait for whoever
            writes to it, and a link leads anywhere); or is larger than FILE_BYTES_MAX.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path}: expected a regular file")
        if last_bytes is not None:
            file.seek(max(0, found.st_size - last_bytes))
        elif found.st_size > FILE_BYTES_MAX:
            raise OSError(f"{path}: expected at most {FILE_BYTES_MAX} bytes")
        return file.read(FILE_BYTES_MAX if last_bytes is None else last_bytes)


def open_log(path: str, flags: int) -> int:
    """An `opener` for what only its owner may read; raises OSError for a pipe without a reader."""
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


def has_content(path: Path) -> bool:
    """Whether it is a regular file that is not empty; raises FileNotFoundError."""
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_size > 0


def regain(path: Path) -> None:
    """Let its owner into the folder again, whatever a node has made of its mode."""
    with suppress(OSError):
        if not path.is_symlink() and path.is_dir():
            path.chmod(0o700)


def remove_tree(path: Path) -> bool:
    """Remove the folder and all below it, or what else has its name; whether nothing is left.

    Raises:
        OSError: another file system is mounted there, whose files are nobody's to remove.
    """
    refuse_mounts(path)
    try:
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except (OSError, RecursionError):
        if not path.is_symlink():
            _remove_what_resists(path)
    return not os.path.lexists(path)


def _remove_what_resists(path: Path) -> None:
    """Folders that even their owner may not change, or that lie too deep for a name or a stack:
    these two commands walk by descriptors."""
    for command in (("chmod", "-R", "u+rwx"), ("rm", "-rf")):
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*command, "--", str(path)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=REMOVE_SECONDS,
                check=False,
            )


def refuse_mounts(path: Path) -> None:
    """Raises OSError: another file system is mounted on the folder, or below it."""
    mounted = mounts_at(path)
    if mounted:
        raise OSError(f"a file system is mounted at {mounted[0]}: unmount that first")


def mounts_at(path: Path) -> list[str]:
    """Where other file systems are mounted on the folder or below it; none where the system does
    not say."""
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:
        return []
    own = os.fsencode(path)
    points = (_unescaped(line.split(b" ")[4]) for line in lines)
    return [os.fsdecode(point) for point in points if point == own or point.startswith(own + b"/")]


def _unescaped(point: bytes) -> bytes:
    """The kernel writes blanks and the like as three octal digits."""
    return point.decode("unicode_escape").encode("latin-1") if b"\\" in point else point
