"""The checks are not for show: each is given a copy of this tree with one fault, and must name it.

The real tools run with the real configuration, from the environment that runs the tests.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

FOLDERS = ("actors", "decider", "executors", "messages")


@pytest.fixture
def copy(tmp_path: Path, repository: Path, committed_files: tuple[Path, ...]) -> Path:
    """The committed tree, with the link through which mypy and import-linter see the package."""
    top = tmp_path / "copy"
    for path in committed_files:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(repository / path, top / path)
    (top / "build" / "ns").mkdir(parents=True)
    (top / "build" / "ns" / "cluster_reconciler").symlink_to("../..")
    return top


def _run(copy: Path, *command: str) -> tuple[int, str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST", "MYPY", "RUFF", "COV"))
    }
    # First on the path, before the installation of the tree that is being tested.
    environment["PYTHONPATH"] = str(copy / "build" / "ns")
    environment["COLUMNS"] = "200"
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    return done.returncode, done.stdout + done.stderr


def _mypy(copy: Path, *arguments: str) -> tuple[int, str]:
    return _run(copy, sys.executable, "-P", "-m", "mypy", *arguments)


def _ruff(copy: Path, *arguments: str) -> tuple[int, str]:
    return _run(copy, sys.executable, "-P", "-m", "ruff", *arguments)


def _import_linter(copy: Path) -> tuple[int, str]:
    script = Path(sysconfig.get_path("scripts")) / "lint-imports"
    code, output = _run(copy, str(script), "--no-logo", "--no-cache")
    return code, " ".join(output.split())


def _plant(copy: Path, place: str, *lines: str) -> None:
    (copy / place).write_text("\n".join(['"""A fault, planted."""', "", *lines, ""]))


def test_mypy_sees_every_module_of_all_four_packages(copy: Path) -> None:
    # given a type error at the end of every module
    modules = [path for folder in FOLDERS for path in sorted((copy / folder).rglob("*.py"))]
    for module in modules:
        with module.open("a") as text:
            text.write('\nPLANTED: int = "not a number"\n')

    code, output = _mypy(copy)

    # then each is named: none is skipped in silence
    assert code == 1
    named = {line.split(":")[0] for line in output.splitlines() if '"str", variable' in line}
    assert named == {f"build/ns/cluster_reconciler/{path.relative_to(copy)}" for path in modules}


def test_mypy_sees_the_tests_and_holds_them_to_our_types(copy: Path) -> None:
    _plant(
        copy,
        "tests/test_planted.py",
        "from cluster_reconciler.messages import OperationId",
        "",
        "PLANTED: OperationId = 3",
        "",
        "",
        "def untyped(argument):",
        "    return argument",
    )

    code, output = _mypy(copy, "tests/test_planted.py")

    assert code == 1
    assert "tests/test_planted.py:5: error: Incompatible types in assignment" in output
    assert "tests/test_planted.py:8: error: Function is missing a type annotation" in output


@pytest.mark.parametrize("folder", [*FOLDERS, "tests"])
def test_ruff_names_a_lint_fault_and_a_bare_import(copy: Path, folder: str) -> None:
    _plant(copy, f"{folder}/planted.py", "import json", "", "import messages", "", "A = messages")

    code, output = _ruff(copy, "check", "--output-format=concise", folder)

    assert code == 1
    assert f"{folder}/planted.py:3:8: F401" in output
    assert f"{folder}/planted.py:5:8: TID251 `messages` is banned" in output


def test_ruff_names_a_file_that_is_not_formatted(copy: Path) -> None:
    _plant(copy, "decider/planted.py", "PLANTED  =  ( 1,2 )")

    code, output = _ruff(copy, "format", "--check", ".")

    assert code == 1
    assert "decider/planted.py" in output


@pytest.mark.parametrize("folder", ["decider", "messages"])
@pytest.mark.parametrize(
    ("statement", "use", "banned"),
    [
        ("from datetime import UTC, datetime", "datetime.now(UTC)", "datetime.datetime.now"),
        ("import time", "time.monotonic()", "time"),
        ("from random import random", "random()", "random"),
        ("import uuid", "uuid.uuid4()", "uuid"),
        ("import os", "os.environ", "os"),
        ("from threading import Lock", "Lock()", "threading"),
        ("import logging", "logging.root", "logging"),
        ("from loguru import logger", "logger", "loguru"),
    ],
)
def test_ruff_keeps_the_world_out_of_the_pure_packages(
    copy: Path, folder: str, statement: str, use: str, banned: str
) -> None:
    _plant(copy, f"{folder}/planted.py", statement, "", f"PLANTED = {use}")

    code, output = _ruff(copy, "check", "--output-format=concise", folder)

    assert code == 1
    assert f"TID251 `{banned}` is banned" in output
    assert f"{folder}/planted.py:" in output


def test_import_linter_names_every_step_up_the_layers(copy: Path) -> None:
    # given one import against the layers in each direction
    _plant(copy, "messages/planted.py", "from cluster_reconciler.decider import plan")
    _plant(copy, "decider/planted.py", "from cluster_reconciler.executors import provider")
    _plant(copy, "executors/planted.py", "from cluster_reconciler.actors import cli")

    code, output = _import_linter(copy)

    assert code == 1
    for importer, imported in (
        ("messages.planted", "decider"),
        ("decider.planted", "executors"),
        ("executors.planted", "actors"),
    ):
        assert f"cluster_reconciler.{importer} -> cluster_reconciler.{imported}" in output


def test_import_linter_follows_the_world_through_another_module(copy: Path) -> None:
    # given a decider module that reaches a socket only by way of a message module
    _plant(copy, "messages/planted.py", "import socket", "", "PLANTED = socket")
    _plant(copy, "decider/planted.py", "from cluster_reconciler.messages.planted import PLANTED")

    code, output = _import_linter(copy)

    assert code == 1
    assert "cluster_reconciler.messages is not allowed to import socket" in output
    assert "cluster_reconciler.decider is not allowed to import socket" in output
    assert "cluster_reconciler.messages.planted -> socket (l.3)" in output


def test_import_linter_keeps_what_runs_on_a_node_to_the_standard_library(copy: Path) -> None:
    _plant(copy, "executors/node/planted.py", "import msgspec", "", "PLANTED = msgspec")

    code, output = _import_linter(copy)

    assert code == 1
    assert "cluster_reconciler.executors.node.planted -> msgspec (l.3)" in output


def test_the_coverage_gate_names_a_decider_line_that_no_test_reaches(copy: Path) -> None:
    _plant(
        copy,
        "decider/planted.py",
        "def planted() -> int:",
        '    """Never called."""',
        "    return 1",
    )
    _plant(
        copy,
        "tests/test_planted.py",
        "import cluster_reconciler.decider.planted as planted",
        "",
        "",
        "def test_it_exists() -> None:",
        "    assert planted.planted",
    )

    code, output = _run(
        copy,
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "--cov",
        "--cov-report=term",
        "tests/test_planted.py",
    )

    assert code == 1
    assert "1 passed" in output
    assert "FAIL Required test coverage of 100.0% not reached" in output
    assert any(
        line.startswith("decider/planted.py") and line.endswith(" 5")
        for line in output.splitlines()
    )
