"""One bootstrap session: what its node reports, and what is told of it.

Called by the reader thread with the node's report lines and its end; it never blocks, starts
nothing, and tells each end once.
"""

import os
import signal
import threading
from typing import Any

import msgspec
from loguru import logger

from cluster_reconciler.executors.provider import BootstrapContext, Stream
from cluster_reconciler.executors.providers.process.files import read_regular_file
from cluster_reconciler.executors.providers.process.spawning import SHIM_LOG, Shim
from cluster_reconciler.messages import BootstrapFailed, BootstrapObserved, BootstrapStage

LINE_BYTES_MAX = 1024 * 1024
LAST_WORDS_MAX = 400

KILLED_BELOW_UNSHARE = "unshare: sigprocmask unblock failed"
"""What `unshare` says, and exits with 1, when its child was killed: it cannot raise SIGKILL as it
would any other signal.  Whoever reads of the loss should not have to know that."""


class Session:
    """A node that was started."""

    def __init__(self, shim: Shim, context: BootstrapContext, directory: str) -> None:
        self.shim = shim
        self.context = context
        self.directory = directory
        self.ended = threading.Event()
        """Set once its shim is gone and has been collected."""
        self.reason: str | None = None
        """Why it ended, when nobody had asked for that."""
        self.clean = False
        """Once it has ended: whether nothing of the node is left."""
        self._asked_to_end = False
        self._buffer = b""
        self._stage: BootstrapObserved | None = None

    def ask_to_end(self, seconds: float) -> None:
        """TERM to the node's command, KILL after so long; its end is then no loss."""
        self._asked_to_end = True
        if not self.shim.write(f"stop {seconds}".encode()):
            self.shim.end()

    def end_now(self) -> None:
        """End it at once, if it listens."""
        self._asked_to_end = True
        self.shim.end()

    def kill(self) -> None:
        """End it, whether it listens or not."""
        self._asked_to_end = True
        self.shim.kill()

    def feed(self, data: bytes) -> None:
        """Bytes of the report pipe."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._buffer = self._buffer[-LINE_BYTES_MAX:]
        for line in lines:
            if line:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            report: dict[str, Any] = msgspec.json.decode(line)
            self._report(report)
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
            # The agent was killed in the middle of a line.
            logger.debug("{}: a broken report: {}", self.context.identity, error)

    def _report(self, report: dict[str, Any]) -> None:
        match report["t"]:
            case "line":
                stream = Stream(report["stream"])
                self.context.output(stream, int(report["number"]), str(report["text"]))
            case "stage":
                self._stage = BootstrapObserved(
                    self.context.session_id,
                    BootstrapStage(report["stage"]),
                    last_stdout_seq=int(report["stdout"]),
                    last_stderr_seq=int(report["stderr"]),
                )
                self.context.report(self._stage)
            case "failed" | "gone":
                self.reason = self.reason or str(report["reason"])

    def closed(self, code: int, *, clean: bool) -> None:
        """The shim is gone, and with it the node; `clean`: nothing of it is left."""
        words = self._last_words()
        if code == 1 and KILLED_BELOW_UNSHARE in words:
            code, words = -signal.SIGKILL, ""
        if self.reason is None and not self._asked_to_end:
            how = f"{signal.Signals(-code).name}" if -65 < code < 0 else f"exit code {code}"
            self.reason = f"the node's shim ended unexpectedly: {how}"
        if self.reason is not None and "ended unexpectedly" in self.reason:
            self.reason += words
        self.shim.end()
        self.clean = clean
        self.ended.set()
        self.tell_end()

    def _last_words(self) -> str:
        """What shim or agent wrote before it went."""
        try:
            path = os.path.join(self.directory, SHIM_LOG)
            text = read_regular_file(path, last_bytes=4096).decode("utf-8", "replace")
        except OSError:
            return ""
        lines = text.split("\n")
        said = [line for line in lines if line.strip()]
        return f"; it said: {said[-1][:LAST_WORDS_MAX]}" if said else ""

    def tell_end(self) -> None:
        """Report how it ended, unless it was asked to; again for whoever has not heard it.  Both
        ways: before the hand-over it is a failed bootstrap, after it a lost node, and only one of
        the two is taken."""
        if self._asked_to_end or not self.ended.is_set():
            return
        reason = self.reason or "the node ended"
        self.context.report(BootstrapFailed(self.context.session_id, reason))
        self.context.lost(reason)

    def repeat(self) -> None:
        """Tell again where it stands, for one who has just learned of it."""
        if self._stage is not None:
            self.context.report(self._stage)
        self.tell_end()
