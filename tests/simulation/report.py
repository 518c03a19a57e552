"""What is printed: totals of all lives, and failures as prose, each with one command to replay it.

It runs nothing.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from statistics import quantiles

from tests.planning_counts import Compared
from tests.simulation import moves as m
from tests.simulation.faults import every_kind
from tests.simulation.running import Mode, Outcome
from tests.simulation.shrink import Shrunk

COMMAND = ".venv/bin/python -m tests.simulation"
ENOUGH = 1_000
"""After so many lives in each mode every kind of fault must have been seen."""


class Totals:
    """Adds up outcomes."""

    def __init__(self) -> None:
        self.lives: Counter[Mode] = Counter()
        self.failures = 0
        self.moves = self.messages = 0
        self.virtual_seconds = 0.0
        self.compared = Compared()
        self.counts: Counter[str] = Counter()
        self.claims: Counter[str] = Counter()
        self.longest: Outcome | None = None
        """The life that came closest to its bound."""
        self._converged_after: list[float] = []
        self._digests: dict[tuple[int, str], str] = {}

    def add(self, outcome: Outcome) -> None:
        """One more."""
        self.lives[outcome.mode] += 1
        self.failures += outcome.failure is not None
        self.moves += outcome.moves
        self.messages += outcome.messages
        self.virtual_seconds += outcome.virtual_seconds
        self.compared += outcome.compared
        self.counts.update(outcome.counts)
        if outcome.digest:
            self._digests[outcome.life.seed, outcome.mode] = outcome.digest
        if outcome.claim:
            self.claims[outcome.claim] += 1
        if outcome.converged_after is not None:
            self._converged_after.append(outcome.converged_after)
        if _share(outcome) > _share(self.longest):
            self.longest = outcome

    def missing(self) -> list[str]:
        """The kinds that were never seen, once there was occasion enough."""
        if min(self.lives.values(), default=0) < ENOUGH:
            return []
        moves = [f"move: {kind.__name__}" for kind in m.AnyMove.__args__]
        return [kind for kind in (*every_kind(), *moves) if self.counts[kind] == 0]

    def lines(self, seconds: float) -> Iterable[str]:
        """For people; `seconds` of real time, over all workers."""
        lives = ", ".join(f"{count} in {mode}" for mode, count in sorted(self.lives.items()))
        yield f"lives: {lives or 'none'}; {self.moves} moves, {self.messages} messages handled"
        yield (
            f"{self.messages / seconds:,.0f} messages and "
            f"{self.virtual_seconds / 3600 / seconds:,.1f} virtual hours per real second "
            f"({seconds:.1f} s)"
        )
        yield str(self.compared)
        faults = sum(n for kind, n in self.counts.items() if not kind.startswith("move: "))
        yield f"{faults} faults of {len(self.counts)} kinds:"
        for kind, count in sorted(self.counts.items()):
            yield f"  {count:9d}  {kind}"
        for claim, count in sorted(self.claims.items()):
            yield f"liveness, {count} lives: {claim}"
        if len(self._converged_after) > 1:
            tenths = quantiles(self._converged_after, n=10, method="inclusive")
            yield f"converged after: half within {tenths[4]:,.0f} s, nine tenths {tenths[8]:,.0f} s"
        if self.longest is not None:
            yield (
                f"closest to its bound: {self.longest.converged_after:,.0f} s of "
                f"{self.longest.bound:,.0f} s (seed {self.longest.life.seed})"
            )
        if self._digests:
            whole = repr(sorted(self._digests.items())).encode()
            yield f"all traces: {blake2b(whole, digest_size=16).hexdigest()}"
        yield from (f"NEVER SEEN: {kind}" for kind in self.missing())
        yield f"failures: {self.failures}"


def _share(outcome: Outcome | None) -> float:
    if outcome is None or outcome.converged_after is None or not outcome.bound:
        return -1.0
    return outcome.converged_after / outcome.bound


def replay_command(outcome: Outcome, keep: Iterable[str] | None, nodes: int | None) -> str:
    """The one command that replays exactly this."""
    size = f" --nodes {nodes}" if nodes is not None else ""
    kept = f" --keep '{','.join(keep)}'" if keep is not None else ""
    return f"{COMMAND} --seed {outcome.life.seed}{size} --mode {outcome.mode}{kept}"


def first_word(outcome: Outcome, nodes: int | None) -> str:
    """A failure as soon as it is met; what is left of it when it is shrunk is told at the end."""
    failure = outcome.failure
    assert failure is not None, "there is nothing to tell of a life that went well"
    return (
        f"FAILED, told at length at the end: seed {outcome.life.seed}, mode {outcome.mode}, during "
        f"{failure.move}: {failure.kind}: {failure.text[:200]}\n"
        f"  replay with: {replay_command(outcome, None, nodes)}"
    )


def failure_text(shrunk: Shrunk, nodes: int | None) -> str:
    """A failure as prose."""
    outcome = shrunk.outcome
    failure = outcome.failure
    assert failure is not None, "there is nothing to tell of a life that went well"
    life = outcome.life
    kept = [move for move in life.moves if move.name in shrunk.moves]
    lines = [
        f"FAILED: seed {life.seed}, mode {outcome.mode}, during {failure.move}",
        f"  {failure.kind}: {failure.text}",
        f"  the world: start {life.start:%Y-%m-%d %H:%M:%S}, {', '.join(map(str, life.providers))}",
        f"  {life.retry}",
        f"  shrunk in {shrunk.runs} runs to {len(kept)} moves and {len(shrunk.faults)} faults:",
        *(f"    {m.prose(move)}" for move in kept),
        *(f"    {name}: {outcome.fired.get(name, 'no longer happens')}" for name in shrunk.faults),
        "  its story:",
        *(f"    {line}" for line in failure.story),
        "  replay with:",
        f"    {replay_command(outcome, (*shrunk.moves, *shrunk.faults), nodes)}",
    ]
    return "\n".join(lines)
