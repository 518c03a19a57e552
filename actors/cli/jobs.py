"""Calls that may block, on daemon threads, so that the one who waits can also hear a signal."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
D = TypeVar("D")


class Job(Generic[T]):
    """One call on its own thread; `done(job)` is called there when it has ended."""

    def __init__(self, name: str, work: Callable[[], T], done: Callable[["Job[T]"], None]) -> None:
        self._work = work
        self._done = done
        self._results: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def result(self) -> T:
        """What the call returned; raises what it raised.  Only after it has ended."""
        if self._error is not None:
            raise self._error
        assert self._results, "the job has not ended"
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:  # noqa: BLE001  # told to the one who waits
            self._error = error
        self._done(self)


def bounded(work: Callable[[], T], seconds: float, default: D) -> T | D:
    """The call's result, or `default` when it raises or takes longer; it then goes on alone."""
    ended = threading.Event()
    job = Job("bounded", work, lambda _: ended.set())
    if not ended.wait(seconds):
        return default
    try:
        return job.result()
    except Exception:  # noqa: BLE001  # the caller has said what he wants instead
        return default
