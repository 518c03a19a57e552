"""The mutation tool finds what it is for: faults that no test notices, and none that one does."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster_reconciler.decider import retry, steps
from tests.mutation.expressions import OF_ANY_NUMBER
from tests.mutation.operators import mutants_of
from tests.mutation.planting import planted, seen_by
from tests.mutation.report import Told, known_survivors, table, unexplained
from tests.mutation.scratch import environment, lay_out, source_of

MEMBERS = {"Colour": ("RED", "GREEN", "BLUE")}


def changes(source: str, *, assertions: bool = False) -> list[tuple[str | None, str, str]]:
    found = mutants_of("m.py", source, "m.py", MEMBERS, assertions=assertions)
    return [(mutant.function, mutant.before, mutant.after) for mutant in found]


def test_a_comparison_is_exchanged_for_its_neighbours_and_answered_by_force() -> None:
    assert changes("def is_due(at: int, now: int) -> bool:\n    return at <= now\n") == [
        ("is_due", "return at <= now", "return at < now"),
        ("is_due", "return at <= now", "return at > now"),
        ("is_due", "return at <= now", "return None"),
        ("is_due", "return at <= now", "return True"),
    ]


def test_a_member_is_exchanged_for_the_next_one_and_an_operand_is_left_out() -> None:
    assert changes("def f(c):\n    if c is Colour.BLUE or c:\n        g(c)\n") == [
        ("f", "if c is Colour.BLUE or c: g(c)", after)
        for after in (
            "if False: g(c)",
            "if True: g(c)",
            "if c is Colour.BLUE and c: g(c)",
            "if c: g(c)",
            "if c is Colour.BLUE: g(c)",
            "if c is not Colour.BLUE or c: g(c)",
            "if c is Colour.RED or c: g(c)",
            "if c is Colour.BLUE or c: pass",
            "if c is Colour.BLUE or c: g(None)",
        )
    ]


def test_an_argument_is_none_and_one_of_any_number_is_left_out() -> None:
    before = "return g(_earliest(a.x, h(a)), len(a), 'no') if isinstance(a, int) else min(a, b)"
    found = changes(f"def f(a):\n    {before}\n")

    assert [after for _, _, after in found if "None" in after or "_earliest(a.x)" in after] == [
        "return None",
        *(
            before.replace(text, instead)
            for text, instead in (
                ("isinstance(a,", "isinstance(None,"),
                ("a.x, h(a)", "a.x"),
                ("_earliest(a.x, h(a))", "None"),
                ("a.x,", "None,"),
                ("h(a)", "None"),
                ("h(a)", "h(None)"),
                ("len(a)", "None"),
                ("min(a", "min(None"),
                ("a, b)", "a, None)"),
            )
        ),
    ]
    assert before.replace("min(a, b)", "b") in [after for _, _, after in found]


def test_every_function_of_the_decider_that_takes_any_number_is_known_to_do_so() -> None:
    variadic = {
        function.name
        for file in Path(retry.__file__).parent.glob("*.py")
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef) and function.args.vararg is not None
    }

    assert variadic <= set(OF_ANY_NUMBER)


def test_a_wait_that_forgets_one_of_its_deadlines_is_among_the_mutants() -> None:
    """With its first deadline alone the end of the join wait is forgotten in a backoff."""
    file = Path(steps.__file__)
    found = mutants_of("steps.py", file.read_text(), "steps.py", {}, assertions=False)

    assert {m.after for m in found if m.function == "wait_backoff" and "_earliest(" in m.after} == {
        f"return NodeDecision(None, _earliest({left}))"
        for left in (
            "node.retry.next_effect_at",
            "_progress_alarm(node)",
            "node.retry.next_effect_at, None",
            "None, _progress_alarm(node)",
            "node.retry.next_effect_at, _progress_alarm(None)",
        )
    }


def test_a_table_at_the_top_loses_each_row_and_exchanges_neighbours() -> None:
    assert changes("ROWS = (Row('a', m.one), Row('b', m.two))\n")[:4] == [
        (None, "ROWS = (Row('a', m.one), Row('b', m.two))", f"ROWS = {after}")
        for after in (
            "(Row('b', m.two),)",
            "(Row('a', m.one),)",
            "(Row('b', m.two), Row('a', m.one))",
            "(Row('a', m.two), Row('b', m.two))",
        )
    ]


def test_what_says_nothing_of_behaviour_is_left_alone() -> None:
    source = '''"""A module."""
import os
from typing import Final
__all__ = ["f"]
Alias = tuple[int, str]
_Private = Alias | None
T = TypeVar("T")
def f(a: "int") -> None:
    """A function."""
    assert a == 1, "a is one"
'''

    assert changes(source) == []
    assert changes(source, assertions=True) != []


def test_every_mutant_is_a_module_of_its_own() -> None:
    source = Path(retry.__file__).read_text()

    found = list(mutants_of("retry.py", source, "retry.py", {}, assertions=False))

    assert len({mutant.key for mutant in found}) == len(found) > 150
    original = compile(source, "retry.py", "exec")
    assert all(mutant.code != original for mutant in found)


# -- the run --------------------------------------------------------------------------------------

PLANTED = '''"""A module to mutate."""

LEAST = 3


def first_over(numbers: list[int]) -> int:
    """The place of the first number above LEAST."""
    at = 0
    while at < len(numbers) and numbers[at] <= LEAST:
        at += 1
    return at


def unseen() -> int:
    """No test comes here."""
    return 1
'''
TESTS = '''"""Tests of it."""

from cluster_reconciler.decider.planted import first_over


def test_one() -> None:
    assert first_over([1, 4, 9]) == 1
'''


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each mutant of the planted module, by what it became."""
    copy = tmp_path_factory.mktemp("copy")
    lay_out(copy)
    module = "decider/planted.py"
    source_of(copy, module).write_text(PLANTED)
    (copy / "tests" / "test_planted.py").write_text(TESTS)
    request = {
        "files": [module],
        "tests": ["tests/test_planted.py"],
        "deselect": [],
        "only": None,
        "text": "",
        "every": 1,
        "workers": 2,
        "factor": 1.0,
        "patience": 0.0,
        "limit": 30.0,
    }
    (copy / "request.json").write_text(json.dumps(request))
    subprocess.run(
        [sys.executable, "-m", "tests.mutation.worker", "request.json", "answer.json"],
        cwd=copy,
        env=environment(copy, dict(os.environ)),
        check=True,
        capture_output=True,
        timeout=100,
    )
    told = json.loads((copy / "answer.json").read_text())
    assert told["unfit"] == []
    return {v["mutant"].rpartition("| ")[2].strip("`"): v["result"] for v in told["verdicts"]}


