"""Which layer of proof catches which fault: `python -m tests.planted_faults [FAULT ...]`.

Each fault is one deliberate slip of the product - in the decider, the ledger, the executor's memory
and the driver, and in what is kept from pass to pass (`stale_faults`) - that a person could make
and a reader could miss.  Each layer is run with it, in a
process of its own, as its own command runs it; a layer that ends without complaint has not caught
it.  The layers are also run without any fault, where all of them must be content.

The exit code is 1 when a fault is caught by nothing, or when a layer complains of no fault.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from cluster_reconciler.actors.driver import Driver
from cluster_reconciler.decider import ManagedNode, steps
from cluster_reconciler.executors.adoption import Holding
from cluster_reconciler.executors.ledger import OperationLedger
from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId, NodeObservation, PlannedEffect
from tests.stale_faults import STALE_FAULTS

LAYER_MAX = 900.0
"""Seconds; a layer that takes longer has caught nothing, and says so."""
OUTPUT_MAX = 160
WRONG = ("Error", "Broken", "BROKEN", "a defect: ")
"""What stands in a line that says what is wrong."""


Put = Callable[[object, str, object], None]
"""Puts a value in the place of an attribute: `setattr` for good, pytest's for one test."""


class Fault(Struct, frozen=True):
    """One slip."""

    place: str
    slip: str
    plant: Callable[[Put], None]


class Layer(Struct, frozen=True):
    """One proof, as a Python program that ends with another code than 0 when it objects."""

    name: str
    program: str


def forget_what_may_exist(put: Put) -> None:
    """Decider: destroyed is what holds no lease and no session, whatever may exist unseen."""

    def holds_nothing(node: ManagedNode) -> bool:
        return node.record.lease is None and node.active_bootstrap is None

    put(steps, "holds_nothing", holds_nothing)


def forget_what_was_done(put: Put) -> None:
    """Ledger: an operation that is submitted again is carried out again."""

    def repeated(_self: OperationLedger, _effect: PlannedEffect) -> None:
        return None

    put(OperationLedger, "repeated", repeated)


def forget_the_interrupted_call(put: Put) -> None:
    """Executor's memory: a create without an answer has made nothing."""

    def interrupted(self: Holding[object], _at: datetime) -> Holding[object]:
        return self.refused()

    put(Holding, "interrupted", interrupted)


def fold_the_word_of_old_attempts(put: Put) -> None:
    """Driver: what is told of any attempt is taken for news of the present one."""
    fold = Driver._fold

    def deaf(
        self: Driver, node_id: LogicalNodeId, attempt: NodeAttemptId, observation: NodeObservation
    ) -> None:
        node = self.state.nodes.get(node_id)
        fold(self, node_id, attempt if node is None else node.attempt, observation)

    put(Driver, "_fold", deaf)


def _stale(name: str) -> Fault:
    """One of the slips in what is kept; the others are shown by `test_planning_stale_faults`."""
    fault = STALE_FAULTS[name]
    return Fault(fault.place, fault.slip, fault.plant)


FAULTS = {
    "decider": Fault(
        "decider/steps.py, holds_nothing",
        "a create of unknown outcome is no reason to look before the node is called destroyed",
        forget_what_may_exist,
    ),
    "ledger": Fault(
        "executors/ledger.py, OperationLedger.repeated",
        "an operation that was submitted before is carried out again",
        forget_what_was_done,
    ),
    "memory": Fault(
        "executors/adoption.py, Holding.interrupted",
        "a create whose answer was lost has made nothing, so the next one need not look",
        forget_the_interrupted_call,
    ),
    "driver": Fault(
        "actors/driver.py, _fold",
        "a word of an old attempt is folded into the present one",
        fold_the_word_of_old_attempts,
    ),
    "kept": _stale("untold join"),
    "alarm": _stale("overdue"),
}


def _pytest(*arguments: str) -> str:
    """Ends with 1 when a test fails, as pytest does."""
    given = [*arguments, "-x", "-q", "-p", "no:cacheprovider", "--no-header"]
    return f"import pytest; sys.exit(pytest.main({given!r}))"


