"""Processes as the machine numbers them, for the node's own files and for the provider.

Reads /proc, ends what descends from a process, and writes the lease's `processes.json`; starts
nothing.  Imports nothing of ours: on a node it is a plain file.
"""

import ctypes
import json
import os
import signal
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def become_reaper() -> None:
    """From now on orphans among our descendants become our children, not those of process 1."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_me_when_parent_dies(number: int) -> None:
    """It is the parent's *thread* that counts: only for a parent with one thread."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def children(pid: int) -> list[int]:
    """The direct children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        if os.path.exists("/proc/thread-self/children") or not os.path.exists(f"/proc/{pid}"):
            return []
    return _children_by_parent(pid)


def _children_by_parent(pid: int) -> list[int]:
    """Where the kernel keeps no list of children (CONFIG_PROC_CHILDREN)."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return [number for number in numbers if parent_of(number) == pid]


def descendants(pid: int) -> list[int]:
    """Everything below a process, itself not included."""
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        child = waiting.pop()
        found.append(child)
        waiting.extend(children(child))
    return found


def end_descendants(seconds: float) -> bool:
    """KILL all that descends from this process, and collect it, until nothing is left, or the time
    is up (False).  Only a reaper is sure to see everything."""
    deadline = time.monotonic() + seconds
    while found := descendants(own_pid()):
        if time.monotonic() >= deadline:
            return False
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)
    return True


def own_pid() -> int:
    """The machine's number of this process: inside a pid namespace it has two."""
    return int(os.readlink("/proc/self"))


def outer_pid(inner: int) -> int:
    """The machine's number of a child of ours."""
    own = own_pid()
    if own == os.getpid():
        return inner
    for pid in children(own):
        if _inner_pid(pid) == inner:
            return pid
    return inner


def _inner_pid(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        return None
    found = [line.split()[-1] for line in lines if line.startswith("NSpid:")]
    return int(found[0]) if found else None


def parent_of(pid: int) -> int | None:
    """The machine's number of the parent; None when the process is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def started(pid: int) -> int:
    """The process's start, in clock ticks since the boot; 0 when it is gone."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def _stat(pid: int) -> list[bytes]:
    """The fields after the name, which may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def write_processes(lease_dir: str, **pids: int | None) -> None:
    """Add pids, each with its start time, to the lease's `processes.json`: for people, tests and
    the next start.  Only the agent writes it, and a full disk does not end the node."""
    path = os.path.join(lease_dir, "processes.json")
    try:
        with open(path, encoding="utf-8") as file:
            known: dict[str, list[int]] = json.load(file)
    except (OSError, ValueError):
        known = {}
    for name, pid in pids.items():
        if pid is not None:
            known[name] = [pid, started(pid)]
    temporary = f"{path}.new"
    with suppress(OSError):
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(known, file)
        os.replace(temporary, path)