def test_a_fault_that_a_test_notices_is_killed(results: dict[str, str]) -> None:
    assert results["return None"] == "killed"


def test_a_constant_that_is_read_at_import_is_mutated_too(results: dict[str, str]) -> None:
    assert (results["LEAST = 4"], results["LEAST = 2"]) == ("killed", "survived")


def test_a_fault_that_none_notices_survives(results: dict[str, str]) -> None:
    weak = "while at < len(numbers) and numbers[at] < LEAST: at += 1"

    assert results[weak] == "survived"


def test_a_fault_that_loops_for_ever_is_ended(results: dict[str, str]) -> None:
    without_its_step = "while at < len(numbers) and numbers[at] <= LEAST: pass"

    assert results[without_its_step] == "timeout"


def test_what_no_test_executes_is_said(results: dict[str, str]) -> None:
    assert results["return 2"] == results["return 0"] == "no tests"


# -- the report -----------------------------------------------------------------------------------

KNOWN = """\
| file | function | before and after | reason |
|---|---|---|---|
| m.py | f | `a | b` | `a` | both are the same |
"""


def test_a_survivor_without_a_reason_is_named_and_one_with_a_reason_is_not() -> None:
    verdicts = [
        Told("m.py | f | `a | b` | `a`", 1, "survived"),
        Told("m.py | f | `c` | `d`", 2, "survived"),
        Told("m.py | f | `e` | `f`", 3, "killed"),
        Told("m.py | g | `e` | `f`", 9, "no tests"),
    ]
    known = known_survivors(KNOWN)

    assert known == {"m.py | f | `a | b` | `a`": "both are the same"}
    assert unexplained(verdicts, known) == [verdicts[1], verdicts[3]]
    assert table(verdicts, known)[-1].split() == ["all", "4", "1", "0", "2", "1", "1", "25.0", "%"]


def test_a_fault_is_planted_and_put_back_and_what_saw_it_is_named() -> None:
    def scenario() -> None:
        assert not unexplained([], {}), "something is left"

    with planted(unexplained, "return [", "return [True] + ["):
        assert seen_by(scenario) == "test_mutants_tool.scenario"
    assert seen_by(scenario) is None


def test_a_fault_whose_text_is_gone_is_refused() -> None:
    with (
        pytest.raises(AssertionError, match="expected 'no such text' once, found it 0 times"),
        planted(unexplained, "no such text", ""),
    ):
        pass
