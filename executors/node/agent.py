"""The node agent: runs the boot checks and the command, streams their output, joins the swarm.

One process, one loop, the standard library alone.  Its end, or its command's, is the node's end:
it says why on the report pipe first.  It restarts nothing and decides nothing.
"""

import json
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from cluster_reconciler.executors.node.reports import Reports
    from cluster_reconciler.executors.node.streams import LineReader, Tail
    from cluster_reconciler.executors.node.swarm_client import SwarmClient
else:
    from reports import Reports
    from streams import LineReader, Tail
    from swarm_client import SwarmClient

LAST_LINES = 5
"""So many lines of output stand in the reason of a death."""

TAIL_EVERY_S = 0.25
IDLE_WAIT_S = 5.0
STOP_TERM_S = 1.5


class Stopped(Exception):
    """The node was asked to end."""


class Command:
    """A shell command in its own session, and its output."""

    def __init__(self, line: str, env: dict[str, str], directory: str, reports: Reports) -> None:
        self.line = line
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self._reports = reports
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            _become(line, env, directory, out_write, err_write)
        os.close(out_write)
        os.close(err_write)
        self.readers = {
            out_read: LineReader(out_read, lambda text: self._line("stdout", text)),
            err_read: LineReader(err_read, lambda text: self._line("stderr", text)),
        }
        self.status: int | None = None

    def _line(self, stream: str, text: str) -> None:
        self.last.append(text)
        self._reports.line(stream, text)

    def poll_status(self) -> bool:
        """Whether it has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.status = status
        return self.status is not None

    def how_it_ended(self) -> str:
        """The exit code or signal, and the last lines of output."""
        assert self.status is not None, "it has not ended"
        for reader in self.readers.values():
            reader.drain()
        code = os.waitstatus_to_exitcode(self.status)
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        said = (
            f"; its last output: {' | '.join(self.last)}" if self.last else "; it printed nothing"
        )
        return f"{self.line!r} {how}{said}"

    def signal(self, number: int) -> None:
        """To its whole process group."""
        if self.status is None:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                return

    def close(self) -> None:
        """Let go of its pipes."""
        for reader in self.readers.values():
            reader.close()


def run(spec: dict[str, Any]) -> NoReturn:
    """The agent's whole life, in the forked process."""
    code = 1
    try:
        Agent(spec).live()
        code = 0
    except Stopped:
        code = 0
    except BaseException as error:
        sys.stderr.write(f"agent: {error!r}\n")
        raise
    finally:
        os._exit(code)


