"""The bounded exhaustive search in the suite: small ones close, and find what is planted.

`python -m tests.search one` searches one node with every fault at every place, `python -m
tests.search two` two nodes; what must hold and what is bounded stands in `search/search.py`.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.decider import ManagedNode, RetryPolicy, expire, transitions
from cluster_reconciler.decider.failures import count_failure
from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.messages import OperationId
from tests.search.__main__ import main
from tests.search.place import Setting, one_node, two_nodes
from tests.search.search import Broken, Found, Search
from tests.search.story import story
from tests.search.ways import check_fairness, check_ways_home

pytestmark = pytest.mark.usefixtures("quiet_log")

ROOT = Path(__file__).parent.parent


def searched(setting: Setting, states_max: int = 100_000) -> tuple[Search, Found]:
    search = Search(setting, states_max=states_max)
    found = search.run()
    check_ways_home(search)
    return search, found


def test_one_node_with_two_faults_closes_and_every_place_has_a_way_home() -> None:
    _, found = searched(one_node(faults=2))

    assert found.closed
    assert found.ways_home == found.states > 4_000
    assert found.leftovers == 0


def test_where_only_the_order_of_deadlines_tells_circles_are_walked_with_their_times() -> None:
    _, found = searched(one_node(faults=2, order_only=True))

    assert found.closed
    assert found.ways_home == found.states > 3_000
    assert found.circles > 0


def test_two_nodes_with_one_fault_close_and_each_gets_its_turn() -> None:
    # Under one place; that it is so under two as well the build shows, by the command.
    search, found = searched(two_nodes(1, 1))
    check_fairness(search, at_most=20)

    assert found.closed
    assert found.ways_home == found.states > 3_000
    assert found.fair >= 20


def test_from_places_beyond_the_bound_the_way_home_is_walked() -> None:
    # given a search that is full long before it closes
    _, found = searched(one_node(), states_max=300)

    assert not found.closed
    assert found.left > 0
    assert found.ways_home == found.states


# -- planted faults -------------------------------------------------------------------------------


def _the_old_backoff_stays(node: ManagedNode, now: datetime, retry: RetryPolicy) -> ManagedNode:
    after = _BEGIN_DELETE(node, now, retry)
    return replace(after, retry=replace(after.retry, next_effect_at=node.retry.next_effect_at))


def _expired_twice(
    node: ManagedNode, now: datetime, retry: RetryPolicy, *, not_run: bool = False
) -> ManagedNode:
    after = expire(node, now, retry, not_run=not_run)
    return node if after is node else count_failure(after, "once more", now, retry)


def _any_answer_counts(node: ManagedNode, _operation: OperationId) -> str | None:
    return None if node.pending is not None else "nothing is pending"


_BEGIN_DELETE = transitions._begin_delete
_RECEIVE = Driver._receive
_RUN_PASS = Driver._run_pass

PLANTED: dict[str, tuple[str, Callable[..., object], str]] = {
    "the carrier forgets an unresolved create": (
        "executors.carrier._after_failure",
        lambda *_what: Holding(),
        "two machines or sessions of one attempt",
    ),
    "the carrier takes every absence for conclusive": (
        "executors.adoption.Holding.not_seen",
        lambda *_what: (Holding(), True),
        "machines that nobody knows of",
    ),
    "an operation that runs is called withdrawn": (
        "executors.attempt.Attempt.withdraw",
        lambda *_what: True,
        "machines that nobody knows of",
    ),
    "executors never forget an attempt": (
        "executors.executor.Executors.retire",
        lambda *_what: None,
        "the executors remember attempts that are over",
    ),
    "the answer of an expired operation is folded": (
        "decider.observe._result_refusal",
        _any_answer_counts,
        "answered was op(1,1), pending is op(1,2)",
    ),
    "every cleanup is called complete": (
        "decider.steps.holds_nothing",
        lambda _node: True,
        "MarkDestroyed, not cleaned up",
    ),
    "an old backoff delays cleanup": (
        "decider.transitions._begin_delete",
        _the_old_backoff_stays,
        "BeginDelete changed more",
    ),
    "an expiry is folded twice": (
        "actors.driver.expire",
        _expired_twice,
        "counts 2 failures after 0",
    ),
    "the driver sleeps too long": (
        "actors.driver.Driver._run_pass",
        lambda driver: (_RUN_PASS(driver), driver._host.wake_at(None)),
        "the driver wakes at None",
    ),
    "a result queues no pass": (
        "actors.driver.Driver._receive",
        lambda driver, message: (_RECEIVE(driver, message), driver.__dict__.update(queued=False)),
        "no pass is queued",
    ),
    "a backoff never ends": (
        "decider.steps.due",
        lambda deadline, _now: deadline is None,
        "",
    ),
}


def _plant(monkeypatch: pytest.MonkeyPatch, target: str, planted: Callable[..., object]) -> None:
    """Modules are asked for by their full names: `decider.observe` is a function as well."""
    parts = target.split(".")
    module = importlib.import_module(".".join(("cluster_reconciler", *parts[:2])))
    owner: object = module
    for name in parts[2:-1]:
        owner = getattr(owner, name)
    monkeypatch.setattr(owner, parts[-1], planted)


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_fault_is_found_and_its_shortest_path_told(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    # given the fault, wherever it is used by name
    target, planted, expected = PLANTED[what]
    _plant(monkeypatch, target, planted)

    # when one node is searched
    with pytest.raises(Broken) as broken:
        searched(one_node(faults=2), states_max=20_000)

    # then it is named, and told from the empty cluster on
    told = "\n".join(story(one_node(faults=2), broken.value.path, way=broken.value.way))
    print(f"{broken.value.reason}\n{told}")
    assert expected in broken.value.reason
    assert told.startswith("   1. 0 s: a pass: Insert g-0")


def test_the_command_tells_the_path_and_how_to_play_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target, planted, _ = PLANTED["the carrier forgets an unresolved create"]
    _plant(monkeypatch, target, planted)

    assert main(["one", "--faults", "2"]) == 1
    first = capsys.readouterr().out
    again = first.splitlines()[-1]
    assert again.startswith("Again: python -m tests.search one --faults 2 --replay ")
    assert main(again.split()[4:]) == 0
    assert capsys.readouterr().out.splitlines()[:8] == first.splitlines()[2:10]


def test_the_command_says_what_it_found_and_which_bound_it_hit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["two", "--faults", "1", "--states", "200"]) == 0

    told = capsys.readouterr().out
    assert "NOT closed: --states was reached" in told
    assert " states, " in told
    assert "peak memory" in told


def test_a_search_is_the_same_whatever_the_hash_seed() -> None:
    program = (
        "from tests.search.place import one_node; from tests.search.search import Search\n"
        "search = Search(one_node(1), states_max=5000); found = search.run()\n"
        "import hashlib; forms = hashlib.sha256(b'|'.join(search._index)).hexdigest()\n"
        "print(found.states, found.transitions, found.depth, forms, sum(search.friendly))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }

    assert len(told) == 1, told
