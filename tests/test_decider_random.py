"""Random lives of one to three nodes: nothing leaks, nothing wedges, and it is all repeatable."""

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_reconciler.decider import expand_shape, is_converged
from tests.decider_words import group, shape
from tests.decider_world import Step, Trace, World, encode

STEPS = st.tuples(
    st.sampled_from([*Step, Step.PASS, Step.PASS, Step.PASS, Step.ANSWER, Step.ANSWER, Step.JOIN]),
    st.integers(0, 11),
)


@settings(max_examples=250)
@given(st.lists(STEPS, min_size=15, max_size=120), st.integers(0, 3))
def test_whatever_happens_nothing_leaks_and_faults_that_end_end_in_what_is_wanted(
    trace: Trace, count: int
) -> None:
    world = World()
    world.run(trace)  # checks invariants, purity and leaks at every step
    before, known = world.creates, len(world.state.nodes)

    wanted = expand_shape(shape(group(count=count), generation=1000))
    world.settle(wanted)

    # then the cluster is what was asked for, and what exists is exactly what it holds
    assert is_converged(world.state, wanted)
    held = {(node_id, node.attempt) for node_id, node in world.state.nodes.items()}
    assert world.leases == held
    assert world.creates - before <= 2 * (count + known) + 2


@settings(max_examples=40)
@given(st.lists(STEPS, min_size=15, max_size=60))
def test_the_same_trace_twice_is_the_same_state(trace: Trace) -> None:
    first, second = World(), World()
    first.run(trace)
    second.run(trace)

    assert encode(first.state) == encode(second.state)
    assert (first.leases, first.open) == (second.leases, second.open)


def digest_of_many_traces() -> str:
    """The states that seeded traces end in, before and after the faults have ended."""
    draw = random.Random(5)
    digest = hashlib.sha256()
    steps = [*Step, Step.PASS, Step.ANSWER]
    for _ in range(40):
        world = World()
        world.run([(draw.choice(steps), draw.randrange(12)) for _ in range(50)])
        digest.update(encode(world.state))
        world.settle(world.desired)
        digest.update(encode(world.state))
    return digest.hexdigest()


def test_no_outcome_depends_on_the_order_of_hashes(repository: Path) -> None:
    found = {digest_of_many_traces()}
    script = "from tests.test_decider_random import digest_of_many_traces as d; print(d())"
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=repository,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        found.add(done.stdout.strip())

    assert len(found) == 1


@pytest.mark.parametrize(
    "forgotten",
    [
        # what a create or start of unknown outcome may have made
        ("results._ambiguous", lambda node, *_: node),
        # what a node holds while it is cleaned up
        ("steps.holds_nothing", lambda _: True),
        # that a node is being deleted
        ("steps.is_deleting", lambda _: False),
    ],
    ids=lambda forgotten: forgotten[0],
)
def test_a_decider_that_forgets_is_found_out(
    monkeypatch: pytest.MonkeyPatch, forgotten: tuple[str, Callable[..., object]]
) -> None:
    name, instead = forgotten
    monkeypatch.setattr(f"cluster_reconciler.decider.{name}", instead)

    with pytest.raises(AssertionError):
        digest_of_many_traces()
