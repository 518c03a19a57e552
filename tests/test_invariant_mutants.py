"""For each of the fifteen invariants, a fault of the product that its check alone notices.

Each fault is a changed line of the decider, the driver or the test kit.  The same story is told
each time: a cluster of two whose creates fail and are lost, that is changed, loses a node, and is
taken down.  With every check on, the check of the invariant sees the fault; with that one off, and
all the others on, the story goes to its end unseen.  What no state can show (imports, a pass that
waits) is planted into a copy of the sources, and the check of the sources alone names it.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_world import SteppingWorld
from cluster_reconciler.decider import (
    convergence,
    invariants,
    invariants_change,
    invariants_plan,
    reconcile_node,
    results,
    steps,
)
from cluster_reconciler.decider.places import places_of
from cluster_reconciler.decider.reconcile import number, reconcile
from cluster_reconciler.messages import LogicalNodeId, NodeLost, NodeObserved
from tests import test_purity
from tests.decider_words import POLICY, group, shape
from tests.mutation.planting import Function, planted, seen_by, switched_off

G0 = LogicalNodeId("g-0")


def story() -> None:
    """Two nodes; g-0's first create is refused, its second one's reply is lost."""
    world = SteppingWorld(shape(group(count=2)), retry=POLICY)
    try:
        _tell(world)
    finally:
        world.close()


def _tell(world: SteppingWorld) -> None:
    script, cluster = world.provider.script, world.cluster
    script.create("g-0").refuse("no capacity")
    script.create("g-0").lose_reply()
    script.cancel("g-1").refuse("busy")
    for _ in range(8):
        world.round()
    outsider = cluster.state.nodes  # A copy: whatever is done to it is nobody's concern.
    outsider[G0] = replace(outsider[G0], kept=())
    world.run(20)
    cluster.trigger()
    world.run(5)
    old = cluster.state.nodes[G0].attempt
    world.lose("g-0")
    world.run(30)
    cluster.tell(NodeObserved(G0, old, NodeLost("late news")))
    world.run(30)
    script.start("g-1").never_join(times=None)
    cluster.update_desired(shape(group(count=2, command="another"), generation=2))
    world.run(5)
    script.start("g-1").never_join(times=None)
    cluster.update_desired(shape(group(count=2, command="a third"), generation=3))
    world.run(20)
    cluster.update_desired(shape(group(count=0), generation=4))
    world.run(60)


class Fault(NamedTuple):
    """A changed line, and the check that alone notices."""

    invariant: int
    what: str
    function: Function
    text: str
    instead: str
    check: str
    """As `module.function`."""
    off: tuple[Function, ...]
    """The check itself; without any, it is an assertion of `Driver._run_pass`."""


_DECIDE = "    decisions = _decisions(observed, expanded, now)\n"
_APPLY = "self._put(node_id, node, allocated=isinstance(action, ALLOCATED))\n"
_ASK = "    return row_of(node, desired, now).decide(node, desired, now)\n"
_STATE = vars(SteppingCluster)["state"].fget

FAULTS = [
    Fault(
        1,
        "the decider notes its passes in the limits that it was given",
        reconcile,
        _DECIDE,
        "    from cluster_reconciler.messages import ProviderLimits\n"
        "    noted = f'pass {len(expanded.shape.limits)}'\n"
        "    expanded.shape.limits[noted] = ProviderLimits()\n" + _DECIDE,
        "invariants._check_inputs_kept",
        (invariants._check_inputs_kept,),
    ),
    Fault(
        2,
        "the decider looks only at what has changed since it was asked before",
        reconcile_node,
        _ASK,
        """    memory, decision = reconcile_node.__dict__, row_of(node, desired, now)
    decision = decision.decide(node, desired, now)
    seen, at = memory.setdefault(node.record.logical_node_id, (node, now))
    if seen is not node:
        memory[node.record.logical_node_id] = (node, now)
    elif at != now:
        decision = NodeDecision(None, decision.requeue_at)
    return decision
