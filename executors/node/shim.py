"""The node's first process: it keeps everything of one node together, and ends it together.

Started as `python -I -S shim.py` with a control pipe on descriptor 0 and a report pipe on 1.  The
first line of the control pipe is the node's spec, with its secrets: they stand on no command line
and in no environment but the user's own command's.  Then a line `stop SECONDS` ends the node in
peace, and the pipe's end (the reconciler is gone, however it went) ends it at once.

It runs nothing itself: the agent, which it forks, does.  In a pid namespace it is process 1, and
its end is the end of all; elsewhere it is the reaper of its descendants and kills them one by one.
"""

import json
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cluster_reconciler.executors.node import agent, machine
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import agent
    import machine

CONTROL, REPORTS = 0, 1
SWEEP_SECONDS_MAX = 5.0
STOP_SECONDS = 2.0
SPEC_BYTES_MAX = 16 * 1024 * 1024


class Control:
    """The control pipe, line by line."""

    def __init__(self) -> None:
        self._buffer = b""

    def read_spec(self) -> dict[str, Any] | None:
        """The first line; None when the pipe ends before it."""
        while b"\n" not in self._buffer and len(self._buffer) < SPEC_BYTES_MAX:
            data = os.read(CONTROL, 65536)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        spec: dict[str, Any] = json.loads(line)
        return spec

    @property
    def has_line(self) -> bool:
        """A line is here already: a stop that was sent at once is read along with the spec."""
        return b"\n" in self._buffer

    def read_stop(self, *, readable: bool) -> float | None:
        """The seconds that a stop grants, 0.0 when the pipe has ended; None: nothing yet.
        `readable`: whether there is something to read, or the end."""
        if readable:
            data = os.read(CONTROL, 4096)
            if not data:
                return 0.0
            self._buffer += data
        line, end, rest = self._buffer.partition(b"\n")
        if not end:
            return None
        self._buffer = rest
        return float(line.split()[1]) if line.startswith(b"stop ") else None


def main() -> None:
    """Read the spec, fork the agent, watch until the end."""
    if os.getpid() != 1:
        machine.become_reaper()
    # A host may block signals in the thread that started us, and that is inherited.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    owner = int(sys.argv[1]) if len(sys.argv) > 1 else None
    if owner is not None:
        os.set_inheritable(owner, False)
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _note)
    control = Control()
    spec = control.read_spec()
    if spec is None:
        os._exit(0)
    shim_pid = os.getpid()
    # The agent hears a TERM that comes before it is ready for one: it unblocks the signal then.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    agent_pid = os.fork()
    if agent_pid == 0:
        signal.set_wakeup_fd(-1)
        os.close(wake_read)
        os.close(wake_write)
        os.dup2(os.open(os.devnull, os.O_RDONLY), CONTROL)
        agent.run(spec, guards=None if shim_pid == 1 else shim_pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    reason = _watch(control, agent_pid, wake_read, owner)
    # The end of process 1 is the end of all.
    everything_ended = os.getpid() == 1 or machine.end_descendants(SWEEP_SECONDS_MAX)
    if reason is not None:
        # Only now: the agent, who writes to the same pipe, is no more.
        os.set_blocking(REPORTS, False)
        try:
            os.write(REPORTS, b"\n" + json.dumps({"t": "gone", "reason": reason}).encode() + b"\n")
        except OSError:
            os._exit(1)  # Nobody listens any more.
    os._exit(0 if everything_ended else 1)


def _note(_number: int, _frame: object) -> None:
    """The wake-up descriptor tells the loop; the handler only keeps the default away."""
    _pending.add(_number)


_pending: set[int] = set()


def _watch(control: Control, agent_pid: int, wake: int, owner: int | None) -> str | None:
    """Until the node must end; why, when that was not asked for."""
    poll = select.poll()
    poll.register(CONTROL, select.POLLIN)
    poll.register(wake, select.POLLIN)
    if owner is not None:
        poll.register(owner, select.POLLIN)
    deadline: float | None = None
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        ready = dict(poll.poll(0 if control.has_line else left))
        if wake in ready:
            os.read(wake, 4096)
        status = _reap(agent_pid)
        if status is not None:
            return None if deadline is not None else _why(status)
        if owner in ready:
            return None  # The reconciler is gone, even if a fork of it holds our pipe open.
        seconds = control.read_stop(readable=CONTROL in ready)
        if _pending & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} and deadline is None:
            seconds = STOP_SECONDS
        _pending.clear()
        if seconds == 0.0 or (deadline is not None and time.monotonic() >= deadline):
            return None
        if seconds is not None:
            deadline = time.monotonic() + seconds
            os.kill(agent_pid, signal.SIGTERM)
            os.kill(agent_pid, signal.SIGCONT)


def _reap(agent_pid: int) -> int | None:
    """Collect everything that has ended; the agent's status, if it has."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == agent_pid:
            found = status


def _why(status: int) -> str | None:
    """None: the agent has told everything itself."""
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return None
    how = signal.Signals(-code).name if -65 < code < 0 else f"exit code {code}"
    return f"the node agent ended unexpectedly: {how}"


if __name__ == "__main__":
    main()
