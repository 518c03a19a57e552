"""The shape of the repository: what is installed, what lies at the top, how long a file may be."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "cluster_reconciler"
FOLDERS = {"actors", "decider", "executors", "messages"}
BESIDE_THE_PACKAGE = {"tests", "examples", "docs", "build"}
AT_THE_TOP = FOLDERS | {
    "tests",
    "examples",
    "docs",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
}
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
FIRST_SCREEN_LINES = 45
INSTALL_AND_RUN = (
    "python3 -m venv .venv && .venv/bin/pip install -e . "
    "&& .venv/bin/cluster-reconciler up examples/local.toml"
)
INSTALL_AND_TEST = "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest"


@pytest.fixture(scope="session")
def project(repository: Path) -> dict[str, Any]:
    """pyproject.toml, read."""
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def python_files(committed_files: tuple[Path, ...]) -> tuple[Path, ...]:
    """The committed Python files."""
    return tuple(path for path in committed_files if path.suffix == ".py")


@cache
def _tree(path: Path) -> ast.Module:
    """Several tests look at every file: each is read once."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each imported module's name as written, with its line; dots lead a relative one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def test_every_folder_with_python_files_is_in_the_list_of_packages(
    project: dict[str, Any], python_files: tuple[Path, ...]
) -> None:
    # given every folder that holds Python files, save those that are not installed
    folders = {
        path.parent
        for path in python_files
        if len(path.parts) > 1 and path.parts[0] not in BESIDE_THE_PACKAGE
    }

    # then exactly these are installed, under the one package
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted(
        ".".join((PACKAGE, *folder.parts)) for folder in folders
    )
    assert project["tool"]["setuptools"]["package-dir"] == {PACKAGE: "."}


def test_every_package_is_typed_and_a_regular_package(
    project: dict[str, Any], committed_files: tuple[Path, ...]
) -> None:
    wanted = {
        Path(*name.split(".")[1:], marker)
        for name in project["tool"]["setuptools"]["packages"]
        for marker in ("__init__.py", "py.typed")
    }
    assert wanted - set(committed_files) == set()
    assert project["tool"]["setuptools"]["package-data"] == {"*": ["py.typed"]}


def test_the_type_checker_and_the_import_linter_know_every_top_package(
    project: dict[str, Any],
) -> None:
    names = sorted(f"{PACKAGE}.{folder}" for folder in FOLDERS)
    assert sorted(project["tool"]["mypy"]["packages"]) == names
    assert sorted(project["tool"]["importlinter"]["root_packages"]) == names


def test_the_top_of_the_repository_holds_only_what_belongs_there(
    committed_files: tuple[Path, ...],
) -> None:
    top = {path.parts[0] for path in committed_files}
    assert {name for name in top if not name.startswith(".")} - AT_THE_TOP == set()


def test_our_modules_are_imported_under_one_name_only(
    repository: Path, python_files: tuple[Path, ...]
) -> None:
    # A bare `import messages` works in this folder, and loads a second copy of every class.
    assert [
        f"{path}:{line} imports {name}: write {PACKAGE}.{name.lstrip('.')}"
        for path in python_files
        for line, name in _imported(_tree(repository / path))
        if name.split(".")[0] in FOLDERS | {""}
    ] == []


def test_every_module_begins_with_a_docstring(
    repository: Path, python_files: tuple[Path, ...]
) -> None:
    assert [
        f"{path} does not say what it is responsible for"
        for path in python_files
        if not ast.get_docstring(_tree(repository / path))
    ] == []


def test_no_file_is_too_long_to_be_read_at_a_sitting(
    repository: Path, python_files: tuple[Path, ...]
) -> None:
    lengths = {path: len((repository / path).read_bytes().splitlines()) for path in python_files}
    assert {path: lines for path, lines in lengths.items() if lines > FILE_LINES_MAX} == {}


def test_no_function_is_too_long_to_be_seen_at_once(
    repository: Path, python_files: tuple[Path, ...]
) -> None:
    assert [
        f"{path}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in python_files
        for node in ast.walk(_tree(repository / path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ] == []


def test_no_committed_text_names_a_registry_or_a_place_on_somebodys_machine(
    repository: Path, committed_files: tuple[Path, ...]
) -> None:
    # The words are put together here, so that this file does not hold what it looks for.
    hosts = [f"{a}{b}" for a, b in (("py", "pi.org"), ("python", "hosted"), ("np", "mjs."))]
    places = [rf"(?<![\w.~}}])/{name}/\w" for name in ("work", "root", "tmp", "home")]
    forbidden = re.compile("|".join([*map(re.escape, hosts), re.escape(str(repository)), *places]))

    found = []
    for path in committed_files:
        text = (repository / path).read_bytes().decode("utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if match := forbidden.search(line):
                found.append(f"{path}:{number} names {match.group()}")

    assert found == []


def test_the_first_screen_of_the_readme_gives_both_commands(repository: Path) -> None:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    first_screen = "\n".join(readme.splitlines()[:FIRST_SCREEN_LINES]).replace("\\\n", " ")
    words = " ".join(first_screen.split())
    assert INSTALL_AND_RUN in words
    assert INSTALL_AND_TEST in words


def test_the_build_runs_the_readmes_commands_to_the_letter(repository: Path) -> None:
    build = (repository / ".ci" / "run").read_text(encoding="utf-8")
    commands = (INSTALL_AND_RUN, INSTALL_AND_TEST)
    assert [line.strip() for line in build.splitlines() if line.strip() in commands] == [
        INSTALL_AND_TEST,
        INSTALL_AND_RUN,
    ]


def test_what_the_readmes_first_command_names_exists(
    project: dict[str, Any], committed_files: tuple[Path, ...]
) -> None:
    module, function = project["project"]["scripts"]["cluster-reconciler"].split(":")
    assert function == "main"
    assert Path(*module.split(".")[1:]).with_suffix(".py") in committed_files
    assert Path("examples/local.toml") in committed_files


def test_the_changelog_speaks_of_this_version(repository: Path, project: dict[str, Any]) -> None:
    changelog = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in changelog
    assert project["project"]["version"] in changelog
