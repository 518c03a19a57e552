"""Draws a life from its seed, up front: settings, then moves.  It runs nothing."""

from collections.abc import Callable
from datetime import timedelta

from cluster_reconciler.actors.clock import END_OF_TIME
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.decider.state import ATTEMPT_ID_MAX
from tests.simulation import moves as m
from tests.simulation.chance import Chance
from tests.simulation.life import ORDINARY_START, Life, ProviderDraw, Rates

GAPS = (0.0, 0.0, 0.0, 0.4, 1.0, 1.0, 3.0, 3.0, 10.0, 10.0, 31.0, 61.0, 130.0, 700.0)
GROUPS = ("a", "b", "c")
INVALID_RETRIES: dict[str, dict[str, object]] = {
    "jitter": {"jitter": 1.5},
    "no jitter": {"jitter": float("nan")},
    "seed": {"seed": True},
    "type": {"join_timeout": 5},
    "negative": {"max_delay": timedelta(seconds=-1)},
    "spin": {"least_delay": timedelta(0)},
}
LONGEST_ABSENCE = 90.0
"""Seconds; of a node that was said to be lost and comes back."""
STEPS_MAX = 12
"""Fewer messages than this are handled before a move that comes halfway through another's work."""
LENGTHS = (5, 8, 8, 12, 24)
"""The most moves of a life: most are short, so that many are cheap, and some are long."""
NEWS = (
    "join", "join", "closed", "failed", "stage back", "stage on", "output", "output back",
    "stream error", "cancelled", "converged", "start failed", "lost", "other session",
)  # fmt: skip
NONSENSE = (
    "no type", "action", "no node", "old attempt", "future attempt", "no operation", "both",
    "neither", "malformed", "huge",
)  # fmt: skip
INVALID = (
    "run", "regressed", "content", "twice", "negative", "no place", "nan", "no provider",
    "no shape", "empty name", "foreign group",
)  # fmt: skip


def draw(seed: int, nodes: int | None = None) -> Life:
    """The life of this seed.  `nodes`: so many from the beginning, as for measuring; None: few."""
    chance = Chance(seed)
    providers = _providers(chance)
    count = 1 + chance.below("moves", chance.pick("length", LENGTHS))
    at, drawn = 0.0, []
    halfway: dict[str, int] = {}
    for number in range(1, count + 1):
        name = f"m{number}"
        if f"m{number - 1}" not in halfway:
            at = round(at + chance.pick(f"{name}/gap", GAPS), 3)
        if chance.hit(f"{name}/halfway", 300):
            halfway[name] = chance.below(f"{name}/steps", STEPS_MAX)
        drawn.append(_move(chance, name, at, len(providers), nodes))
    if chance.hit("drain", 120):
        place = max(1, count - chance.below("after the drain", 3))
        drawn.insert(place, m.Drain("drain", drawn[place - 1].at))
    end = chance.hit("end of time", 12)
    return Life(
        seed=seed,
        start=END_OF_TIME - timedelta(seconds=1 + chance.below("end", 4000))
        if end
        else ORDINARY_START,
        first_attempt=ATTEMPT_ID_MAX - chance.below("ids left", 12)
        if chance.hit("few ids", 30)
        else 1 + chance.below("first", 3),
        retry=_retry(chance, "retry"),
        providers=providers,
        shape=_shape(chance, "shape", len(providers), nodes),
        safety_tick=chance.pick("tick", (600.0, 3600.0, 3600.0, 3600.0)),
        lease_check=chance.pick("check", (300.0, 1800.0, 3600.0, 3600.0)),
        grace=chance.pick("grace", (0.0, 1.0, 20.0)),
        slow_calls=chance.hit("slow", 250),
        takes_turns=chance.hit("turns", 500),
        halfway=halfway,
        rates=_rates(chance),
        moves=tuple(drawn),
    )


def _rates(chance: Chance) -> Rates:
    def rate(name: str) -> int:
        return chance.pick(f"rate/{name}", (0, 0, 30, 100, 250, 500))

    return Rates(
        calls=rate("calls"),
        fates=rate("fates"),
        replies=rate("replies"),
        news=rate("news"),
        submissions=rate("submissions") // 4,
        listings=rate("listings"),
    )


def _providers(chance: Chance) -> tuple[ProviderDraw, ...]:
    drawn = []
    for number in range(chance.pick("providers", (1, 1, 2))):
        key = f"provider/{number}"
        drawn.append(
            ProviderDraw(
                kind=f"p{number}",
                settle_time=chance.pick(f"{key}/settle", (0.0, 0.0, 5.0, 30.0)),
                lag=chance.pick(f"{key}/lag", (0.0, 0.5, 0.9)),
                endpoint_delay=chance.pick(f"{key}/endpoint", (0.0, 0.0, 3.0)),
                idempotent=chance.hit(f"{key}/idempotent", 300),
                capacity=chance.below(f"{key}/places", 3)
                if chance.hit(f"{key}/full", 60)
                else None,
            )
        )
    return tuple(drawn)


