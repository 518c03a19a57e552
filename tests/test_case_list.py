"""Every lifecycle case has a test that names it, and tests/README.md lists them as they are."""

from tests.case_list import README, between_marks, case_table, shown_cases


def test_every_lifecycle_case_has_a_test() -> None:
    shown = shown_cases()
    assert [f"L{n}" for n in range(1, 43) if f"L{n}" not in shown] == []


def test_the_list_is_up_to_date() -> None:
    """If it is not: `python -m tests.case_list --write`."""
    assert between_marks(README.read_text(encoding="utf-8")) == case_table()
