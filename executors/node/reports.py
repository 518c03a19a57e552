"""What the agent tells the reconciler: JSON lines on a pipe, and the node's own log files.

It never blocks: a reader that does not read loses output lines, which are counted; what the node's
fate hangs on is kept.  The log files are bounded.
"""

import json
import os
import select
import time
from collections import deque
from collections.abc import Callable

WAITING_BYTES_MAX = 1024 * 1024
LOG_BYTES_MAX = 8 * 1024 * 1024
"""Each stream's log is begun anew at this size; the one before is kept beside it."""


class Reports:
    """The report pipe and the logs of one node."""

    def __init__(self, descriptor: int, lease_dir: str, mask: Callable[[str], str]) -> None:
        """`mask` hides secrets in everything that is said."""
        self._mask = mask
        self.descriptor = descriptor
        os.set_blocking(descriptor, False)
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._dropped = 0
        self._numbers = {"stdout": 0, "stderr": 0}
        self._logs = {name: _Log(os.path.join(lease_dir, f"{name}.log")) for name in self._numbers}

    @property
    def waiting(self) -> bool:
        """Whether something is to be written yet."""
        return bool(self._queue)

    def stage(self, stage: str) -> None:
        """The bootstrap is there now."""
        self._put({"t": "stage", "stage": stage, **self._counts()})

    def failed(self, reason: str) -> None:
        """The node is at its end, and why."""
        self._put({"t": "failed", "reason": self._mask(reason), **self._counts()})

    def note(self, text: str) -> None:
        """A word of the agent's own, as a line of the node's errors."""
        self.line("stderr", f"[node agent] {text}")

    def line(self, stream: str, text: str) -> None:
        """A line of output; dropped when too much waits."""
        text = self._mask(text)
        self._numbers[stream] += 1
        self._logs[stream].write(text)
        if self._queued > WAITING_BYTES_MAX:
            self._dropped += 1
            return
        if self._dropped:
            text = f"[{self._dropped} lines were not passed on; they are in the log] {text}"
            self._dropped = 0
        self._put({"t": "line", "stream": stream, "number": self._numbers[stream], "text": text})

    def push(self) -> None:
        """Write what the pipe takes."""
        while self._queue:
            data = self._queue[0]
            try:
                written = os.write(self.descriptor, data)
            except BlockingIOError:
                return
            except OSError:
                self._queue.clear()  # The reader is gone; the control pipe will say so.
                self._queued = 0
                return
            self._queued -= written
            if written < len(data):
                self._queue[0] = data[written:]
                return
            self._queue.popleft()

    def flush(self, seconds: float) -> None:
        """Write everything, for so long at most."""
        deadline = time.monotonic() + seconds
        self.push()
        while self._queue and (left := deadline - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self.descriptor, select.POLLOUT)
            poll.poll(left * 1000)
            self.push()

    def _counts(self) -> dict[str, int]:
        return {"stdout": self._numbers["stdout"], "stderr": self._numbers["stderr"]}

    def _put(self, report: dict[str, object]) -> None:
        data = json.dumps(report).encode() + b"\n"
        self._queue.append(data)
        self._queued += len(data)
        self.push()


class _Log:
    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._size = 0
        self._open()

    def _open(self) -> None:
        # Not blocking: the command may have put a pipe there that nobody reads.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        self._descriptor = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def write(self, text: str) -> None:
        """A full or vanished disk costs the log, not the node."""
        data = text.encode("utf-8", "replace") + b"\n"
        try:
            if self._descriptor >= 0 and self._size + len(data) > LOG_BYTES_MAX:
                # Its number may be another file's from now on: never write to it again.
                descriptor, self._descriptor = self._descriptor, -1
                os.close(descriptor)
                os.replace(self._path, f"{self._path}.1")
            if self._descriptor < 0:
                self._open()
            self._size += os.write(self._descriptor, data)
        except OSError:
            return
