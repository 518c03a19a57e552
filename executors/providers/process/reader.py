"""One thread that hears all nodes: it reads their report pipes and collects their shims.

It waits for descriptors only: a node's report pipe, and its shim's process descriptor, which tells
the shim's end even while a descendant still holds the pipe.  What a report means is the session's
business; sweeping up after a shim that was killed is done beside, on a short-lived thread.
"""

import os
import selectors
import threading
from collections import deque

from loguru import logger
from msgspec import Struct

from cluster_reconciler.executors.providers.process.processes import kill_lease
from cluster_reconciler.executors.providers.process.session import Session
from cluster_reconciler.executors.providers.process.spawning import Containment

READ_BYTES = 64 * 1024
SWEEP_SECONDS = 5.0


class _Ended(Struct, frozen=True):
    """Stands beside a process descriptor in the selector."""

    session: Session


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
        with self._lock:
            self._closing = True
            thread = self._thread
        if thread is None:
            self._let_go()
            return
        self._wake()
        thread.join(seconds)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except OSError:
            return  # It has enough to wake up for, or is gone.

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select():
                try:
                    self._serve(key)
                except Exception as error:  # noqa: BLE001 - the other nodes must be heard on
                    logger.error("a node's reports could not be read: {!r}", error)
        self._let_go()

    def _serve(self, key: selectors.SelectorKey) -> None:
        match key.data:
            case None:
                self._take_fresh()
            case Session() as session:
                self._read(session)
            case _Ended(session):
                self._end(key.fd, session)

    def _take_fresh(self) -> None:
        os.read(self._wake_read, 4096)
        while self._fresh:
            session = self._fresh.popleft()
            self._selector.register(session.shim.reports, selectors.EVENT_READ, session)
            process = os.pidfd_open(session.shim.process.pid)
            self._selector.register(process, selectors.EVENT_READ, _Ended(session))

    def _read(self, session: Session) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(session.shim.reports, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(session.shim.reports)
            session.shim.close_reports()
            return False
        session.feed(data)
        return True

    def _end(self, process: int, session: Session) -> None:
        """The shim is gone: hear the last that was said, collect it, sweep up."""
        self._selector.unregister(process)
        os.close(process)
        while session.shim.reports >= 0 and self._read(session):
            pass
        if session.shim.reports >= 0:
            self._selector.unregister(session.shim.reports)
            session.shim.close_reports()
        code = session.shim.process.wait()
        if code == 0 and session.shim.containment is Containment.NAMESPACE:
            session.closed(code)  # The kernel has ended everything else.
            return
        threading.Thread(
            target=_sweep, args=(session, code), name="process-node-sweeper", daemon=True
        ).start()

    def _let_go(self) -> None:
        for key in list(self._selector.get_map().values()):
            match key.data:
                case Session() as session:
                    session.shim.close_reports()
                case _Ended():
                    os.close(key.fd)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)


def _sweep(session: Session, code: int) -> None:
    """A shim that was killed could not end its descendants, where no namespace did it for it."""
    kill_lease(session.directory, SWEEP_SECONDS)
    session.closed(code)
