"""What there is in a trace, for somebody who asked for something that is not there.

It keeps the ids of nodes, and of attempts and operations only what the question needs.
"""

from msgspec import Struct

from cluster_reconciler.actors.cli.faults import nearest, quoted
from cluster_reconciler.actors.cli.trace_reading import Filter
from cluster_reconciler.actors.cli.words import one_line
from cluster_reconciler.actors.replay import Replayed

NAMED_MAX = 8


class _Seen(Struct):
    """Numbers that came, smallest and largest."""

    low: int = 0
    high: int = 0

    def add(self, number: int) -> None:
        self.low = min(self.low, number) if self.low else number
        self.high = max(self.high, number)

    def words(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"


class Matching:
    """Sees every message, and says why nothing of them was shown."""

    def __init__(self, wanted: Filter) -> None:
        self.found = False
        """Something matched."""
        self._wanted = wanted
        self._nodes: dict[str, _Seen] = {}
        """With the attempts of each."""
        self._attempts = _Seen()
        self._owner: str | None = None
        """The node of the attempt that is asked for."""
        self._operations = _Seen()
        """The sequences of the attempt whose operation is asked for."""

    def see(self, replayed: Replayed) -> None:
        """One message."""
        if not self._wanted or self.found:
            return
        for change in replayed.changes:
            if change.after is not None:
                attempt = change.after.attempt
                self._nodes.setdefault(change.node, _Seen()).add(attempt)
                self._attempts.add(attempt)
                if attempt == self._wanted.attempt:
                    self._owner = change.node
        operation = self._wanted.operation
        if operation is not None:
            for effect in replayed.effects:
                if effect.operation.attempt == operation.attempt:
                    self._operations.add(effect.operation.sequence)

    def word(self) -> str | None:
        """None: something matched, or everything was asked for."""
        if self.found or not self._wanted:
            return None
        return one_line(f"nothing matches: {self._reason()}")

    def _reason(self) -> str:
        node, attempt, operation = self._wanted.node, self._wanted.attempt, self._wanted.operation
        if not self._nodes:
            return "there is no node in this trace"
        if node is not None and node not in self._nodes:
            return f"there is no node {quoted(node)}{self._meant(node)}; there is {self._names()}"
        if attempt is not None and not self._owner:
            return f"there is no attempt {attempt}; there is {self._attempts.words()}"
        if node is not None and attempt is not None and self._owner != node:
            had = self._nodes[node].words()
            return f"attempt {attempt} is of {self._owner}; {node} had attempts from {had}"
        if operation is not None:
            if attempt is not None and operation.attempt != attempt:
                return f"{operation} is of attempt {operation.attempt}, not of attempt {attempt}"
            had = self._operations.words() if self._operations.high else "none"
            return f"of the operations of attempt {operation.attempt} there is {had}"
        return "nothing happened to it"

    def _meant(self, node: str) -> str:
        name = nearest(node, self._nodes)
        return f" (did you mean {quoted(name)}?)" if name is not None else ""

    def _names(self) -> str:
        names = sorted(self._nodes)
        more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        return ", ".join(names[:NAMED_MAX]) + more