def _module(name: str, *arguments: str) -> str:
    return (
        f"import runpy; sys.argv[1:] = {list(arguments)!r}; "
        f"runpy.run_module({name!r}, run_name='__main__')"
    )


def _dispatch_points(*scenarios: str) -> str:
    """A few scenarios, all faults at each of their dispatch points."""
    return (
        "from tests.dispatch_points.__main__ import main; codes = []\n"
        f"for name in {scenarios!r}:\n"
        "    sys.argv[1:] = ['--scenario', name]; codes.append(main())\n"
        "sys.exit(max(codes))"
    )


def _tests(*names: str) -> list[str]:
    return [str(path) for name in names for path in sorted(Path("tests").glob(name))]


LAYERS = (
    Layer(
        "unit tests",
        _pytest(
            *_tests("test_decider_*.py", "test_executor_*.py"),
            *_tests("test_ledger.py", "test_driver*.py", "test_retry.py"),
        ),
    ),
    Layer("cases", _pytest(*_tests("test_lifecycle_*.py", "test_world_*.py"))),
    Layer(
        "dispatch points",
        _dispatch_points("one-node", "node-lost", "ambiguous-create-cleaned-up"),
    ),
    Layer("search", _module("tests.search", "one", "--faults", "2")),
    Layer("simulation", _module("tests.simulation", "--seeds", "60")),
    Layer("state machine", _pytest("tests/test_state_machine.py")),
    Layer("safety tick", _module("tests.unwatched_lives")),
)


class Verdict(Struct, frozen=True):
    """How one layer ended."""

    code: int | None
    """None: it did not end in time."""
    seconds: float
    said: str
    """The line that says what it objects to, as far as there is one."""

    @property
    def caught(self) -> bool:
        """Whether it objected."""
        return self.code not in (0, None)


def verdict_of(layer: Layer, fault: str | None) -> Verdict:
    """Run one layer with one fault; None: with none."""
    plant = (
        f"from tests.planted_faults import FAULTS; FAULTS[{fault!r}].plant(setattr)"
        if fault
        else ""
    )
    begun = time.monotonic()
    try:
        ended = subprocess.run(
            [sys.executable, "-c", f"import sys\n{plant if fault else ''}\n{layer.program}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=LAYER_MAX,
            env={**os.environ, "COLUMNS": "160"},
        )
    except subprocess.TimeoutExpired:
        return Verdict(None, time.monotonic() - begun, "")
    return Verdict(ended.returncode, time.monotonic() - begun, objection_in(ended.stdout))


def objection_in(output: str) -> str:
    """The first line that names what is wrong; the last one if none does."""
    every = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in every if not line.startswith(">")]  # The source, as pytest shows it.
    wrong = (line for line in lines if any(word in line for word in WRONG))
    return next(wrong, lines[-1] if lines else "")[:OUTPUT_MAX]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted_faults")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(FAULTS))
    parser.add_argument("--layer", choices=[layer.name for layer in LAYERS])
    arguments = parser.parse_args()
    if unknown := set(arguments.faults) - set(FAULTS):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; known: {', '.join(FAULTS)}")
    layers = [layer for layer in LAYERS if arguments.layer in (None, layer.name)]
    wrong = 0
    for name in (None, *(arguments.faults or FAULTS)):
        fault = FAULTS[name] if name is not None else None
        print(f"{fault.place}: {fault.slip}" if fault else "no fault", flush=True)
        verdicts = []
        for layer in layers:
            verdict = verdict_of(layer, name)
            verdicts.append(verdict)
            word = "too slow" if verdict.code is None else "caught" if verdict.caught else "-"
            said = verdict.said if verdict.caught else ""
            print(f"  {layer.name:16} {word:8} {verdict.seconds:5.0f} s  {said}", flush=True)
        caught = any(verdict.caught for verdict in verdicts)
        wrong += caught if fault is None else not caught
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
