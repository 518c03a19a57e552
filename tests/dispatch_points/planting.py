"""What a fault is, where it can strike, and what the design's rules let it cost.

A fault is planted before a run, at one dispatch point of it, and strikes when the run gets there;
only then is its cost granted.  Nothing here knows a particular fault.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum, auto

from msgspec import Struct

from cluster_reconciler.messages import ExecutorResult, OperationKind, RunPass
from tests.dispatch_points.gates import POLICY
from tests.dispatch_points.world import SETTLE, Grant, Point, PointWorld

EXPIRY = POLICY.operation_timeout.total_seconds()
PROBE = POLICY.endpoint_probe_interval.total_seconds()
LOOKS = SETTLE.total_seconds() + 2 * PROBE
"""Seconds until an absence is conclusive: the settle time, and the look that comes just before and
just after it."""

MOMENT = 1.0
"""Seconds that an answer is on its way, when others are to come before it."""

NOTHING = Grant()
"""A fault that is harmless by the rules: it costs no attempt, no machine, no retry, no time."""
RETRIED = Grant(retries=1, seconds=LOOKS)
"""Rules 11-15: the operation is tried again, after a look where something may exist."""
EXPIRED = Grant(retries=1, seconds=EXPIRY + LOOKS)
"""Rules 13, 22: the same, once the operation has expired."""
ANEW = Grant(attempts=1, machines=1, failed=1, seconds=LOOKS)
"""Rules 9, 11, 16: the attempt fails once, and the slot comes back as one new attempt."""

MAKING = frozenset({OperationKind.CREATE_LEASE, OperationKind.START_BOOTSTRAP})


class Family(StrEnum):
    """What a fault strikes at."""

    EXECUTOR = auto()
    REPLY = auto()
    PROVIDER = auto()
    READS = auto()
    TRIGGER = auto()
    DEADLINE = auto()
    SHAPE = auto()
    NODE = auto()
    SESSION = auto()


class Fault(Struct, frozen=True):
    """One way to go wrong at a dispatch point."""

    name: str
    family: Family
    plant: Callable[[PointWorld, Point], None]
    fits: Callable[[Point], bool] = lambda _point: True
    """Whether it can strike at such a point at all."""
    same_course: bool = False
    """Every node dispatches exactly what it dispatches without the fault, in the same order."""


class Where(StrEnum):
    """When it strikes, seen from the dispatch."""

    BEFORE = auto()
    """Ahead of the pass that dispatches."""
    AFTER = auto()
    """After that pass, before an executor has begun."""
    ANSWERED = auto()
    """Carried out, ahead of the answer in the mailbox."""
    UNDERWAY = auto()
    """Carried out, and passes run before the answer comes."""


def result_of(point: Point, message: object) -> ExecutorResult | None:
    """The message, if it is the answer to the point's operation."""
    if isinstance(message, ExecutorResult) and message.operation == point.effect.operation:
        return message
    return None


def strike_at(
    world: PointWorld, point: Point, where: Where, messages: Callable[[], Sequence[object]]
) -> None:
    """Put these messages into the driver's mailbox then and there."""
    if where is Where.BEFORE:
        world.ahead_of_pass(point.told_pass, messages)
    elif where is Where.AFTER:
        world.at_dispatch(point, lambda: tell_all(world, messages()))
    elif where is Where.ANSWERED:
        on_answer(world, point, lambda answer: (*messages(), answer))
    else:
        on_answer(world, point, lambda answer: _ahead_of(world, answer, messages()))


def _ahead_of(
    world: PointWorld, answer: ExecutorResult, messages: Sequence[object]
) -> Sequence[object]:
    world.granted.append(Grant(seconds=MOMENT))
    world.after(MOMENT, lambda: world.cluster.tell(answer))
    return messages


def tell_all(world: PointWorld, messages: Sequence[object]) -> None:
    """One after another."""
    for message in messages:
        world.cluster.tell(message)


def on_answer(
    world: PointWorld, point: Point, act: Callable[[ExecutorResult], Sequence[object]]
) -> None:
    """What becomes of the answer to the point's operation, once; from its dispatch on."""

    remove: list[Callable[[], None]] = []

    def look(message: object) -> Sequence[object] | None:
        answer = result_of(point, message)
        if answer is None:
            return None
        remove[0]()
        return act(answer)

    world.at_dispatch(point, lambda: remove.append(world.add_filter(look)))


def is_over(world: PointWorld, point: Point) -> bool:
    """Whether the point's attempt is no more the present one."""
    node = world.cluster.state.nodes.get(point.effect.node)
    return node is None or node.attempt != point.effect.operation.attempt


def dropped_pass() -> Sequence[object]:
    """What takes a pass away, see `PointWorld.ahead_of_pass`."""
    return (RunPass(),)
