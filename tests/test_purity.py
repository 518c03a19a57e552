"""The pure packages reach nothing outside: neither by an import, nor by a builtin, nor by loading.

ruff and import-linter know lists of what is forbidden; here stands what is allowed.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

# All that a pure package may import.  An allow-list: what is not thought of here is refused.
PURE_IMPORTS = {
    "bisect", "collections", "collections.abc", "datetime", "enum", "hashlib", "heapq", "itertools",
    "math", "msgspec", "msgspec.structs", "operator", "typing",
}  # fmt: skip
IMPURE_CALLS = {
    "__import__", "breakpoint", "compile", "eval", "exec", "globals", "hash", "id", "input",
    "open", "print", "setattr", "vars",
}  # fmt: skip
WORLDLY = {
    "asyncio", "concurrent", "logging", "loguru", "multiprocessing", "pykka", "queue", "random",
    "rich", "selectors", "socket", "ssl", "subprocess", "tempfile", "threading", "uuid", "yaml",
}  # fmt: skip


@pytest.mark.parametrize("folder", ["messages", "decider"])
def test_a_pure_package_imports_only_what_is_known_to_be_pure(
    folder: str, repository: Path
) -> None:
    found = []
    for path in sorted((repository / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "."]
            else:
                continue
            found += [
                f"{path.relative_to(repository)}:{node.lineno} imports {name}"
                for name in names
                if name not in PURE_IMPORTS
                and not name.startswith(
                    ("cluster_reconciler.messages", f"cluster_reconciler.{folder}")
                )
            ]
    assert found == []


@pytest.mark.parametrize("folder", ["messages", "decider"])
def test_a_pure_package_calls_nothing_that_reaches_outside(folder: str, repository: Path) -> None:
    assert [
        f"{path.relative_to(repository)}:{node.lineno} calls {node.func.id}"
        for path in sorted((repository / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in IMPURE_CALLS
    ] == []


@pytest.mark.parametrize("package", ["messages", "decider"])
def test_importing_a_pure_package_loads_nothing_worldly(package: str) -> None:
    # given an interpreter that has loaded what the pure packages stand on, and nothing of ours
    program = f"""
import datetime, enum, hashlib, msgspec, msgspec.json, msgspec.structs, sys, typing
before = set(sys.modules)
import cluster_reconciler.{package}
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()

    # then it has loaded the package, and neither the shell, the effects nor the world
    assert f"cluster_reconciler.{package}" in loaded
    assert [
        name
        for name in loaded
        if name.split(".")[0] in WORLDLY
        or name.startswith(("cluster_reconciler.actors", "cluster_reconciler.executors"))
    ] == []
