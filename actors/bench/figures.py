"""What the bench says: every figure by its name, what it means, and what it is to be.

The aims are those that the project has set itself on CPython 3.11; a slower machine misses some.
"""

from enum import StrEnum, auto

from msgspec import Struct
from msgspec.structs import replace


class Measure(StrEnum):
    """What can be asked for alone."""

    PASS = auto()
    PLAN = auto()
    EVENT = auto()
    CONVERGE = auto()
    ACTORS = auto()
    REPAIRS = auto()
    MEMORY = auto()
    TRACE = auto()


class Aim(Struct, frozen=True):
    """What a figure is to be."""

    bound: float
    nodes: int | None = None
    """With so many; None: with any number."""
    or_more: bool = False
    """With more nodes too."""
    at_least: bool = False
    """The figure is to be no less; else no more."""

    def is_meant(self, nodes: int) -> bool:
        """Whether it is for so many nodes."""
        if self.nodes is None:
            return True
        return nodes >= self.nodes if self.or_more else nodes == self.nodes

    def is_met(self, value: float) -> bool:
        """The bound itself will do."""
        return value >= self.bound if self.at_least else value <= self.bound


class Figure(Struct, frozen=True):
    """One line of the table."""

    name: str
    measure: Measure
    words: str
    unit: str
    aim: Aim | None = None


class Value(Struct, frozen=True):
    """A figure as it was measured."""

    figure: str
    """Its name."""
    measure: Measure
    words: str
    unit: str
    nodes: int
    value: float
    aim: float | None = None
    """What it is to be with so many nodes; None: nothing is aimed at."""
    aim_is: str | None = None
    """`at_most` or `at_least`."""
    met: bool | None = None


FIGURES = (
    Figure("full_pass", Measure.PASS, "full pass, a node", "µs", Aim(0.25, 10_000)),
    Figure("bare_walk", Measure.PASS, "bare walk over the same map, a node", "µs"),
    Figure("full_pass_to_walk", Measure.PASS, "full pass : bare walk", "times", Aim(2.5, 10_000)),
    Figure("plan", Measure.PLAN, "planning after one event", "µs", Aim(10, 10_000)),
    Figure("full_pass_to_plan", Measure.PLAN, "full pass : planning after one event", "times",
           Aim(300, 10_000, at_least=True)),
    Figure("plan_growth", Measure.PLAN, "planning : the same with 1000 nodes", "times",
           Aim(4, 100_000)),
    Figure("event_p50", Measure.EVENT, "loss told to destroy dispatched, p50", "µs"),
    Figure("event_p99", Measure.EVENT, "loss told to destroy dispatched, p99", "µs"),
    Figure("repair", Measure.EVENT, "loss told to ready again, 17 messages", "µs"),
    Figure("converge_batches", Measure.CONVERGE, "converge in batches, no limit", "s"),
    Figure("converge_batches_limited", Measure.CONVERGE, "converge in batches, 64 in flight", "s"),
    Figure("converge_single", Measure.CONVERGE, "converge reply by reply, no limit", "s",
           Aim(1, 10_000)),
    Figure("converge_single_limited", Measure.CONVERGE, "converge reply by reply, 64 in flight",
           "s"),
    Figure("message_batches", Measure.CONVERGE, "a message, in batches", "µs"),
    Figure("message_single", Measure.CONVERGE, "a message, reply by reply", "µs"),
    Figure("messages_batches", Measure.CONVERGE, "messages a node, in batches", ""),
    Figure("messages_single", Measure.CONVERGE, "messages a node, reply by reply", ""),
    Figure("actors", Measure.ACTORS, "converge with real actors, no limit", "s"),
    Figure("actors_to_loop", Measure.ACTORS, "real actors : the loop without threads", "times",
           Aim(2.2, 10_000)),
    Figure("repairs_rate", Measure.REPAIRS, "repairs a second (1000 are asked for)", "/s",
           Aim(990, 100_000, at_least=True)),
    Figure("repairs_share", Measure.REPAIRS, "their share of one core, the driver's thread", "%",
           Aim(15, 100_000)),
    Figure("repairs_share_all", Measure.REPAIRS, "their share of one core, all threads", "%"),
    Figure("repairs_messages", Measure.REPAIRS, "messages of a repair", ""),
    Figure("repairs_p50", Measure.REPAIRS, "loss told to destroy dispatched, at that rate, p50",
           "µs"),
    Figure("repairs_p99", Measure.REPAIRS, "loss told to destroy dispatched, at that rate, p99",
           "µs", Aim(1000, 100_000)),
    Figure("memory_state", Measure.MEMORY, "state of a node, ready", "B",
           Aim(1_200, 1_000, or_more=True)),
    Figure("memory_shape", Measure.MEMORY, "what is desired of it, beside", "B"),
    Figure("memory_planner", Measure.MEMORY, "what is kept to plan by, all ready", "B"),
    Figure("memory_planner_busy", Measure.MEMORY, "what is kept to plan by, all to be deleted",
           "B"),
    Figure("untraced", Measure.TRACE, "a message without a trace", "µs"),
    Figure("traced", Measure.TRACE, "a message with a trace", "µs"),
    Figure("traced_to_untraced", Measure.TRACE, "traced : untraced", "times", Aim(1.4)),
    Figure("trace_bytes", Measure.TRACE, "a message in the trace", "B"),
    Figure("replayed", Measure.TRACE, "messages replayed in a second", "/s"),
    Figure("read", Measure.TRACE, "messages read by `trace` in a second", "/s"),
)  # fmt: skip


def value_of(name: str, nodes: int, value: float) -> Value:
    """What was measured, with its aim."""
    figure = next(figure for figure in FIGURES if figure.name == name)
    made = Value(name, figure.measure, figure.words, figure.unit, nodes, value)
    aim = figure.aim
    if aim is None or not aim.is_meant(nodes):
        return made
    which = "at_least" if aim.at_least else "at_most"
    return replace(made, aim=aim.bound, aim_is=which, met=aim.is_met(value))
