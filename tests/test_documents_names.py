"""What the documents call by name is there: names of the code, and every field of `--json`.

Not whether the sentence around a name is true: `test_documents.py` runs what can be run.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.bench_report import BenchReport
from cluster_reconciler.actors.cli.replay_document import ReplayReport
from cluster_reconciler.actors.cli.reports import EventLine, PlanReport, UpReport, ValidateReport
from cluster_reconciler.actors.cli.shape_news import ShapeLine
from cluster_reconciler.actors.cli.trace_document import HeaderEntry, TraceSummary
from cluster_reconciler.actors.cli.trace_reading import Entry
from cluster_reconciler.actors.cli.usage import UsageFault

CODE = ("actors", "decider", "executors", "messages")
DOCUMENTED = (
    ValidateReport,
    PlanReport,
    UpReport,
    EventLine,
    ShapeLine,
    HeaderEntry,
    Entry,
    TraceSummary,
    ReplayReport,
    BenchReport,
    UsageFault,
)
"""What a line or a document of `--json` can be."""

NAMED = re.compile(r"`(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?`")
NAMED_WITH_FILE = re.compile(
    r"`(?P<name>[A-Za-z_][\w.]*)`(?: in |,? \()`(?P<file>(?:\w+/)+\w+\.py)`", re.DOTALL
)
ROW = re.compile(r"^\| `(?P<struct>\w+)` \| (?P<fields>.+) \|$", re.MULTILINE)
ASIDE = re.compile(r"\([^()]*(?:\([^()]*\)[^()]*)*\)|: see .*$")


def names_in(path: Path) -> Iterator[str]:
    """Every name that this file defines, sets, or takes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name):
                yield name
            case _:
                pass


def test_every_name_of_the_code_in_the_architecture_exists(repository: Path) -> None:
    files = [path for folder in CODE for path in (repository / folder).rglob("*.py")]
    known = {name for path in files for name in names_in(path)} | {
        *CODE,
        "cluster_reconciler",
        "datetime",
    }
    text = (repository / "docs/architecture.md").read_text(encoding="utf-8")

    named = {found["name"] for found in NAMED.finditer(text)}
    named -= {name for name in named if name.endswith((".py", ".md"))}
    assert len(named) > 40
    assert sorted(n for n in named if not {*n.split(".")} <= known) == []


def test_what_the_architecture_places_in_a_file_is_defined_there(repository: Path) -> None:
    text = (repository / "docs/architecture.md").read_text(encoding="utf-8")

    placed = [(found["name"], found["file"]) for found in NAMED_WITH_FILE.finditer(text)]
    assert len(placed) >= 4
    assert [
        (name, file)
        for name, file in placed
        if not {*name.split(".")} <= {*names_in(repository / file)}
    ] == []


def reached(types: tuple[type[msgspec.Struct], ...]) -> dict[str, tuple[str, ...]]:
    """The Structs that a document of these types can hold, each with its fields."""
    found: dict[str, tuple[str, ...]] = {}

    def look(part: object) -> None:
        match part:
            case msgspec.inspect.StructType(cls=cls, fields=fields):
                if cls.__name__ not in found:
                    found[cls.__name__] = cls.__struct_fields__
                    for field in fields:
                        look(field.type)
            case msgspec.inspect.VarTupleType(item_type=item):
                look(item)
            case msgspec.inspect.DictType(value_type=value):
                look(value)
            case msgspec.inspect.UnionType(types=members):
                for member in members:
                    look(member)
            case _:
                pass

    for kind in types:
        look(msgspec.inspect.type_info(kind))
    return found


def test_every_field_of_json_output_is_documented_and_no_other(repository: Path) -> None:
    text = (repository / "docs/operating.md").read_text(encoding="utf-8")
    section = text.partition("## What `--json` prints\n")[2].partition("\n## ")[0]

    told = {
        found["struct"]: tuple(re.findall(r"`(\w+)`", ASIDE.sub("", found["fields"])))
        for found in ROW.finditer(section)
    }
    assert told == reached(DOCUMENTED)


@pytest.mark.parametrize("kind", DOCUMENTED)
def test_what_a_line_of_json_says_of_its_type_is_documented(
    kind: type[msgspec.Struct], repository: Path
) -> None:
    text = (repository / "docs/operating.md").read_text(encoding="utf-8")

    tag = kind.__struct_config__.tag
    assert tag is None or f"`{tag}`" in text