class Agent:
    """The node's loop."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._stopping = False
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._stop)
        self._reports = Reports(1, spec["lease_dir"])
        self._swarm: SwarmClient | None = None
        self._command: Command | None = None
        self._tails: list[Tail] = []

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def live(self) -> None:
        """Check, start, join, stay; raises Stopped when asked to end."""
        spec, reports = self._spec, self._reports
        own = int(os.readlink("/proc/self"))
        write_processes(spec["lease_dir"], shim=_parent(own), agent=own)
        try:
            reports.stage("boot_checking")
            for line in spec["verify_commands"]:
                if not self._verify(line):
                    return
            reports.stage("swactor_starting")
            if spec["start_command"]:
                self._start(spec["start_command"])
            self._tails = [
                Tail(path, stream, reports.line)
                for stream in ("stdout", "stderr")
                for path in spec[f"{stream}_sources"]
            ]
            if self._pump_until(time.monotonic() + spec["join_after"], self._command_ended):
                self._tell_end()
                return
            reports.stage("waiting_for_swactor_join")
            self._swarm = SwarmClient(spec["swarm"], reports.note)
            self._pump_until(None, self._command_ended)
            self._tell_end()
        finally:
            if self._command is not None:
                self._end_command(self._command)
            reports.flush(1.0)

    # -- steps ------------------------------------------------------------------------------------

    def _verify(self, line: str) -> bool:
        """Whether a boot check passed."""
        timeout = self._spec["verify_timeout"]
        check = Command(line, self._spec["env"], self._spec["directory"], self._reports)
        self._command = check
        ended = self._pump_until(time.monotonic() + timeout, check.poll_status)
        if not ended:
            self._reports.failed(f"boot check {line!r} did not end within {timeout:g} s")
            return False
        if check.status != 0:
            self._reports.failed(f"boot check {check.how_it_ended()}")
            return False
        self._pump(0.0)
        check.close()
        self._command = None
        return True

    def _start(self, line: str) -> None:
        self._command = Command(line, self._spec["env"], self._spec["directory"], self._reports)
        write_processes(self._spec["lease_dir"], command=_outer_pid(self._command.pid))

    def _command_ended(self) -> bool:
        return self._command is not None and self._command.poll_status()

    def _tell_end(self) -> None:
        assert self._command is not None, "only a command's end ends the node"
        reason = self._command.how_it_ended()
        if self._swarm is not None:
            self._swarm.leave(reason)
        self._reports.failed(reason)

    def _end_command(self, command: Command) -> None:
        """TERM, then KILL, to all of its group; the shim ends what has left the group."""
        command.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_TERM_S
        while not command.poll_status() and time.monotonic() < deadline:
            self._pump(0.02, stoppable=False)
        command.signal(signal.SIGKILL)

    # -- the loop ---------------------------------------------------------------------------------

    def _pump_until(self, deadline: float | None, ended: Callable[[], bool]) -> bool:
        """Serve everything until `ended`, or the deadline (False)."""
        while not ended():
            left = IDLE_WAIT_S if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            self._pump(min(left, IDLE_WAIT_S))
        return True

    def _pump(self, wait: float, *, stoppable: bool = True) -> None:
        if stoppable and self._stopping:
            if self._swarm is not None:
                self._swarm.leave("the node was asked to end")
            raise Stopped
        now = time.monotonic()
        waits = [wait]
        if self._tails:
            waits.append(TAIL_EVERY_S)
        if self._swarm is not None:
            waits.append(self._swarm.tick(now))
        readers = self._command.readers if self._command is not None else {}
        for descriptor in self._wait(readers, max(0.0, min(waits))):
            if descriptor == self._wake:
                os.read(self._wake, 4096)
            elif descriptor in readers:
                readers[descriptor].read()
            elif descriptor == self._reports.descriptor:
                self._reports.push()
            elif self._swarm is not None:
                self._swarm.ready()
        for tail in self._tails:
            tail.read()

    def _wait(self, readers: "dict[int, LineReader]", seconds: float) -> list[int]:
        """The descriptors that are ready, after so long at most."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        for descriptor, reader in readers.items():
            if reader.open:
                poll.register(descriptor, select.POLLIN)
        if self._swarm is not None and self._swarm.descriptor is not None:
            poll.register(self._swarm.descriptor, self._swarm.interest)
        if self._reports.waiting:
            poll.register(self._reports.descriptor, select.POLLOUT)
        return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]


def _become(line: str, env: dict[str, str], directory: str, out: int, err: int) -> NoReturn:
    """In the child: its own session, our pipes, the user's environment."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(directory)
        os.execve("/bin/sh", ["/bin/sh", "-c", line], env)  # noqa: S606 - a shell is what is asked for
    finally:
        os._exit(127)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# -- processes as the machine sees them ------------------------------------------------------------


def children(pid: int) -> list[int]:
    """The direct children, by the machine's own numbers."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Everything below a process, itself not included."""
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        child = waiting.pop()
        found.append(child)
        waiting.extend(children(child))
    return found


def _outer_pid(inner: int) -> int:
    """The machine's number of a child of ours: inside a pid namespace it has two."""
    own = int(os.readlink("/proc/self"))
    if own == os.getpid():
        return inner
    for pid in children(own):
        if _inner_pid(pid) == inner:
            return pid
    return inner


def _inner_pid(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            lines: Iterable[str] = file.readlines()
    except OSError:
        return None
    found = [line.split()[-1] for line in lines if line.startswith("NSpid:")]
    return int(found[0]) if found else None


def _parent(pid: int) -> int:
    """The machine's number of the parent."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])


def write_processes(lease_dir: str, **pids: int) -> None:
    """Add pids, each with its start time, to the lease's `processes.json`: for people, tests and
    the next start.  Only the agent writes it."""
    path = os.path.join(lease_dir, "processes.json")
    try:
        with open(path, encoding="utf-8") as file:
            known: dict[str, list[int]] = json.load(file)
    except (OSError, ValueError):
        known = {}
    for name, pid in pids.items():
        known[name] = [pid, _started(pid)]
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(known, file)
    os.replace(temporary, path)


def _started(pid: int) -> int:
    """The process's start, in clock ticks since the boot; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0
