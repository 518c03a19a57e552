"""Retry policy and the arithmetic of deadlines (spec §11; design rule 18).

Nothing here reads a clock or a random source: a jittered delay is a pure function of the policy's
seed and of what is retried.  Sums saturate at the end of time, they never raise.
"""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from msgspec import Struct

from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId, RunId

END_OF_TIME = datetime.max.replace(tzinfo=UTC)

_MICROSECOND = timedelta(microseconds=1)
_DOUBLINGS_MAX = 67
"""2^67 microseconds is beyond every timedelta: more doublings change no delay."""


class RetryPolicy(Struct, frozen=True, gc=False):
    """How long to wait for what.  Raises ValueError when a value cannot be meant."""

    initial_delay: timedelta = timedelta(seconds=1)
    max_delay: timedelta = timedelta(seconds=60)
    jitter: float = 0.5
    """In [0, 1]: a delay is drawn from [delay * (1 - jitter), delay]."""
    operation_timeout: timedelta = timedelta(seconds=120)
    endpoint_probe_interval: timedelta = timedelta(seconds=2)
    endpoint_timeout: timedelta = timedelta(seconds=600)
    join_timeout: timedelta = timedelta(seconds=600)
    cancel_timeout: timedelta = timedelta(seconds=60)
    stable_after: timedelta = timedelta(seconds=60)
    least_delay: timedelta = timedelta(milliseconds=10)
    """No retry, probe or timeout is shorter: no policy can make the driver spin."""
    seed: int = 0
    """0: a runtime draws one when it starts, and logs it; a stepped cluster uses it as it is."""

    def __post_init__(self) -> None:
        """Refuse what would make every later deadline nonsense."""
        number = isinstance(self.jitter, int | float) and not isinstance(self.jitter, bool)
        if not (number and 0 <= self.jitter <= 1):
            raise ValueError(f"jitter must be between 0 and 1, found {self.jitter!r}")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise ValueError(f"seed must be a whole number, found {self.seed!r}")
        for field in (*_DURATIONS, "least_delay"):
            value: timedelta = getattr(self, field)
            if not isinstance(value, timedelta):
                raise ValueError(f"{field} must be a timedelta, found {value!r}")
            if value < timedelta(0) and field in _DURATIONS:
                raise ValueError(f"{field} must not be negative, found {value}")
        if self.least_delay <= timedelta(0):
            raise ValueError(f"least_delay must be greater than 0, found {self.least_delay}")


_DURATIONS = (
    "initial_delay",
    "max_delay",
    "operation_timeout",
    "endpoint_probe_interval",
    "endpoint_timeout",
    "join_timeout",
    "cancel_timeout",
    "stable_after",
)


def later(moment: datetime, wait: timedelta) -> datetime:
    """`moment + wait`, or the end of time when that is later than any datetime."""
    try:
        return moment + wait
    except OverflowError:
        return END_OF_TIME


def deadline_after(moment: datetime, wait: timedelta, policy: RetryPolicy) -> datetime:
    """When a wait that begins now is due, no sooner than the policy's least delay."""
    return later(moment, max(wait, policy.least_delay))


def backoff(
    policy: RetryPolicy, run: RunId, node: LogicalNodeId, attempt: NodeAttemptId, failures: int
) -> timedelta:
    """The wait after the `failures`-th consecutive failure (from 1 on): doubling, capped, then
    jittered within the cap."""
    initial = policy.initial_delay // _MICROSECOND
    cap = policy.max_delay // _MICROSECOND
    whole = min(cap, initial << min(max(failures - 1, 0), _DOUBLINGS_MAX))
    shortened = whole - int(
        whole * policy.jitter * _sample(f"{policy.seed}/{run}/{node}/{attempt}/{failures}")
    )
    return max(policy.least_delay, timedelta(microseconds=shortened))


def spread(
    policy: RetryPolicy,
    run: RunId,
    node: LogicalNodeId,
    attempt: NodeAttemptId,
    failures: int,
    span: timedelta,
) -> timedelta:
    """The sampled part of the span that the policy's jitter allows: in [0, span * jitter)."""
    sample = _sample(f"{policy.seed}/{run}/{node}/{attempt}/{failures}")
    return timedelta(microseconds=int((span // _MICROSECOND) * policy.jitter * sample))


def _sample(key: str) -> float:
    """A number in [0, 1) that depends on the key alone, and on every character of it."""
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return int.from_bytes(digest, "big") / 2**56
