"""What a command has to wait for before it begins: nothing that only another verb needs."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

OF_THE_RUNTIME = (
    "asyncio", "cluster_reconciler.actors.driver", "cluster_reconciler.actors.driver_actor",
    "cluster_reconciler.actors.replay", "cluster_reconciler.actors.runtime",
    "cluster_reconciler.executors.executor", "loguru", "multiprocessing", "pykka",
)  # fmt: skip
OF_READING_SHAPES = ("cluster_reconciler.actors.cli.shape_file", "tomllib")
OF_PAINTING = ("rich.console", "rich.table")
LATE = (*OF_THE_RUNTIME, *OF_READING_SHAPES, *OF_PAINTING, "importlib.metadata", "shtab", "yaml")

SHAPE = """\
run_id = 1
[[groups]]
group_id = "n"
role = "worker"
count = 1
provider = "process"
"""
LAZY_PACKAGES = ("actors", "executors", "executors/providers/process")


def _imported(folder: Path, *words: str) -> list[str]:
    """Which of `LATE` the command has imported when it ends."""
    told = f"""
import sys
from cluster_reconciler.actors.cli.main import main
code = main({words!r})
sys.stderr.write(" ".join(name for name in {LATE!r} if name in sys.modules))
sys.exit(code)
"""
    done = subprocess.run(
        [sys.executable, "-c", told],
        cwd=folder, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr.split()


def test_help_waits_for_no_verb(tmp_path: Path) -> None:
    assert [_imported(tmp_path, "--help"), _imported(tmp_path, "up", "--help")] == [[], []]


def test_a_command_that_only_reads_a_shape_waits_for_neither_runtime_nor_painting(
    tmp_path: Path,
) -> None:
    # given a valid shape in two formats
    (tmp_path / "shape.toml").write_text(SHAPE, encoding="utf-8")
    (tmp_path / "shape.yaml").write_text(
        "run_id: 1\ngroups: [{group_id: n, role: worker, count: 1, provider: process}]\n",
        encoding="utf-8",
    )

    # then only what reads it is there, and of the formats only the one that it has
    assert {
        name: _imported(tmp_path, "validate", name) for name in ("shape.toml", "shape.yaml")
    } == {"shape.toml": [*OF_READING_SHAPES], "shape.yaml": [*OF_READING_SHAPES, "yaml"]}


@pytest.mark.parametrize("folder", LAZY_PACKAGES)
def test_a_lazy_package_gives_every_name_that_it_promises_from_where_the_type_checker_sees_it(
    folder: str, repository: Path
) -> None:
    # given what the package imports for the type checker alone
    tree = ast.parse((repository / folder / "__init__.py").read_text(encoding="utf-8"))
    told = {
        alias.name: node.module
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    package = import_module(".".join(("cluster_reconciler", *folder.split("/"))))

    # then it gives these, all that it promises, and nothing else
    assert {name: getattr(package, name) for name in package.__all__} == {
        name: getattr(import_module(module), name) for name, module in told.items() if module
    }
    assert set(package.__all__) - set(dir(package)) == set()
    assert sorted(package.__all__) == package.__all__
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        _ = package.absent
