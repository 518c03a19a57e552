"""Which events of a cluster's life are worth a line of the log, and when again (design §5; F29).

A failure that repeats is written at counts 1, 2, 4, 8, ... and then hourly, with its count.  What a
failing node goes through on the way to its next failure (leased, booted, destroyed, begun anew) is
written the first time only.  A node that fails after it was ready for a while is news again, from
its first line on; one that is lost right after each start is not.  What differs only in long
numbers (a request, a pid, a port) is the same failure, and a pass that does the same with other
numbers of nodes is the same pass; a line that repeats is shortened, its first one stands whole.

Decides, and writes nothing.
"""

import re
from datetime import datetime, timedelta
from functools import lru_cache

from msgspec import Struct

from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.trace_log import RepeatedFailureFilter
from cluster_reconciler.messages import LogicalNodeId

FAILURES = frozenset({EventKind.FAILED, EventKind.RETRY, EventKind.WARNING})
_TURNS = frozenset({EventKind.CONVERGED, EventKind.DIVERGED})
"""Of the whole cluster: with nodes that crash after each join it turns to and fro."""
_UNFOLDED = frozenset({EventKind.REFUSED, EventKind.OUTPUT})
"""Below INFO: whoever asks for them wants them all."""

VARIETY_MAX = 8
"""Of one node's failures, so many are told apart; a cloud may give each a number of its own."""

STEPS_MAX = 64
"""Of one node since it was news last, so many different steps are written and remembered: the texts
come from clouds and commands, and need never repeat."""

_VARYING = re.compile(r"the node is lost: |, next try in .*|; its last output: .*", re.DOTALL)
"""A node that ends is told as failed and as lost, and which comes first is chance."""
_NUMBER = re.compile(r"\d+")
_IDENTITY = re.compile(
    r"\b(?=[\da-f-]*\d)[\da-f]{4,}(?:-[\da-f]{4,})+\b|\b(?=[a-f]*\d)[\da-f]{8,}\b|\d{4,}"
)
"""What a cloud gives each failure anew: long numbers, UUIDs, hashes.  Exit codes and the codes of
HTTP are shorter, and tell failures apart."""

REPEATED_MAX = 200
"""Characters of a failure's text when it is written again."""


class _Seen(Struct):
    """What was written of one node since it was news last."""

    failures: set[tuple[object, ...]]
    steps: set[tuple[EventKind, str]]
    ready_since: datetime | None = None


class LogFolding:
    """Not safe for threads: the driver's."""

    def __init__(self, stable_after: timedelta) -> None:
        """`stable_after`: ready for so long, a node has recovered (design rule 7)."""
        self._stable_after = stable_after
        self._repeats = RepeatedFailureFilter()
        self._nodes: dict[LogicalNodeId, _Seen] = {}

    def line(self, event: ClusterEvent) -> str | None:
        """What to write of the event; None: nothing."""
        if event.kind in _UNFOLDED:
            return event.text
        if event.node is None:
            folded = event.kind in FAILURES or event.kind in _TURNS
            return self._failure(event, _turn_or_key(event)) if folded else event.text
        seen = self._seen(event.node, event.at)
        if event.kind is EventKind.READY:
            seen.ready_since = event.at
        if event.kind in FAILURES:
            seen.ready_since = None
            key = _key(event)
            if key not in seen.failures and len(seen.failures) >= VARIETY_MAX:
                key = (event.node, event.kind, None)
            seen.failures.add(key)
            return self._failure(event, key)
        if event.kind is EventKind.REAPED:
            self._forget(event.node)
            return event.text
        step = (event.kind, _without_numbers(event.text))
        if step in seen.steps or len(seen.steps) >= STEPS_MAX:
            return None
        seen.steps.add(step)
        return event.text

    def pass_line(self, said: str, now: datetime) -> str | None:
        """The same for a pass that did the same as one before it."""
        count = self._repeats.count(("pass", _without_numbers(said)), now)
        return None if count is None else f"{said}{_seen_times(count)}"

    def _failure(self, event: ClusterEvent, key: tuple[object, ...]) -> str | None:
        count = self._repeats.count(key, event.at)
        if count is None:
            return None
        text = event.text
        if count > 1 and len(text) > REPEATED_MAX:
            text = f"{text[:REPEATED_MAX]}..."
        return f"{text}{_seen_times(count)}"

    def _seen(self, node: LogicalNodeId, now: datetime) -> _Seen:
        found = self._nodes.get(node)
        since = found.ready_since if found is not None else None
        if since is not None and now - since >= self._stable_after:
            self._forget(node)
            found = None
        if found is None:
            found = self._nodes[node] = _Seen(set(), set())
        return found

    def _forget(self, node: LogicalNodeId) -> None:
        """What is over is written at once when it comes again."""
        seen = self._nodes.pop(node, None)
        for key in seen.failures if seen is not None else ():
            self._repeats.forget(key)


@lru_cache(maxsize=1024)
def _without_numbers(text: str) -> str:
    """Most texts are of a few kinds, and come again and again."""
    return _NUMBER.sub("#", text)


def _turn_or_key(event: ClusterEvent) -> tuple[object, ...]:
    """A generation is news, and its number no mere number."""
    return (event.kind, event.text) if event.kind in _TURNS else _key(event)


def _key(event: ClusterEvent) -> tuple[object, ...]:
    """An identical failure of one node, whenever its next try is, whatever it printed and whichever
    request or process it was."""
    return (event.node, event.kind, _IDENTITY.sub("#", _VARYING.sub("", event.text)))


def _seen_times(count: int) -> str:
    return f" (seen {count} times)" if count > 1 else ""
