"""What may be done to a world from outside, as data: each with its time and its own parameters.

Parameters keep their meaning when other moves are taken away: a node is "the nth of those that are
there, counted round".  Nothing here does anything; `acts` does.
"""

from datetime import timedelta

from msgspec import Struct

from cluster_reconciler.decider import RetryPolicy


class GroupDraw(Struct, frozen=True):
    """One node group of a shape."""

    name: str
    count: int
    version: int
    """Another one is another boot command: every node of the group is replaced."""
    provider: int


class ShapeDraw(Struct, frozen=True):
    """A desired shape, but for its generation."""

    groups: tuple[GroupDraw, ...]
    in_flight: int | None = None
    """The limit of every provider; None: the default."""


class Move(Struct, frozen=True, tag=True):
    """One move, at a time."""

    name: str
    at: float
    """Seconds from the start."""


class Reshape(Move, frozen=True, tag=True):
    """Another desired shape."""

    shape: ShapeDraw
    generations: int


class ThereAndBack(Move, frozen=True, tag=True):
    """A -> B -> A; `between`: what happens meanwhile, in seconds (None: not even a message)."""

    shape: ShapeDraw
    between: float | None


class InvalidShape(Move, frozen=True, tag=True):
    """A shape that must be refused, and change nothing."""

    fault: str


class Die(Move, frozen=True, tag=True):
    """A machine dies, and the swarm notices after a while (None: never)."""

    nth: int
    noticed: float | None


class Remove(Move, frozen=True, tag=True):
    """Somebody deletes a machine by hand: only a listing shows it."""

    nth: int


class FalseLoss(Move, frozen=True, tag=True):
    """The swarm says that a node is lost which lives on, and comes back so much later."""

    nth: int
    comes_back: float


class News(Move, frozen=True, tag=True):
    """A node's session, or one of long ago, says something: again, late, out of order."""

    nth: int
    attempts_ago: int
    word: str


class Nonsense(Move, frozen=True, tag=True):
    """A message that means nothing comes into the mailbox."""

    kind: str
    nth: int


class EndSession(Move, frozen=True, tag=True):
    """A node's session closes, or fails."""

    nth: int
    failure: str | None


class Sleep(Move, frozen=True, tag=True):
    """The reconciler's own machine is suspended for so long."""

    seconds: float


class PutOff(Move, frozen=True, tag=True):
    """The executors do nothing for so long; then a few steps of theirs, then all."""

    seconds: float
    steps: int


class KillExecutor(Move, frozen=True, tag=True):
    """An executor's actor dies before it handles what was told to it."""

    nth: int


class Poke(Move, frozen=True, tag=True):
    """Triggers from nowhere; or the timer of the next deadline is lost."""

    what: str


class Mood(Move, frozen=True, tag=True):
    """A provider changes."""

    provider: int
    lag: float
    """Share of its settle time for which a fresh machine is missing from its reads."""
    endpoint_delay: float
    capacity: int | None
    creates_per_second: int | None


class Drain(Move, frozen=True, tag=True):
    """Everything is to go, and no other shape is taken from now on."""


class InvalidRetry(Move, frozen=True, tag=True):
    """A retry policy that cannot be meant; refused before anybody hears of it."""

    fault: str


class OtherRetry(Move, frozen=True, tag=True):
    """Another retry policy, live."""

    policy: RetryPolicy


AnyMove = (
    Reshape
    | ThereAndBack
    | InvalidShape
    | Die
    | Remove
    | FalseLoss
    | News
    | Nonsense
    | EndSession
    | Sleep
    | PutOff
    | KillExecutor
    | Poke
    | Mood
    | OtherRetry
    | InvalidRetry
    | Drain
)


def prose(move: AnyMove) -> str:
    """One line for people."""
    fields = [
        f"{field}={_said(getattr(move, field))}"
        for field in move.__struct_fields__
        if field not in ("name", "at")
    ]
    return f"{move.name} at {move.at:g} s: {type(move).__name__}({', '.join(fields)})"


def _said(value: object) -> str:
    if isinstance(value, ShapeDraw):
        groups = ", ".join(
            f"{g.count} of {g.name} v{g.version} on p{g.provider}" for g in value.groups
        )
        limit = "" if value.in_flight is None else f", in_flight {value.in_flight}"
        return f"[{groups}{limit}]"
    if isinstance(value, RetryPolicy):
        return (
            "{"
            + ", ".join(f"{f}={_said(getattr(value, f))}" for f in value.__struct_fields__)
            + "}"
        )
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    return repr(value)
