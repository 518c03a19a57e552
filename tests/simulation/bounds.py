"""How soon a cluster must have converged once faults stop: computed, never guessed.  Pure."""

from functools import partial

from cluster_reconciler.decider import RetryPolicy
from tests.simulation.life import Life
from tests.simulation.machines import FATE_SPAN
from tests.simulation.provider import PAUSES, RETRY_AFTER
from tests.simulation.schedule import LONGEST_ABSENCE
from tests.simulation.world import LATE


def bound(life: Life, policies: list[RetryPolicy], *, timer_lost: bool) -> float:
    """Seconds from the last fault within which a cluster that can converge has converged.

    Every term is the longest that one step can take; every step is taken at most as often as it
    says, since after the last fault nothing fails a second time:

    1. What is under way ends, and a machine that is gone is noticed: `quiet_after`.
    2. Behind it, one wait: a backoff, at most `max_delay`, or twice what a provider asked for,
       with its jitter.
    3. An attempt that will come to nothing ends: the endpoint or join timeout, after one more wait.
    4. Cleanup: a look, conclusive after the settle time and one probe, that may itself have to
       wait; the cancel timeout at most; one more probe for a destroy that was unfinished.
    5. The restart's wait, counted from the failure on: it ends no later than one wait after
       cleanup.
    6. The new attempt: its endpoint after the provider's delay and one probe; its join at once.

    Steps 3 to 6 may be begun anew once, by what went wrong before the faults stopped and shows only
    in the new attempt's place: they count twice.  A timer that was lost is made good by the next
    safety tick; where none was, no tick may be needed.  Limits cost nothing: every call that is
    made after the last fault answers at once, so each place is free again within the same moment.
    """
    longest = partial(_longest, policies)
    least = longest("least_delay")
    wait = max(longest("max_delay"), 2 * RETRY_AFTER, least)
    probe = max(longest("endpoint_probe_interval"), least)
    settle = max(provider.settle_time for provider in life.providers)
    endpoint = max(provider.endpoint_delay for provider in life.providers)
    ends = max(longest("endpoint_timeout"), longest("join_timeout")) + wait
    cleanup = settle + 3 * probe + longest("cancel_timeout") + 2 * wait
    fresh = endpoint + 2 * probe + wait
    again = ends + cleanup + wait + fresh
    tick = life.safety_tick if timer_lost else 0.0
    return quiet_after(life, policies) + wait + 2 * again + tick


def quiet_after(life: Life, policies: list[RetryPolicy]) -> float:
    """Seconds after which nothing is under way any more that a fault has begun: the longest pause
    of a call, the latest late message, the rest of a session's fate, an operation that will have no
    answer.  By then a machine that is gone has been noticed as well: by the swarm after its grace,
    or by two listings after the settle time, the first of them up to one interval away, and once
    more, should the first word of it have been lost."""
    timeout = max(_longest(policies, "operation_timeout"), _longest(policies, "least_delay"))
    under_way = max(*PAUSES, *LATE, FATE_SPAN, timeout, LONGEST_ABSENCE)
    settle = max(provider.settle_time for provider in life.providers)
    return under_way + life.grace + settle + 4 * life.lease_check


def _longest(policies: list[RetryPolicy], name: str) -> float:
    return float(max(getattr(policy, name).total_seconds() for policy in policies))
