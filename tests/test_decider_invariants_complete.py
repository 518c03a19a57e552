"""No assertion of the invariants is without a test that has seen it fail.

Each planted violation of the four files beside this one is run again, and it is noted on which line
it was raised: together these must be all the lines that can raise.
"""

import ast
from collections.abc import Callable
from pathlib import Path

from cluster_reconciler.decider import invariants
from tests.test_decider_invariants import BROKEN_NODES, BROKEN_STATES
from tests.test_decider_invariants_changes import BROKEN_STEPS
from tests.test_decider_invariants_folds import BROKEN_FOLDS
from tests.test_decider_invariants_limits import BROKEN_OTHERS
from tests.test_decider_invariants_plans import BROKEN_PLANS

BROKEN = BROKEN_NODES + BROKEN_STATES + BROKEN_STEPS + BROKEN_FOLDS + BROKEN_PLANS + BROKEN_OTHERS


def _can_raise() -> set[tuple[str, int]]:
    """Every assertion of `invariants*.py`, by file and first line."""
    found = set()
    for path in Path(invariants.__file__).parent.glob("invariants*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assert | ast.Raise):
                found.add((path.name, node.lineno))
    return found


def _raised_at(check: Callable[[], object]) -> tuple[str, int]:
    try:
        check()
    except AssertionError as error:
        trace = error.__traceback__
        assert trace is not None
        while trace.tb_next is not None:
            trace = trace.tb_next
        return Path(trace.tb_frame.f_code.co_filename).name, trace.tb_lineno
    raise AssertionError(f"nothing was raised by {check}")


def test_every_assertion_has_been_seen_to_fail() -> None:
    can_raise = _can_raise()

    assert len(can_raise) > 150
    assert can_raise - {_raised_at(check) for _, check in BROKEN} == set()
