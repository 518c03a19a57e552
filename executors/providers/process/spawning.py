"""Starting a node's shim so that nothing of the node can outlive this process (design §7).

Two ways.  A pid namespace, where the machine allows one: the shim is its process 1, and the kernel
ends the rest with it.  Otherwise the shim is the reaper of its descendants.  Either way it holds
the end of a pipe that only this process holds open: when this process is gone, however it went,
the pipe ends, and so does the node.
"""

import os
import subprocess
import sys
import threading
from enum import StrEnum, auto
from functools import cache
from pathlib import Path
from typing import assert_never

import cluster_reconciler.executors.node as node_package
from cluster_reconciler.executors.providers.process.processes import LEASE_VARIABLE

SHIM = Path(str(node_package.__file__)).resolve().parent / "shim.py"

PROBE_SECONDS = 10


class Containment(StrEnum):
    """How a node's processes are kept together."""

    NAMESPACE = auto()
    SUBREAPER = auto()


_UNSHARE = ("unshare", "--fork", "--pid", "--kill-child")
_AS_USER = ("--user", "--map-current-user")


@cache
def unshare_command() -> tuple[str, ...] | None:
    """How this machine allows a pid namespace; None: it does not."""
    for command in (_UNSHARE, (*_UNSHARE, *_AS_USER)):
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

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        control: int,
        reports: int,
        containment: Containment,
    ) -> None:
        self.process = process
        self.reports = reports
        """-1 once it is closed."""
        self.containment = containment
        self._control = control
        self._lock = threading.Lock()

    def write(self, line: bytes) -> bool:
        """A line into the control pipe; False: the shim is gone."""
        with self._lock:
            if self._control < 0:
                return False
            data = memoryview(line + b"\n")
            try:
                while data:
                    data = data[os.write(self._control, data) :]
            except OSError:
                return False
        return True

    def close_reports(self) -> None:
        """Let go of the report pipe.  Idempotent."""
        if self.reports >= 0:
            os.close(self.reports)
            self.reports = -1

    def end(self) -> None:
        """Close the control pipe: the node ends at once.  Idempotent."""
        with self._lock:
            if self._control >= 0:
                os.close(self._control)
                self._control = -1


def start_shim(containment: Containment, directory: str) -> Shim:
    """Start a shim that waits for its spec; raises OSError."""
    command = [sys.executable, "-I", "-S", str(SHIM)]
    match containment:
        case Containment.NAMESPACE:
            unshare = unshare_command()
            if unshare is None:
                raise OSError("this machine allows no pid namespace; use the subreaper")
            command = [*unshare, "--", *command]
        case Containment.SUBREAPER:
            pass
        case _:
            assert_never(containment)
    control_read, control_write = os.pipe2(os.O_CLOEXEC)
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    try:
        with open(os.path.join(directory, "shim.log"), "ab") as log:
            process = subprocess.Popen(
                command,
                stdin=control_read,
                stdout=report_write,
                stderr=log,
                cwd="/",
                env={LEASE_VARIABLE: directory},
                start_new_session=True,  # Else Ctrl-C at the terminal would end the nodes.
                close_fds=True,
            )
    except BaseException:
        os.close(control_write)
        os.close(report_read)
        raise
    finally:
        os.close(control_read)
        os.close(report_write)
    os.set_blocking(report_read, False)
    return Shim(process, control_write, report_read, containment)
