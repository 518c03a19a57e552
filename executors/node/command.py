"""One shell command of a node: in its own session, its output read line by line.

It is started and signalled here; that its end is noticed is the agent's business.
"""

import os
import signal
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from cluster_reconciler.executors.node.masking import Mask
    from cluster_reconciler.executors.node.streams import LineReader
else:
    from streams import LineReader

LAST_LINES = 5
"""So many lines of output stand in the reason of a death."""

SHOWN_MAX = 400
"""So many characters of a command or a line stand in a reason: it must fit a frame and a table."""


SOON_S = 10.0
"""What ends well so soon was probably sent into the background."""


class Command:
    """A running, or ended, command."""

    def __init__(
        self,
        line: str,
        env: dict[str, str],
        directory: str,
        tell: Callable[[str, str], None],
        mask: "Mask",
    ) -> None:
        """`tell(stream, text)` hears each line, without what `mask` hides."""
        self.line = line
        self._begun = time.monotonic()
        self.status: int | None = None
        """What `waitpid` said, once it has ended."""
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._tell = tell
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        # A TERM that comes before the child is ready for one waits until it is.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self.pid = os.fork()
        if self.pid == 0:
            _become(line, env, directory, out_write, err_write)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.close(out_write)
        os.close(err_write)
        self.readers = {
            out_read: LineReader(out_read, lambda text: self._line("stdout", text), mask),
            err_read: LineReader(err_read, lambda text: self._line("stderr", text), mask),
        }

    def _line(self, stream: str, text: str) -> None:
        self._last.append(text)
        self._tell(stream, text)

    @property
    def shown(self) -> str:
        """The command for people."""
        return repr(_cut(self.line))

    def drain(self) -> None:
        """Read what it has written until now."""
        for reader in self.readers.values():
            reader.drain()

    def last_output(self) -> str:
        """The last lines, for the end of a sentence."""
        self.drain()
        if not self._last:
            return "it printed nothing"
        return "its last output: " + " | ".join(_cut(text) for text in self._last)

    def how_it_ended(self) -> str:
        """The exit code or signal, and the last lines of output."""
        assert self.status is not None, "it has not ended"
        code = os.waitstatus_to_exitcode(self.status)
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        soon = time.monotonic() - self._begun < SOON_S
        hint = ": keep it in the foreground, a node lives as long as its command"
        return f"{self.shown} {how}{hint if code == 0 and soon else ''}; {self.last_output()}"

    def signal(self, number: int) -> None:
        """To its whole process group, while it is ours to signal."""
        if self.status is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                os.kill(self.pid, number)  # It was just forked and has no group of its own yet.
            except PermissionError:
                return

    def close(self) -> None:
        """Let go of its pipes."""
        for reader in self.readers.values():
            reader.close()


def _become(line: str, env: dict[str, str], directory: str, out: int, err: int) -> NoReturn:
    """In the child: its own session, our pipes, the user's environment."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (
            *(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
            *(signal.SIGPIPE, signal.SIGXFSZ),
        ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(directory)
        os.execve("/bin/sh", ["/bin/sh", "-c", line], env)  # noqa: S606 - a shell is what is asked for
    except BaseException as error:  # noqa: BLE001 - told to whoever reads the node's errors
        # Its text alone: the repr of an encoding error holds the secret that could not be encoded.
        text = f"the command cannot be started: {type(error).__name__}: {error}\n"
        os.write(2, text.encode("utf-8", "replace"))
    finally:
        os._exit(127)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
