"""One life as data: the settings of a world, and what will happen to it.  It does nothing."""

from datetime import UTC, datetime

from msgspec import Struct

from cluster_reconciler.decider import RetryPolicy
from tests.simulation.moves import AnyMove, ShapeDraw

ORDINARY_START = datetime(2026, 1, 1, tzinfo=UTC)


class ProviderDraw(Struct, frozen=True):
    """One provider's ways, in seconds."""

    kind: str
    settle_time: float
    lag: float
    endpoint_delay: float
    idempotent: bool
    capacity: int | None


class Rates(Struct, frozen=True):
    """How often something goes wrong, in thousandths."""

    calls: int
    fates: int
    replies: int
    news: int
    submissions: int
    listings: int


class Life(Struct, frozen=True):
    """See the module."""

    seed: int
    start: datetime
    first_attempt: int
    retry: RetryPolicy
    providers: tuple[ProviderDraw, ...]
    shape: ShapeDraw
    safety_tick: float
    lease_check: float
    grace: float
    """After so long a silence the swarm says that a member is lost."""
    slow_calls: bool
    """Calls may take time."""
    takes_turns: bool
    """Driver and executors run message by message; otherwise each until it has nothing to do."""
    halfway: dict[str, int]
    """The moves after which nothing comes to rest: the next one is made at the same moment, after
    so many messages."""
    rates: Rates
    moves: tuple[AnyMove, ...]
