"""The README shows the table and the lifecycle that the code has."""

from pathlib import Path

import pytest

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
