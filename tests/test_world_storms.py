"""Field cases of cases.md about many failures at once, and about one bad part beside good ones.

The real driver and the real executors, stepped; the provider's world says what really exists.
"""

import random
from collections import Counter
from datetime import timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.stepping_words import NO_JITTER, group, shape
from cluster_reconciler.actors.stepping_world import Now, SteppingWorld
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors import MemoryProvider
from cluster_reconciler.executors.providers.memory import CallKind
from cluster_reconciler.messages import ProviderKind

pytestmark = pytest.mark.usefixtures("quiet_log")


def test_f11_machines_that_vanish_in_their_bootstrap_are_each_cleaned_up_and_replaced() -> None:
    # given four nodes whose bootstrap takes its time
    world = SteppingWorld(shape(group(count=4)), retry=NO_JITTER)
    world.provider.auto_join = False
    dice = random.Random(11)
    losses = 0

    # when one of the machines vanishes every 30 s, for 30 minutes
    for _ in range(60):
        world.run(30)
        booting = [s.identity for s in world.provider.world.sessions]
        if booting:
            victim = dice.choice(booting)
            world.provider.lose(victim, "preempted")
            world.provider.remove(victim)
            losses += 1

    # and then no more
    world.provider.auto_join = True
    for session in world.provider.world.sessions:
        world.provider.join(session.identity)
    world.run(120)

    # then each loss was one failure, one cleanup and one new attempt, and nothing else went wrong
    assert losses > 20
    kinds = (EventKind.FAILED, EventKind.DELETING, EventKind.DESTROYED, EventKind.RESTARTED)
    seen = Counter(event.kind for event in world.cluster.events)
    assert [seen[kind] for kind in kinds] == [losses] * len(kinds)
    destroyed = Counter(c.identity for c in world.provider.world.calls(CallKind.DESTROY_LEASE))
    assert sorted(destroyed.values()) == [1] * losses
    assert world.cluster._actor.contained == 0
    assert world.cluster.state.next_attempt_id == 1 + 4 + losses
    assert world.cluster.converged


def test_nodes_that_are_told_the_same_wait_come_back_at_different_moments() -> None:
    world = SteppingWorld(shape(group(count=50)), retry=RetryPolicy(jitter=0.5))
    wait = timedelta(seconds=30)
    world.provider.script.create().refuse("throttled", times=50, retry_after=wait)
    world.settle()

    due = {n.retry.next_effect_at for n in world.cluster.state.nodes.values()}

    waits = sorted((at - world.now).total_seconds() for at in due if at is not None)
    assert len(waits) == 50
    assert waits[0] >= 30
    assert 40 < waits[-1] < 45


def test_f19_a_broken_group_and_a_slow_provider_do_not_delay_the_healthy_group() -> None:
    def providers(now: Now) -> list[MemoryProvider]:
        return [MemoryProvider(kind, now=now) for kind in ("slow", "picky", "good")]

    groups = [
        replace(group(kind, count), provider=ProviderKind(kind))
        for kind, count in (("slow", 70), ("picky", 70), ("good", 5))
    ]
    world = SteppingWorld(shape(*groups), retry=NO_JITTER, providers=providers)
    slow, picky, _good = world.providers
    world.slow(slow.script.create(), seconds=600, times=None)
    picky.script.create().refuse("template t-1 is not valid", times=None)

    world.settle()
    assert world.ready == {f"good-{index}" for index in range(5)}

    world.run(30)
    errors = {n.last_error for n in world.cluster.status().nodes if n.group == "picky"}
    assert errors == {"template t-1 is not valid"}
    world.close()


def test_f14_a_create_that_waits_behind_an_overdue_one_never_runs_once_its_node_goes() -> None:
    # given a create that hangs beyond its deadline and is then refused, and a second one behind it
    world = SteppingWorld(shape(), retry=NO_JITTER)
    script = world.provider.script
    world.slow(script.create(), seconds=130)
    world.provider.capacity = 0
    world.run(125)
    assert len(world.executors.running) == 1

    # when its node goes, and only then there is room
    world.cluster.update_desired(shape(group(count=0), generation=2))
    world.settle()
    world.run(6)
    world.provider.capacity = None
    world.run(300)

    # then nothing was ever made
    assert world.cluster.state.nodes == {}
    assert world.provider.world.creations() == 0
    assert len(world.provider.world.calls(CallKind.CREATE_LEASE)) == 1
