"""One thread that hears all nodes: it reads their report pipes and collects their shims.

It only ever waits for descriptors; what a report means is the session's business.
"""

import os
import selectors
import threading
from collections import deque

from loguru import logger

from cluster_reconciler.executors.providers.process.session import Session

READ_BYTES = 64 * 1024
COLLECT_SECONDS = 5.0


class Reader:
    """The thread is there from the first session to `close`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._fresh: deque[Session] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False

    def add(self, session: Session) -> None:
        """Hear this one, too."""
        with self._lock:
            self._fresh.append(session)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="process-node-reader", daemon=True
                )
                self._thread.start()
        self._wake()

    def close(self, seconds: float) -> None:
        """End the thread; nobody is heard any more."""
        self._closing = True
        self._wake()
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except (BlockingIOError, OSError):
            return  # It has enough to wake up for, or is gone.

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._take_fresh()
                    continue
                try:
                    self._read(key.data)
                except Exception as error:  # noqa: BLE001 - the other nodes must be heard on
                    logger.opt(exception=error).error("a node's reports could not be read")
        self._let_go()

    def _take_fresh(self) -> None:
        os.read(self._wake_read, 4096)
        while self._fresh:
            session = self._fresh.popleft()
            self._selector.register(session.shim.reports, selectors.EVENT_READ, session)

    def _read(self, session: Session) -> None:
        try:
            data = os.read(session.shim.reports, READ_BYTES)
        except BlockingIOError:
            return
        if data:
            session.feed(data)
            return
        self._selector.unregister(session.shim.reports)
        os.close(session.shim.reports)
        # The pipe's last writer is gone.  Whoever asked for that collects a shim that lingers.
        threading.Thread(
            target=_collect, args=(session,), name="process-node-collector", daemon=True
        ).start()

    def _let_go(self) -> None:
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                os.close(key.data.shim.reports)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)


def _collect(session: Session) -> None:
    try:
        code = session.shim.process.wait(COLLECT_SECONDS)
    except Exception:  # noqa: BLE001 - it hangs: end it by force
        session.shim.process.kill()
        code = session.shim.process.wait()
    session.closed(code)
