"""How a traced run went as a whole: attempts, time in each stage, what failed, what was slow.

It takes the messages one by one and keeps a few numbers for each node, stage, reason and kind of
operation.  What comes out is a document (`trace_document`); how it looks is not its business.
"""

import heapq
import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from cluster_reconciler.actors.cli.trace_document import (
    GroupSummary,
    NodeSummary,
    OperationsSummary,
    PhaseSummary,
    ReasonSummary,
    SlowOperation,
    TraceSummary,
)
from cluster_reconciler.actors.cli.trace_reading import OF_OPERATIONS, Change, Entry, Filter
from cluster_reconciler.actors.replay import NodeChange, Replayed
from cluster_reconciler.actors.trace import TraceHeader
from cluster_reconciler.decider import ManagedNode
from cluster_reconciler.messages import NodeIntent, NodeStage

SLOWEST = 10
"""So many of the slowest operations are kept for each provider."""
REASONS_MAX = 1_000
"""Different reasons that are told apart; what comes beyond is counted together."""
OTHER_REASONS = "other reasons"
_REASON_LENGTH_MAX = 200
OUTPUT_FOLLOWS = "; its last output: "
_BEGINNING = 100
"""Characters: reasons that begin alike for so long, numbers aside, are one."""
_NUMBER = re.compile(r"[0-9a-f]*\d[0-9a-f]*")
"""Also the hexadecimal ones in names of leases."""


class _Node(Struct):
    provider: str
    group: str
    attempts: int = 0
    attempt: int = 0
    failures: int = 0
    retries: int = 0
    phase: str = ""
    since: datetime | None = None


class _Phase(Struct):
    stays: int = 0
    total: timedelta = timedelta(0)
    longest: timedelta = timedelta(-1)
    node: str = ""
    attempt: int = 0
    going_on: int = 0


class _Reason(Struct):
    reason: str
    count: int = 0
    node: str = ""
    attempt: int = 0


class _Operations(Struct):
    count: int = 0
    failed: int = 0
    expired: int = 0
    total: float = 0.0
    longest: float = 0.0


