"""Which calls and messages go wrong, and how: a pure decision for each, and the record of it.

It plays nothing itself.

A fault's name says what it happened to: `create_lease:a-0:2:1` is the first create of the second
attempt of a-0.  Attempts are counted for each node, since their ids depend on all other nodes.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from cluster_reconciler.executors.providers.memory_world import CallKind
from tests.simulation.chance import Chance

_REFUSALS = ("refused", "refused for a while", "connection failed")
_UNKNOWN = ("reply lost", "executor dies before", "executor dies after", "garbage", "garbage, done")
_SLOW = ("slow", "slow reply", "slow, then lost")
_LOST = ("lost meanwhile", "lost meanwhile, refused")
_MAKING = ("token refused", "token refused, made", *_LOST, *_REFUSALS, *_UNKNOWN)

CALL_FAULTS: dict[CallKind, tuple[str, ...]] = {
    CallKind.CREATE_LEASE: (*_MAKING, *_SLOW, "effect late"),
    CallKind.FIND_LEASE: (*_REFUSALS, *_UNKNOWN, *_SLOW, "token refused"),
    CallKind.LOOKUP_ENDPOINT: (
        *_REFUSALS,
        *_UNKNOWN,
        *_SLOW,
        "token refused",
        "not yet",
        "gone",
        "lost meanwhile",
        "lost meanwhile, gone",
    ),
    CallKind.START_BOOTSTRAP: (*_MAKING, *_SLOW, "effect late"),
    CallKind.FIND_BOOTSTRAP: (*_REFUSALS, *_UNKNOWN, *_SLOW, "token refused"),
    CallKind.ACCEPT_CONVERGENCE: (
        *_REFUSALS,
        *_UNKNOWN,
        *_SLOW,
        "token refused",
        "lost meanwhile",
        "closes meanwhile",
    ),
    CallKind.CANCEL_BOOTSTRAP: (
        *_REFUSALS,
        *_UNKNOWN,
        *_SLOW * 4,  # Few calls of few lives: two thousand of these had one that no cancel played.
        "never works",
        *("closes meanwhile",) * 6,
        "fails meanwhile",
    ),
    CallKind.DESTROY_LEASE: (
        *_REFUSALS,
        *_UNKNOWN,
        *_SLOW,
        "unfinished",
        "unfinished, done",
        "lie",
    ),
    CallKind.LIST_LEASES: ("refused", "connection failed", "garbage", "empty", "half"),
}
"""How a provider's calls can go wrong."""

FATES = (
    *("joins late",) * 3, *("never joins",) * 3, "closes at once", "closes soon",
    "fails at once", "fails soon", "joins twice", "joins, closes", "joins, fails",
    "stages out of order", "stream error",
    "cancelled", "converged before the join", "check failed", "dies soon", "lost soon",
    "floods at once", "tells all at once",
)  # fmt: skip
"""What can become of a session that was started, beside joining at once."""

REPLIES = (
    "lost", "late", "doubled", "doubled late", "of the wrong kind", "both", "neither", "malformed",
    *("told as absent",) * 3,
)  # fmt: skip
"""What can become of an operation's result on its way to the driver."""

OTHERS = (
    "provider: no capacity", "provider: throttled", "provider: does not show it yet",
    "provider: cannot be reached yet", "executor: killed between two messages",
    "listing: disputed by the swarm", "listing: a lease is missing",
)  # fmt: skip
"""What follows from a world's settings and moves, and is only counted."""

NEWS = ("lost", "late", "doubled")
SUBMISSIONS = ("refused", "answered at once")


class Faults:
    """Decides, and keeps the record.  `keep`: only these names; None: all."""

    def __init__(self, chance: Chance, keep: Collection[str] | None = None) -> None:
        self._chance = chance
        self._keep = frozenset(keep) if keep is not None else None
        self.on = True
        self.fired: dict[str, str] = {}
        """What went wrong, by its name, in the order in which it did."""
        self.counts: Counter[str] = Counter()
        """How often, by kind."""

    def decide(self, name: str, kind: str, permille: int, options: Sequence[str]) -> str | None:
        """What goes wrong with the thing of this name, if anything; `kind`: for the count."""
        if not self.may(permille) or (self._keep is not None and name not in self._keep):
            return None
        if not self._chance.hit(name, permille):
            return None
        what = self._chance.pick(f"{name}/what", options)
        self.fired[name] = what
        self.counts[f"{kind}: {what}"] += 1
        return what

    def may(self, permille: int) -> bool:
        """Whether anything of that rate can go wrong now."""
        return self.on and permille > 0

    def count(self, kind: str) -> None:
        """Something went wrong that nobody decides call by call."""
        self.counts[kind] += 1


def every_kind() -> list[str]:
    """Every kind of fault of calls and messages that there is."""
    calls = [f"{kind}: {what}" for kind, options in CALL_FAULTS.items() for what in options]
    fates = [f"session: {fate}" for fate in FATES]
    replies = [f"result: {what}" for what in REPLIES]
    news = [f"news: {what}" for what in NEWS]
    submissions = [f"submission: {what}" for what in SUBMISSIONS]
    return sorted({*calls, *fates, *replies, *news, *submissions, *OTHERS})
