"""The process that runs the mutants of some files against some tests, in a laid out copy.

    python -m tests.mutation.worker REQUEST.json ANSWER.json

It is started by `python -m tests.mutation`, in the copy's folder, with the copy on its path.  The
request names files, tests and which mutants; the answer holds a verdict for each.
"""

import enum
import json
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis  # noqa: F401 - imported before any fork, so that no fork pays for it
import pytest

from tests.mutation.expressions import Members
from tests.mutation.imported import run_imported
from tests.mutation.operators import Mutant, mutants_of
from tests.mutation.scratch import assert_is_the_copy, source_of
from tests.mutation.stage import Stage, Verdict, in_a_fork

OPTIONS = (
    *("-q", "--assert=plain", "--tb=no", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
    *(f"-pno:{name}" for name in ("cacheprovider", "cov", "xdist", "timeout")),
)
CHECKS = "decider/invariants"
Groups = list[tuple[Path, list[Mutant]]]


def main() -> None:
    """Read the request, run, write the answer."""
    request = json.loads(Path(sys.argv[1]).read_text())
    folder = Path.cwd()
    only = set(request["only"]) if request["only"] is not None else None
    groups = _groups(folder, request, only)
    done = {verdict["mutant"]: verdict for verdict in request.get("done", ())}
    kept = [done[m.key] for _, mutants in groups for m in mutants if m.key in done]
    groups = [(path, [m for m in mutants if m.key not in done]) for path, mutants in groups]
    inside = _part(groups, imported=False)
    imported = _part(groups, imported=True)
    options = [*OPTIONS, *(f"--deselect={name}" for name in request["deselect"])]
    told = in_a_fork(lambda: _run_inside(folder, inside, request, options))
    verdicts, unfit, baseline = told
    verdicts += run_imported(
        imported, request["tests"], options, request["limit"], request["workers"]
    )
    answer = {
        "verdicts": kept + [asdict(v) for v in verdicts],
        "unfit": unfit,
        "baseline": baseline,
    }
    Path(sys.argv[2]).write_text(json.dumps(answer))


def _run_inside(
    folder: Path, groups: Groups, request: dict[str, Any], options: list[str]
) -> tuple[list[Verdict], list[str], float]:
    """In a process of its own, so that this one has still imported nothing that is mutated."""
    if not any(mutants for _, mutants in groups):
        return [], [], 0.0
    assert_is_the_copy(folder)
    stage = Stage(groups, request["workers"], request["factor"], request.get("patience", 5.0))
    code = pytest.main([*options, *request["tests"]], plugins=[stage])
    assert stage.verdicts, f"no mutant was run: pytest ended with {code!r}"
    return stage.verdicts, stage.unfit, stage.baseline


def _groups(folder: Path, request: dict[str, Any], only: set[str] | None) -> Groups:
    members = enumerations()
    groups: Groups = []
    for module in request["files"]:
        path = source_of(folder, module)
        found = mutants_of(
            module,
            path.read_text(),
            str(path),
            members,
            assertions=module.startswith(CHECKS),
        )
        wanted = [m for m in found if only is None or m.key in only]
        wanted = [m for m in wanted if request["text"] in m.key]
        groups.append((path, wanted[:: request["every"]]))
    return groups


def _part(groups: Groups, *, imported: bool) -> Groups:
    return [(path, [m for m in ms if (m.function is None) == imported]) for path, ms in groups]


def enumerations() -> Members:
    """Every enumeration that is mutated, with its members.  Read from what nothing mutates: the
    messages, and a copy of the state that is thrown away again."""
    from cluster_reconciler import messages  # noqa: PLC0415 - after the path is set

    return {**_enumerations_in(messages), "ProgressWait": ("ENDPOINT", "JOIN")}


def _enumerations_in(module: ModuleType) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(found.__members__)
        for name, found in vars(module).items()
        if isinstance(found, type) and issubclass(found, enum.Enum) and found.__members__
    }


if __name__ == "__main__":
    main()
