"""Processes of this machine, as they really are: (boot, pid, start time), never the pid alone.

Reads /proc and sends signals; starts nothing.  A zombie is dead: its parent may reap it late.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

from msgspec import Struct

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
    except OSError:
        return None
    return fields[0].decode("ascii"), int(fields[19])


def processes_of_lease(directory: str) -> list[int]:
    """Every living process that carries the lease's mark, whoever its parent is now."""
    mark = f"{LEASE_VARIABLE}={directory}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            environment = Path(f"/proc/{entry.name}/environ").read_bytes()
        except OSError:
            continue
        if mark in environment.split(b"\0") and identify(int(entry.name)) is not None:
            found.append(int(entry.name))
    return found


def kill_lease(directory: str, seconds: float) -> bool:
    """KILL whatever carries the lease's mark, until nothing does; whether that was reached."""
    deadline = time.monotonic() + seconds
    while found := processes_of_lease(directory):
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True
