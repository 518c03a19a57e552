"""Whoever reads of a broken invariant is told whose it is: its message begins with the node's id,
unless it is of the plan or the cluster as a whole.

It takes the broken states, steps and plans of the other files of tests of invariants, and looks at
the first words alone; what else is said is theirs.
"""

import re
from collections.abc import Callable

import pytest

from tests.test_decider_invariants import BROKEN_NODES, BROKEN_STATES
from tests.test_decider_invariants_changes import BROKEN_STEPS
from tests.test_decider_invariants_folds import BROKEN_FOLDS
from tests.test_decider_invariants_limits import BROKEN_OTHERS
from tests.test_decider_invariants_plans import BROKEN_PLANS

EVERY = BROKEN_NODES + BROKEN_STATES + BROKEN_STEPS + BROKEN_FOLDS + BROKEN_PLANS + BROKEN_OTHERS
NODE = re.compile(r"[a-z]-\d+: ")
OF_THE_WHOLE = (
    *("actions are not", "act and are held back", "held back are not", "held back, but not there"),
    *(
        "attempt ids",
        "the attempt allocator went back",
        "called exhausted",
        "no attempt id is left",
    ),
    *("the plan is of generation", "observed_generation went back", "every node is as wanted"),
    *("reconcile has changed its input", "the same input gave two plans"),
    "called converged, but g-0: ",
    "no node waits: requeue at",  # Nobody waits for anything, and yet it is to be looked at again.
)


@pytest.mark.parametrize(("says", "check"), EVERY)
def test_what_is_broken_is_said_of_its_node(says: str, check: Callable[[], object]) -> None:
    with pytest.raises(AssertionError) as broken:
        check()

    said = str(broken.value)
    assert NODE.match(said) or said.startswith(OF_THE_WHOLE), f"{says}: {said}"
