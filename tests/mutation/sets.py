"""What is mutated together, and which tests have to notice.

The first tests are fast and near; what survives them meets the slower ones: whole clusters, and the
search of one node's states.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.mutation.scratch import REPOSITORY


@dataclass(frozen=True)
class MutationSet:
    """Files, and the tests of two stages."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    second: tuple[str, ...] = ()
    deselect: tuple[str, ...] = ()
    """Tests that start processes, or read the sources: no mutant reaches them."""


def _tests(*patterns: str, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    folder = REPOSITORY / "tests"
    found = [path.name for pattern in patterns for path in sorted(folder.glob(pattern))]
    return tuple(f"tests/{name}" for name in dict.fromkeys(found) if name not in without)


def _files(package: str, pattern: str, without: str = "") -> tuple[str, ...]:
    found = sorted((REPOSITORY / package).glob(pattern))
    return tuple(
        f"{package}/{path.name}"
        for path in found
        if not (without and Path(path.name).match(without))
    )


_WALK, _RANDOM = "test_decider_walk.py", "test_decider_random.py"
_INCREMENTAL = "test_decider_incremental.py"
_THREADS = "test_executor_threads.py"
"""Its tests wait for what a mutant may never do."""
_CHECKS = _tests("test_decider_invariants*.py")
_CLUSTERS = _tests("test_lifecycle_*.py", "test_world_*.py")
_DESELECT = (
    "tests/test_decider_random.py::test_no_outcome_depends_on_the_order_of_hashes",
    "tests/test_decider_invariants_complete.py",
)

SETS = {
    "decider": MutationSet(
        files=_files("decider", "*.py", without="invariants*"),
        tests=_tests(
            "test_decider_facts.py",
            "test_decider_backoff.py",
            "test_decider_rows.py",
            "test_decider_reconcile.py",
            "test_retry.py",
            "test_decider_product.py",
            "test_decider_*.py",
            "test_shape.py",
            without=(_WALK, _RANDOM, _INCREMENTAL),
        ),
        second=(f"tests/{_INCREMENTAL}", f"tests/{_RANDOM}", f"tests/{_WALK}", *_CLUSTERS),
        deselect=_DESELECT,
    ),
    "checks": MutationSet(
        files=_files("decider", "invariants*.py"),
        tests=(*_CHECKS, "tests/test_decider_product.py"),
        second=(*_tests("test_decider_*.py", without=(_WALK,)), *_CLUSTERS),
        deselect=_DESELECT,
    ),
    "executors": MutationSet(
        files=tuple(
            f"executors/{name}.py"
            for name in ("ledger", "attempt", "adoption", "carrier", "executor", "routing")
        ),
        tests=_tests(
            "test_ledger.py",
            "test_mutants_executors*.py",
            "test_executor_*.py",
            without=(_THREADS,),
        ),
        second=(f"tests/{_THREADS}", *_CLUSTERS, "tests/test_checks_catch_planted_faults.py"),
    ),
    "planning": MutationSet(
        files=("actors/planning.py",),
        tests=_tests("test_planning_answers.py", "test_planning.py", "test_planning_ticks.py"),
        second=_tests("test_driver*.py", "test_fields_driver.py", "test_fields_status.py"),
    ),
    "driver": MutationSet(
        files=("actors/driver.py",),
        tests=_tests("test_driver*.py", "test_lifecycle_*.py"),
        second=_tests("test_world_*.py", "test_stepping_kit.py", "test_fields_driver.py"),
    ),
}
