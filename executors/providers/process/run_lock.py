"""One process drives a run at a time (design rule 27).

Two locks, since each alone has a hole: that of a file names its holder and is seen wherever the
directory is, but a directory can be removed under the process that holds it; a name bound in the
kernel cannot, but is seen on this machine only.  Both go with the process, however that ends.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import socket
import sys
import weakref
from pathlib import Path

from cluster_reconciler.messages import RunId


class RunHeld(Exception):
    """Another process holds the run's lock."""


class RunLock:
    """A held lock.  Its file stays where it is."""

    def __init__(self, descriptor: int, name: socket.socket | None) -> None:
        """Use `lock_run`."""
        self._descriptor = descriptor
        self._name = name
        _held.add(self)

    def close(self) -> None:
        """Let go; idempotent."""
        if self._name is not None:
            self._name.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_held: "weakref.WeakSet[RunLock]" = weakref.WeakSet()


def _let_go_in_a_fork() -> None:
    """A child that a host forks must not hold the run when its parent has died."""
    for lock in tuple(_held):
        lock.close()


os.register_at_fork(after_in_child=_let_go_in_a_fork)


def lock_run(state_dir: Path, run_id: RunId) -> RunLock:
    """Take the run for this process; raises RunHeld, which names the holder, or OSError."""
    path = state_dir / f"run-{run_id}.lock"
    descriptor = _locked_file(path, run_id)
    name = None
    try:
        name = _bound_name(path, run_id)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    except BaseException:
        if name is not None:
            name.close()
        os.close(descriptor)
        raise
    return RunLock(descriptor, name)


def _locked_file(path: Path, run_id: RunId) -> int:
    """The locked file that stands at `path` at the moment of its locking."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BlockingIOError as error:
            holder = os.read(descriptor, 64).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise RunHeld(
                f"process {holder} drives run {run_id} already (it holds {path}); "
                "end it first, or choose another run_id"
            ) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # Somebody has removed it meanwhile: what counts is the next one.


def _bound_name(path: Path, run_id: RunId) -> socket.socket | None:
    """An abstract socket name, which only its holder's end removes; None: not on this system.

    Containers may share the machine's names and yet see other files at the same path: their mount
    namespace tells them apart.
    """
    if sys.platform != "linux":
        return None
    files = os.readlink("/proc/self/ns/mnt")
    digest = hashlib.sha256(f"{files} {path}".encode("utf-8", "surrogateescape")).hexdigest()
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(f"\0cluster-reconciler/{digest}")
    except OSError as error:
        bound.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise RunHeld(
            f"another process of this machine drives run {run_id} already, or has taken its name: "
            f"its lock file {path} is not there or was replaced.  End that process first, or "
            "choose another run_id"
        ) from error
    return bound
