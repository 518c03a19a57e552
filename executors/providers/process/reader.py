"""One thread that hears all nodes: it reads their report pipes and collects their shims.

It waits for descriptors only, and ends what a shim that was killed has left behind; what a report
means is the session's business.
"""

import os
import selectors
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from loguru import logger

from cluster_reconciler.executors.providers.process.processes import kill_leases
from cluster_reconciler.executors.providers.process.session import Session

READ_BYTES = 64 * 1024
LAST_BYTES_MAX = 4 * 1024 * 1024
"""So much is read of a node that has ended."""

SWEEP_SECONDS = 2.0
POLL_SECONDS = 0.05
"""Between two looks at shims that no descriptor tells the end of."""


class Reader:
    """The thread is there from the first session to `close`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._take_fresh)
        self._fresh: deque[Session] = deque()
        self._polled: set[Session] = set()
        """Shims whose end is looked for, where there are no pidfds."""
        self._ended: list[Session] = []
        """Whose shims were seen to have ended in this round."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False

    def add(self, session: Session) -> None:
        """Hear this one, too.  Not after `close`."""
        with self._lock:
            assert not self._closing, "nobody is heard any more"
            self._fresh.append(session)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="process-node-reader", daemon=True
                )
                self._thread.start()
            self._wake()

    def close(self, seconds: float) -> None:
        """End the thread; nobody is heard any more.  Idempotent."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._wake()
            thread = self._thread
        if thread is None:
            self._let_go()
        elif thread is not threading.current_thread():
            thread.join(seconds)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            return  # It has enough to wake up for.

    def _run(self) -> None:
        while not self._closing:
            timeout = POLL_SECONDS if self._polled else None
            for key, _ in self._selector.select(timeout):
                handle: Callable[[], object] = key.data
                self._contained(handle)
            for session in self._polled:
                if session.shim.process.poll() is not None:
                    self._ended.append(session)
            self._contained(self._collect)
        self._let_go()

    def _contained(self, handle: Callable[[], object]) -> None:
        try:
            handle()
        except Exception as error:  # noqa: BLE001 - the other nodes must be heard on
            # No traceback: a log that shows its variables would show the node's secrets.
            logger.error("a node's reports could not be read: {!r}", error)

    def _take_fresh(self) -> None:
        os.read(self._wake_read, 4096)
        while self._fresh:
            session = self._fresh.popleft()
            shim = session.shim
            self._selector.register(
                shim.reports, selectors.EVENT_READ, partial(self._read, session)
            )
            if shim.exited is None:
                self._polled.add(session)
            else:
                seen = partial(self._ended.append, session)
                self._selector.register(shim.exited, selectors.EVENT_READ, seen)

    def _read(self, session: Session) -> bool:
        """Read once; whether there may be more."""
        if session.shim.reports not in self._selector.get_map():
            return False
        try:
            data = os.read(session.shim.reports, READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            session.feed(data)
            return True
        self._selector.unregister(session.shim.reports)  # The shim's end will be told as well.
        return False

    def _collect(self) -> None:
        """What has ended: end what is left of it, read its last words, tell its end."""
        if not self._ended:
            return
        ended = tuple(self._ended)
        self._ended.clear()
        codes = {session: session.shim.process.wait() for session in ended}
        # A shim that ended in order has ended everything first.
        torn = [session.directory for session, code in codes.items() if code != 0]
        left = kill_leases(torn, SWEEP_SECONDS) if torn else frozenset()
        for session, code in codes.items():
            clean = session.directory not in left
            self._contained(partial(self._finish, session, code, clean=clean))

    def _finish(self, session: Session, code: int, *, clean: bool) -> None:
        try:
            for _ in range(LAST_BYTES_MAX // READ_BYTES):
                if not self._read(session):
                    break
        finally:
            self._forget(session)
            session.closed(code, clean=clean)

    def _forget(self, session: Session) -> None:
        self._polled.discard(session)
        for descriptor in (session.shim.reports, session.shim.exited):
            if descriptor is None:
                continue
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
            os.close(descriptor)

    def _let_go(self) -> None:
        for session in self._fresh:
            self._forget(session)
        for key in list(self._selector.get_map().values()):
            if key.fd != self._wake_read:
                os.close(key.fd)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
