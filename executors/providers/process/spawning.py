"""Starting a node's shim so that nothing of the node can outlive this process (design §7).

Two ways.  A pid namespace, where the machine allows one: the shim is its process 1, and the kernel
ends the rest with it.  Otherwise the shim is the reaper of its descendants.  Either way it holds
the end of a pipe that only this process holds open, and a pidfd of this process: when it is gone,
however it went, both say so, and the node ends.
"""

import errno
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from enum import StrEnum, auto
from functools import cache
from pathlib import Path
from typing import assert_never

import cluster_reconciler.executors.node as node_package
from cluster_reconciler.executors.providers.process.files import open_log
from cluster_reconciler.executors.providers.process.processes import LEASE_VARIABLE

SHIM = Path(str(node_package.__file__)).resolve().parent / "shim.py"

SHIM_LOG = "shim.log"
"""What shim and agent could not say in any other way."""

PROBE_SECONDS = 10
WRITE_SECONDS = 5.0


class Containment(StrEnum):
    """How a node's processes are kept together."""

    NAMESPACE = auto()
    SUBREAPER = auto()


_WAYS = (
    ("--fork", "--pid", "--kill-child"),
    ("--fork", "--pid", "--kill-child", "--user", "--map-current-user"),
)


@cache
def unshare_command() -> tuple[str, ...] | None:
    """How this machine allows a pid namespace; None: it does not."""
    program = shutil.which("unshare")  # A shim is started without our PATH.
    if program is None:
        return None
    for way in _WAYS:
        command = (program, *way)
        try:
            done = subprocess.run(
                [*command, "true"], capture_output=True, timeout=PROBE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode == 0:
            return command
    return None


def best_containment() -> Containment:
    """A namespace where one is allowed."""
    return Containment.NAMESPACE if unshare_command() is not None else Containment.SUBREAPER


class Shim:
    """A started shim: its process, the control pipe to it and the report pipe from it."""

    def __init__(self, process: "subprocess.Popen[bytes]", control: int, reports: int) -> None:
        self.process = process
        self.reports = reports
        self.exited = _pidfd(process.pid)
        """Readable once the process has ended; None where the machine has no such thing."""
        self._control = control
        self._lock = threading.Lock()
        for descriptor in (control, reports):
            os.set_blocking(descriptor, False)

    def write(self, line: bytes) -> bool:
        """A line into the control pipe; False: the shim is gone, or takes nothing."""
        with self._lock:
            if self._control < 0:
                return False
            data = memoryview(line + b"\n")
            deadline = time.monotonic() + WRITE_SECONDS
            while data:
                try:
                    data = data[os.write(self._control, data) :]
                except BlockingIOError:
                    if not self._writable(deadline - time.monotonic()):
                        return False
                except OSError:
                    return False
        return True

    def _writable(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._control, select.POLLOUT)
        return seconds > 0 and bool(poll.poll(seconds * 1000))

    def end(self) -> None:
        """Close the control pipe: the node ends at once.  Idempotent."""
        with self._lock:
            if self._control >= 0:
                os.close(self._control)
                self._control = -1

    def discard(self) -> None:
        """End one that nobody hears."""
        self.end()
        self.kill()
        self.process.wait()
        os.close(self.reports)
        if self.exited is not None:
            os.close(self.exited)

    def kill(self) -> None:
        """For one that heeds nothing, because it is stopped or stuck; waits for no lock."""
        self.process.kill()


def start_shim(containment: Containment, directory: str) -> Shim:
    """Start a shim that waits for its spec; raises OSError."""
    command = _command(containment)
    owner = _pidfd(os.getpid())
    own: list[int] = []
    handed_down = [owner] if owner is not None else []
    try:
        control_read, control_write = os.pipe2(os.O_CLOEXEC)
        handed_down.append(control_read)
        own.append(control_write)
        report_read, report_write = os.pipe2(os.O_CLOEXEC)
        handed_down.append(report_write)
        own.append(report_read)
        with open(os.path.join(directory, SHIM_LOG), "ab", opener=open_log) as log:
            process = subprocess.Popen(
                [*command, str(owner)] if owner is not None else command,
                stdin=control_read,
                stdout=report_write,
                stderr=log,
                cwd="/",
                env={**_loader_settings(), LEASE_VARIABLE: directory},
                start_new_session=True,  # Else Ctrl-C at the terminal would end the nodes.
                pass_fds=() if owner is None else (owner,),
            )
        return Shim(process, control_write, report_read)
    except BaseException:
        for descriptor in own:
            os.close(descriptor)
        raise
    finally:
        for descriptor in handed_down:
            os.close(descriptor)


def _loader_settings() -> dict[str, str]:
    """Without it, a Python whose library is in no usual place does not even start."""
    found = os.environ.get("LD_LIBRARY_PATH")
    return {} if found is None else {"LD_LIBRARY_PATH": found}


def _command(containment: Containment) -> list[str]:
    if not sys.executable:
        raise OSError("this program does not say where its Python is (sys.executable is empty)")
    command = [sys.executable, "-I", "-S", str(SHIM)]
    match containment:
        case Containment.NAMESPACE:
            unshare = unshare_command()
            if unshare is None:
                raise OSError("this machine allows no pid namespace; use the subreaper")
            return [*unshare, "--", *command]
        case Containment.SUBREAPER:
            return command
        case _:
            assert_never(containment)


def _pidfd(pid: int) -> int | None:
    """A descriptor that tells of the process's end; None: an old kernel, or a container's filter,
    has none."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return None
        raise