class Summing:
    """Sums a trace up, message by message."""

    def __init__(self, wanted: Filter) -> None:
        self.matched = False
        """Something of what is wanted was there."""
        self._wanted = wanted
        self._header: TraceHeader | None = None
        self._last: datetime | None = None
        self._messages: Counter[str] = Counter()
        self._refused = 0
        self._nodes: dict[str, _Node] = {}
        self._phases: dict[tuple[str | None, str], _Phase] = {}
        """By group, None for all together, and name."""
        self._reasons: dict[tuple[str, str], _Reason] = {}
        self._operations: dict[tuple[str, str], _Operations] = {}
        self._slowest: dict[str, list[tuple[float, int, SlowOperation]]] = {}
        self._slowest_of: dict[str, SlowOperation] = {}
        """By group."""
        self._flying: dict[str, tuple[datetime, Change, str]] = {}
        """By node: it has one operation at a time."""
        self._ended = 0

    def begin(self, header: TraceHeader) -> None:
        """First of all."""
        self._header = header

    def add(self, entry: Entry, replayed: Replayed) -> None:
        """One message."""
        self._last = entry.at
        if not self._wanted or self._wanted.kept(entry) is not None:
            self.matched = True
            self._messages[entry.message] += 1
            self._refused += entry.refused is not None
        for change in replayed.changes:
            self._node(change, entry.at)
        if entry.operation is not None and entry.refused is None:
            self._result(entry)
        for said in entry.changes:
            self._change(said, entry.at)

    # -- nodes ------------------------------------------------------------------------------------

    def _concerns(self, node: str, attempt: int) -> bool:
        wanted = self._wanted
        return (wanted.node is None or wanted.node == node) and (
            wanted.attempt is None or wanted.attempt == attempt
        )

    def _node(self, change: NodeChange, at: datetime) -> None:
        was, now = change.before, change.after
        node = self._nodes.get(change.node)
        if node is None:
            if now is None:
                return
            node = self._nodes[change.node] = _Node(
                now.record.desired.provider, now.record.desired.group_id
            )
        if now is None:
            self._enter(change.node, node, "gone", at)
            return
        if now.attempt != node.attempt or node.phase == "gone":
            self._leave(change.node, node, at)
            node.attempt, node.provider = now.attempt, now.record.desired.provider
            node.attempts += self._concerns(change.node, now.attempt)
            node.phase = ""
        if self._concerns(change.node, now.attempt):
            self._troubles(change.node, node, was, now)
        phase = phase_of(now)
        if phase != node.phase:
            self._enter(change.node, node, phase, at)

    def _enter(self, name: str, node: _Node, phase: str, at: datetime) -> None:
        self._leave(name, node, at)
        node.phase, node.since = phase, at

    def _leave(self, name: str, node: _Node, at: datetime, *, going_on: bool = False) -> None:
        if node.since is None or node.phase == "gone" or not self._concerns(name, node.attempt):
            return
        stay = at - node.since
        node.since = None if not going_on else node.since
        for group in (None, node.group):
            phase = self._phases.setdefault((group, node.phase), _Phase())
            phase.stays += 1
            phase.total += stay
            phase.going_on += going_on
            if stay > phase.longest:
                phase.longest, phase.node, phase.attempt = stay, name, node.attempt

    def _troubles(self, name: str, node: _Node, was: ManagedNode | None, now: ManagedNode) -> None:
        same = was is not None and was.attempt == now.attempt
        if now.record.failed_at is not None and not (
            same and was is not None and was.record.failed_at is not None
        ):
            node.failures += 1
            self._reason("failed", name, now, now.record.failed_reason)
        elif (
            same
            and was is not None
            and now.retry.consecutive_failures > was.retry.consecutive_failures
        ):
            node.retries += 1
            self._reason("retry", name, now, now.retry.last_error)

    def _reason(self, what: str, name: str, now: ManagedNode, reason: str | None) -> None:
        text = reason or "no reason given"
        key = (what, beginning_of(text))
        if len(text) > _REASON_LENGTH_MAX:
            text = text[: _REASON_LENGTH_MAX - 1] + "…"
        if key not in self._reasons and len(self._reasons) >= REASONS_MAX:
            key, text = (what, OTHER_REASONS), OTHER_REASONS
        found = self._reasons.setdefault(key, _Reason(text))
        found.count += 1
        found.node, found.attempt = name, now.attempt

    # -- operations -------------------------------------------------------------------------------

    def _change(self, said: Change, at: datetime) -> None:
        node = self._nodes.get(said.node or "")
        if node is None or said.node is None or said.what not in OF_OPERATIONS:
            return
        if said.what == "dispatched":
            self._flying[said.node] = (at, said, node.provider)
            return
        self._flying.pop(said.node, None)
        if said.seconds is not None:
            self._end(said, said.seconds, said.what, node.provider)

    def _result(self, entry: Entry) -> None:
        node = self._nodes.get(entry.node or "")
        if node is None or entry.node is None or entry.operation is None:
            return
        self._flying.pop(entry.node, None)
        if entry.seconds is not None:
            result = "ok" if entry.ok else "failed"
            self._end(entry, entry.seconds, result, node.provider)

    def _end(self, said: Change | Entry, seconds: float, result: str, provider: str) -> None:
        if self._wanted and not self._wanted.matches(said):
            return
        kind = str(said.kind or "unknown")
        if result != "in flight":
            found = self._operations.setdefault((provider, kind), _Operations())
            found.count += 1
            found.failed += result == "failed"
            found.expired += result == "expired"
            found.total += seconds
            found.longest = max(found.longest, seconds)
        self._ended += 1
        node = self._nodes.get(said.node or "")
        group = node.group if node is not None else ""
        slow = self._slowest.setdefault(provider, [])
        among = len(slow) < SLOWEST or slow[0][0] < seconds
        of_group = self._slowest_of.get(group)
        if not among and of_group is not None and of_group.seconds >= seconds:
            return
        one = SlowOperation(
            provider,
            seconds,
            said.operation or "",
            kind,
            said.node or "",
            said.attempt or 0,
            result,
        )
        if of_group is None or of_group.seconds < seconds:
            self._slowest_of[group] = one
        if not among:
            return
        push = heapq.heappush if len(slow) < SLOWEST else heapq.heapreplace
        push(slow, (seconds, -self._ended, one))

    # -- the end ----------------------------------------------------------------------------------

    def summary(self, path: Path) -> TraceSummary:
        """Of all that came.  Once only: what goes on is ended by it."""
        header = self._header
        if header is None:
            return TraceSummary(str(path))
        last = self._last or header.started_at
        for name, node in self._nodes.items():
            self._leave(name, node, last, going_on=True)
        for at, said, provider in self._flying.values():
            self._end(said, round((last - at).total_seconds(), 6), "in flight", provider)
        return TraceSummary(
            str(path),
            run_id=header.shape.run_id,
            started_at=header.started_at,
            ended_at=last,
            messages=dict(sorted(self._messages.items())),
            refused=self._refused,
            nodes=tuple(
                NodeSummary(
                    name, node.provider, node.attempts, node.attempt, node.phase, node.failures,
                    node.retries,
                )
                for name, node in sorted(self._nodes.items())
                if node.attempts
            ),
            groups=self._groups(),
            phases=self._phases_of(None),
            group_phases=tuple(
                phase
                for group in sorted({group for group, _ in self._phases if group is not None})
                for phase in self._phases_of(group)
            ),
            reasons=tuple(
                ReasonSummary(what, found.reason, found.count, found.node, found.attempt)
                for (what, _), found in sorted(
                    self._reasons.items(), key=lambda item: (-item[1].count, item[0])
                )
            ),
            operations=tuple(
                OperationsSummary(
                    provider, kind, found.count, found.failed, found.expired,
                    round(found.total / found.count, 6), found.longest,
                )
                for (provider, kind), found in sorted(self._operations.items())
            ),
            slowest=tuple(
                one
                for _, slow in sorted(self._slowest.items())
                for _, _, one in sorted(slow, reverse=True)
            ),
        )  # fmt: skip

    def _groups(self) -> tuple[GroupSummary, ...]:
        of: dict[str, list[_Node]] = {}
        for node in self._nodes.values():
            if node.attempts:
                of.setdefault(node.group, []).append(node)
        return tuple(
            GroupSummary(
                group,
                len(nodes),
                sum(node.attempts for node in nodes),
                sum(node.failures for node in nodes),
                sum(node.retries for node in nodes),
                self._slowest_of.get(group),
            )
            for group, nodes in sorted(of.items())
        )

    def _phases_of(self, group: str | None) -> tuple[PhaseSummary, ...]:
        return tuple(
            _phase(name, self._phases[group, name], group)
            for name in _PHASES
            if (group, name) in self._phases
        )


_PHASES = (*(str(stage) for stage in NodeStage), "ready", "deleting")


def phase_of(node: ManagedNode) -> str:
    """Its stage; `ready` and `deleting` say more than the stage that goes on under them."""
    if node.record.stage is NodeStage.DESTROYED:
        return "destroyed"
    if node.intent is NodeIntent.DELETING:
        return "deleting"
    return "ready" if node.record.ready else str(node.record.stage)


def beginning_of(reason: str) -> str:
    """What reasons that are alike have in common: their first words, numbers aside."""
    said, _, _ = reason[: 4 * _BEGINNING].partition(OUTPUT_FOLLOWS)
    return _NUMBER.sub("0", said)[:_BEGINNING]


def _phase(name: str, found: _Phase, group: str | None) -> PhaseSummary:
    return PhaseSummary(
        name,
        found.stays,
        round(found.total.total_seconds() / found.stays, 6),
        found.longest.total_seconds(),
        found.node,
        found.attempt,
        found.going_on,
        group,
    )