""",
        "invariants_plan._check_waits",
        (invariants_plan._check_waits,),
    ),
    Fault(
        3,
        "the first attempts are replaced by attempts of their own, older spec",
        steps.restart,
        "UNASSIGNED, desired))",
        "UNASSIGNED, desired if node.attempt > 3 else node.record.desired))",
        "invariants_plan._check_latest_spec",
        (invariants_plan._check_latest_spec,),
    ),
    Fault(
        4,
        "the live map of nodes is handed out, and somebody writes to it",
        _STATE,
        "replace(state, nodes=dict(state.nodes))",
        "state",
        "invariants.check_owner",
        (invariants.check_owner,),
    ),
    Fault(
        5,
        "folding a lease records the next operation as well, which nobody submits",
        results.fold_success,
        "return _lease_created(node, outcome, now, retry)",
        """return replace(
                _lease_created(node, outcome, now, retry),
                pending=replace(
                    pending,
                    id=replace(pending.id, sequence=node.next_operation_sequence),
                    kind=OperationKind.START_BOOTSTRAP,
                ),
                next_operation_sequence=node.next_operation_sequence + 1,
            )""",
        "invariants_change._check_recorded",
        (invariants_change._check_recorded,),
    ),
    Fault(
        6,
        "each action that needs no attempt id is planned twice",
        number,
        "numbered.append(action)",
        "numbered += [action, action]",
        "invariants_plan._check_one_action_each",
        (invariants_plan._check_one_action_each,),
    ),
    Fault(
        7,
        "an effect is submitted before its operation is recorded",
        Driver._apply,
        _APPLY,
        "if isinstance(action, Dispatch):\n        self._submit(action.effect)\n    " + _APPLY,
        "invariants.check_dispatch",
        (invariants.check_dispatch,),
    ),
    Fault(
        8,
        "nobody asks of which attempt the news is",
        Driver._fold,
        "if node.attempt != attempt",
        "if False",
        "invariants.check_correlation",
        (invariants.check_correlation,),
    ),
    Fault(
        9,
        "a pass is run, instead of queued, whenever one is asked for",
        Driver.request_pass,
        "self._host.tell_driver(RunPass())",
        "self._run_pass()",
        "driver._run_pass",
        (),
    ),
    Fault(
        10,
        "one failed cancel is enough to destroy the machine under a running session",
        steps.cancel_gave_way,
        "        and node.cancel_deadline <= now\n",
        "",
        "invariants_plan._check_cleanup_order",
        (invariants_plan._check_cleanup_order,),
    ),
    Fault(
        11,
        "what is ambiguous is named by its attempt's first operation",
        results._ambiguous,
        "ambiguous_operation=pending.id",
        "ambiguous_operation=replace(pending.id, sequence=1)",
        "invariants_change._check_ambiguity",
        (invariants_change._check_ambiguity,),
    ),
    Fault(
        12,
        "while one node's operation is out, the others of its provider wait",
        places_of,
        "else DEFAULT_IN_FLIGHT",
        "else 1",
        "invariants_plan._check_limits",
        (invariants_plan._check_limits,),
    ),
    Fault(
        14,
        "converged means that the generation was evaluated",
        convergence.is_converged,
        "    if len(observed.nodes)",
        "    return observed.observed_generation == expanded.shape.generation\n"
        "    if len(observed.nodes)",
        "invariants.check_converged",
        (invariants.check_converged,),
    ),
    Fault(
        15,
        "the decider remembers what it has answered, and does not answer it again",
        reconcile,
        _DECIDE,
        "    if reconcile.__dict__.get('asked') is observed:\n"
        "        return ReconcilePlan((), expanded.shape.generation)\n"
        "    reconcile.__dict__['asked'] = observed\n" + _DECIDE,
        "invariants._check_same_plan",
        (invariants._check_same_plan,),
    ),
]
_REENTRY = 'assert not self.processing, "a pass within a pass"'


class SourceFault(NamedTuple):
    """A line at the end of a pure module, and the check of sources that alone names it."""

    invariant: int
    line: str
    check: Callable[[str, Path], None]
    others: tuple[Callable[[str, Path], None], ...]
    says: str


_IMPORTS = test_purity.test_a_pure_package_imports_only_what_is_known_to_be_pure
_CALLS = test_purity.test_a_pure_package_calls_nothing_that_reaches_outside
SOURCE_FAULTS = [
    SourceFault(1, "STARTED = open('/etc/hostname')", _CALLS, (_IMPORTS,), "calls open"),
    SourceFault(13, "from time import sleep", _IMPORTS, (_CALLS,), "imports time"),
]


def _without_its_check(fault: Fault, stack: ExitStack) -> None:
    if fault.off:
        stack.enter_context(switched_off(fault.off))
    else:
        stack.enter_context(planted(Driver._run_pass, _REENTRY, "pass"))


def rows() -> Iterator[str]:
    """The table, for `python -m tests.mutation --invariants`: each fault run twice."""
    for fault in FAULTS:
        with planted(fault.function, fault.text, fault.instead):
            seen = seen_by(story)
        with ExitStack() as stack:
            stack.enter_context(planted(fault.function, fault.text, fault.instead))
            _without_its_check(fault, stack)
            left = seen_by(story)
        yield f"{fault.invariant:2}  {fault.what}: seen by {seen}, without it by {left}"
    for source in SOURCE_FAULTS:
        yield f"{source.invariant:2}  {source.line!r} in a module: named by {source.check.__name__}"


def test_without_a_fault_the_story_is_told_to_its_end() -> None:
    assert seen_by(story) is None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.invariant}")
def test_the_check_of_the_invariant_sees_the_fault(fault: Fault) -> None:
    with planted(fault.function, fault.text, fault.instead):
        assert seen_by(story) == fault.check


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.invariant}")
def test_all_the_other_checks_together_do_not_see_it(fault: Fault) -> None:
    with ExitStack() as stack:
        stack.enter_context(planted(fault.function, fault.text, fault.instead))
        _without_its_check(fault, stack)
        assert seen_by(story) is None


@pytest.mark.parametrize("fault", SOURCE_FAULTS, ids=lambda fault: f"{fault.invariant}")
def test_a_fault_that_only_the_sources_show_is_named_by_one_check(
    fault: SourceFault, tmp_path: Path, repository: Path
) -> None:
    shutil.copytree(repository / "decider", tmp_path / "decider")
    with (tmp_path / "decider" / "steps.py").open("a") as module:
        module.write(f"\n{fault.line}\n")

    for other in fault.others:
        other("decider", tmp_path)
    with pytest.raises(AssertionError, match=fault.says):
        fault.check("decider", tmp_path)


def test_each_of_the_fifteen_has_its_fault() -> None:
    every = {fault.invariant for fault in FAULTS} | {fault.invariant for fault in SOURCE_FAULTS}

    assert every == set(range(1, 16))
