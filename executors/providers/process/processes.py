"""Processes of this machine, as they really are: (boot, pid, start time), never the pid alone.

Reads /proc and sends signals; starts nothing.  A zombie is dead: its parent may reap it late.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from cluster_reconciler.executors.node.machine import descendants

LEASE_VARIABLE = "CLUSTER_RECONCILER_LEASE"
"""Every process of a node inherits it: its value is the node's directory."""


class ProcessIdentity(Struct, frozen=True, gc=False):
    """One process, for good."""

    boot_id: str
    pid: int
    started: int
    """In clock ticks since the boot."""


def boot_id() -> str:
    """This boot of this machine; empty where that is not told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def identify(pid: int) -> ProcessIdentity | None:
    """The living process of that number; None: there is none, or only a zombie."""
    found = _stat(pid)
    if found is None or found[0] in "ZX":
        return None
    return ProcessIdentity(boot_id(), pid, found[1])


def is_alive(process: ProcessIdentity) -> bool:
    """Whether this very process lives."""
    return identify(process.pid) == process


def _stat(pid: int) -> tuple[str, int] | None:
    """State and start time."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode("ascii"), int(fields[19])
    except (OSError, IndexError):  # It is gone, or goes while it is read.
        return None


def processes_of_lease(directory: str) -> list[int]:
    """Every living process that carries the lease's mark, whoever its parent is now."""
    return _marked({directory}).get(directory, [])


def _marked(directories: Collection[str]) -> dict[str, list[int]]:
    """The living processes of each of the leases, in one look at the machine."""
    marks = {os.fsencode(f"{LEASE_VARIABLE}={directory}"): directory for directory in directories}
    found: dict[str, list[int]] = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        for mark in marks.keys() & environment.split(b"\0"):
            if identify(pid) is not None:
                found.setdefault(marks[mark], []).append(pid)
    return found


def kill_leases(directories: Collection[str], seconds: float) -> frozenset[str]:
    """KILL whatever carries the mark of one of the leases, and all that descends from it, until
    nothing does; returns the leases of which something is left when the time is up.

    Twice nothing is nothing: a process has no environment for a moment while it execs.
    """
    deadline = time.monotonic() + seconds
    quiet = 0
    while True:
        found = _marked(directories)
        quiet = 0 if found else quiet + 1
        if quiet == 2 or time.monotonic() >= deadline:
            return frozenset(found)
        # All are gathered before the first is killed: with its parent a child's descent is gone.
        victims = {pid for pids in found.values() for pid in pids}
        victims.update(below for pid in tuple(victims) for below in descendants(pid))
        for pid in victims:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def kill_lease(directory: str, seconds: float) -> bool:
    """`kill_leases` for one; whether nothing is left."""
    return not kill_leases((directory,), seconds)
