"""The node agent: runs the boot checks and the command, streams their output, joins the swarm.

One process, one loop, the standard library alone.  Its end, or its command's, is the node's end:
it says why on the report pipe first.  It restarts nothing and decides nothing.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from cluster_reconciler.executors.node import machine
    from cluster_reconciler.executors.node.command import Command
    from cluster_reconciler.executors.node.masking import Mask
    from cluster_reconciler.executors.node.reports import Reports
    from cluster_reconciler.executors.node.streams import LineReader, Tail
    from cluster_reconciler.executors.node.swarm_client import SwarmClient
else:
    import machine
    from command import Command
    from masking import Mask
    from reports import Reports
    from streams import LineReader, Tail
    from swarm_client import SwarmClient

TAIL_EVERY_S = 0.25
IDLE_WAIT_S = 5.0
STOP_TERM_S = 1.5
SWEEP_SECONDS_MAX = 5.0


class Stopped(Exception):
    """The node was asked to end."""


def run(spec: dict[str, Any], *, guards: int | None) -> NoReturn:
    """The agent's whole life, in the forked process.

    `guards`: the shim's pid where no pid namespace keeps the node together.  Then a shim that is
    killed is the agent's end too, and orphans are the agent's: so they are found by their descent.
    """
    code = 1
    try:
        agent = Agent(spec)
        if guards is not None:
            machine.become_reaper()
            machine.signal_me_when_parent_dies(signal.SIGTERM)
            if os.getppid() != guards:
                raise Stopped
        agent.live()
        code = 0
    except Stopped:
        code = 0
    except BaseException as error:  # noqa: BLE001 - the shim tells that it ended, this says why
        # Its text alone: a repr may hold a secret.
        sys.stderr.write(f"node agent: {type(error).__name__}: {error} {_place(error)}\n")
    finally:
        sys.stderr.flush()
        if guards is not None and os.getppid() != guards:
            machine.end_descendants(SWEEP_SECONDS_MAX)
        os._exit(code)


def _place(error: BaseException) -> str:
    """Where it was raised."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        name = os.path.basename(trace.tb_frame.f_code.co_filename)
        place, trace = f"({name}, line {trace.tb_lineno})", trace.tb_next
    return place


class Agent:
    """The node's loop."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._stopping = False
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # The shim blocked it.
        self._mask = Mask(spec["secrets"])
        self._reports = Reports(1, spec["lease_dir"], self._mask)
        self._swarm: SwarmClient | None = None
        self._command: Command | None = None
        self._tails: list[Tail] = []

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def live(self) -> None:
        """Check, start, join, stay; raises Stopped when asked to end."""
        spec, reports = self._spec, self._reports
        own = machine.own_pid()
        machine.write_processes(spec["lease_dir"], shim=machine.parent_of(own), agent=own)
        try:
            reports.stage("boot_checking")
            for line in spec["verify_commands"]:
                if not self._verify(line):
                    return
            reports.stage("swactor_starting")
            if spec["start_command"]:
                command = self._begin(spec["start_command"])
                machine.write_processes(spec["lease_dir"], command=machine.outer_pid(command.pid))
            self._tails = [
                Tail(path, stream, reports.line, self._mask)
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
        check = self._begin(line)
        if not self._pump_until(time.monotonic() + timeout, self._command_ended):
            self._reports.failed(
                f"boot check {check.shown} did not end within {timeout:g} s; {check.last_output()}"
            )
            return False
        if check.status != 0:
            self._reports.failed(f"boot check {check.how_it_ended()}")
            return False
        check.drain()
        check.close()
        self._command = None
        return True

    def _begin(self, line: str) -> Command:
        spec = self._spec
        self._command = Command(
            line, spec["env"], spec["directory"], self._reports.line, self._mask
        )
        return self._command

    def _command_ended(self) -> bool:
        return self._command is not None and self._command.status is not None

    def _tell_end(self) -> None:
        assert self._command is not None, "only a command's end ends the node"
        reason = self._command.how_it_ended()
        for tail in self._tails:
            tail.end()
        if self._swarm is not None:
            self._swarm.leave(reason)
        self._reports.failed(reason)

    def _end_command(self, command: Command) -> None:
        """TERM, then KILL, to all of its group; the shim ends what has left the group."""
        command.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_TERM_S
        while command.status is None and time.monotonic() < deadline:
            self._pump(0.02, stoppable=False)
        command.signal(signal.SIGKILL)
        command.drain()  # Its farewell may have come with its end.

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
        # Only open ones: the number of a closed pipe is soon that of another descriptor.
        every = self._command.readers if self._command is not None else {}
        readers = {descriptor: reader for descriptor, reader in every.items() if reader.open}
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
        self._reap()

    def _reap(self) -> None:
        """Collect everything that has ended, orphans that became ours included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._command is not None and pid == self._command.pid:
                self._command.status = status

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
