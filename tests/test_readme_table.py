"""The README shows the table, the lifecycle and the keys of a shape file that the code has."""

import re
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli.file_structs import ShapeFile
from tests.lifecycle_documents import decision_table, filled, lifecycle


def test_the_readme_holds_the_documents_that_the_code_draws(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")

    assert text == filled(text), "run: python -m tests.lifecycle_documents --write"


def test_the_documents_are_put_between_their_markers_and_nothing_else_is_touched() -> None:
    table = "<!-- decision table -->\nold\n<!-- /decision table -->"
    text = f"a\n{table}\nb\n<!-- lifecycle --><!-- /lifecycle -->\nc\n"

    assert filled(text) == (
        f"a\n<!-- decision table -->\n{decision_table()}\n<!-- /decision table -->\nb\n"
        f"<!-- lifecycle -->\n{lifecycle()}\n<!-- /lifecycle -->\nc\n"
    )


@pytest.mark.parametrize("text", ["", "<!-- lifecycle --><!-- /lifecycle -->"])
def test_a_readme_without_the_markers_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="must hold `<!-- decision table -->`"):
        filled(text)


def keys_of(kind: object) -> set[str]:
    """Every key that may stand in a shape file, at whatever depth."""
    match kind:
        case msgspec.inspect.StructType(fields=fields):
            return {key for f in fields for key in (f.encode_name, *keys_of(f.type))}
        case (
            msgspec.inspect.VarTupleType(item_type=part) | msgspec.inspect.DictType(value_type=part)
        ):
            return keys_of(part)
        case msgspec.inspect.Metadata(type=part):
            return keys_of(part)
        case msgspec.inspect.UnionType(types=parts):
            return {key for part in parts for key in keys_of(part)}
        case _:
            return set()


def test_the_readme_names_every_key_of_a_shape_file(repository: Path) -> None:
    text = (repository / "README.md").read_text(encoding="utf-8")
    table = text.partition("| key | meaning |\n")[2].partition("\n\n")[0]

    keys = keys_of(msgspec.inspect.type_info(ShapeFile))
    assert len(keys) > 40
    assert sorted(keys - {*re.findall(r"\w+", table)}) == []