def _retry(chance: Chance, key: str) -> RetryPolicy:
    def seconds(name: str, *options: float) -> timedelta:
        return timedelta(seconds=chance.pick(f"{key}/{name}", options))

    return RetryPolicy(
        initial_delay=seconds("initial", 0.2, 1, 1, 5),
        max_delay=seconds("max", 20, 60, 60, 600),
        jitter=chance.pick(f"{key}/jitter", (0.0, 0.5, 1.0)),
        operation_timeout=seconds("operation", 2, 30, 120, 120),
        endpoint_probe_interval=seconds("probe", 2, 5, 20),
        endpoint_timeout=seconds("endpoint", 30, 600),
        join_timeout=seconds("join", 30, 600),
        cancel_timeout=seconds("cancel", 0, 10, 60),
        stable_after=seconds("stable", 0, 60, 600),
        least_delay=seconds("least", 0.01, 0.01, 1, 8),
        seed=chance.below(f"{key}/seed", 1000),
    )


def _shape(chance: Chance, key: str, providers: int, nodes: int | None) -> m.ShapeDraw:
    groups = []
    left = nodes
    for name in GROUPS[: chance.pick(f"{key}/groups", (1, 2, 3))]:
        count = chance.pick(f"{key}/{name}/count", (0, 1, 1, 2, 3))
        if left is not None:
            count = left // 2 + 1 if left > 1 else left
            left -= count
        groups.append(
            m.GroupDraw(
                name=name,
                count=count,
                version=chance.below(f"{key}/{name}/version", 3),
                provider=chance.below(f"{key}/{name}/provider", providers),
            )
        )
    if left:
        first = groups[0]
        groups[0] = m.GroupDraw(first.name, first.count + left, first.version, first.provider)
    return m.ShapeDraw(tuple(groups), chance.pick(f"{key}/limit", (None, None, 1, 2)))


def _move(chance: Chance, name: str, at: float, providers: int, nodes: int | None) -> m.AnyMove:
    def pick(what: str, *options: float) -> float:
        return chance.pick(f"{name}/{what}", options)

    def below(what: str, end: int) -> int:
        return chance.below(f"{name}/{what}", end)

    def word(options: tuple[str, ...]) -> str:
        return chance.pick(f"{name}/word", options)

    def shape() -> m.ShapeDraw:
        return _shape(chance, f"{name}/shape", providers, nodes)

    makers: dict[str, Callable[[], m.AnyMove]] = {
        "reshape": lambda: m.Reshape(name, at, shape(), 1 + below("by", 3)),
        "and back": lambda: m.ThereAndBack(
            name, at, shape(), chance.pick(f"{name}/between", (None, 0.0, 0.3, 20.0))
        ),
        "invalid": lambda: m.InvalidShape(name, at, word(INVALID)),
        "die": lambda: m.Die(
            name, at, below("nth", 20), chance.pick(f"{name}/noticed", (0.0, 0.0, 30.0, None))
        ),
        "remove": lambda: m.Remove(name, at, below("nth", 20)),
        "false loss": lambda: m.FalseLoss(
            name, at, below("nth", 20), pick("back", 0.0, 1.0, LONGEST_ABSENCE)
        ),
        "news": lambda: m.News(name, at, below("nth", 20), below("ago", 3), word(NEWS)),
        "nonsense": lambda: m.Nonsense(name, at, word(NONSENSE), below("nth", 20)),
        "end": lambda: m.EndSession(
            name, at, below("nth", 20), chance.pick(f"{name}/how", (None, "exit code 1"))
        ),
        "sleep": lambda: m.Sleep(name, at, pick("for", 0.0, 5.0, 70.0, 700.0, 20_000.0)),
        "put off": lambda: m.PutOff(
            name, at, pick("for", 0.0, 1.0, 60.0, 130.0, 1200.0), below("steps", 4)
        ),
        "kill": lambda: m.KillExecutor(name, at, below("nth", 20)),
        "poke": lambda: m.Poke(name, at, word(("trigger", "triggers", "deadline", "lose wake"))),
        "mood": lambda: m.Mood(
            name,
            at,
            below("provider", providers),
            pick("lag", 0.0, 0.5, 0.9),
            pick("endpoint", 0.0, 0.0, 3.0, 90.0),
            chance.pick(f"{name}/capacity", (None, None, 0, 1, 2)),
            chance.pick(f"{name}/throttle", (None, None, 1, 2)),
        ),
        "bad retry": lambda: m.InvalidRetry(name, at, word(tuple(sorted(INVALID_RETRIES)))),
        "retry": lambda: m.OtherRetry(name, at, _retry(chance, f"{name}/retry")),
    }
    weighted = (
        *("reshape",) * 3, "and back", "invalid", *("die",) * 2, "remove", "false loss",
        *("news",) * 2, "nonsense", "end", "sleep", "put off", "kill", "poke", "mood", "retry",
        "bad retry",
    )  # fmt: skip
    return makers[chance.pick(f"{name}/kind", weighted)]()
