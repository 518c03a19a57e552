"""The list "case -> test" of tests/README.md, drawn from the tests' names.

A test that shows case L7 is named `test_l07_...` (several: `test_l35_and_l37_...`).

    python -m tests.case_list            # print it
    python -m tests.case_list --write    # put it into tests/README.md
"""

import ast
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
README = FOLDER / "README.md"
MARKS = "<!-- cases -->", "<!-- /cases -->"


def shown_cases() -> dict[str, list[str]]:
    """For each case the tests that name it, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(statement, ast.FunctionDef):
                for case in _cases(statement.name):
                    found.setdefault(case, []).append(f"{path.name}::{statement.name}")
    return dict(sorted(found.items(), key=lambda item: (item[0][0] != "L", int(item[0][1:]))))


def _cases(name: str) -> list[str]:
    words = name.removeprefix("test_").split("_")
    cases = []
    for word in words:
        if re.fullmatch(r"[lf]\d+", word):
            cases.append(f"{word[0].upper()}{int(word[1:])}")
        elif word != "and":
            break
    return cases


def case_table() -> str:
    """Markdown, one row a case."""
    rows = [
        f"| {case} | {'<br>'.join(f'`{test}`' for test in tests)} |"
        for case, tests in shown_cases().items()
    ]
    return "\n".join(["| case | shown by |", "|---|---|", *rows])


def between_marks(text: str) -> str:
    """What stands between the marks."""
    return text.partition(MARKS[0])[2].partition(MARKS[1])[0].strip()


def write() -> None:
    """Put the list into the README."""
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(MARKS[0])
    tail = rest.partition(MARKS[1])[2]
    written = f"{head}{MARKS[0]}\n{case_table()}\n{MARKS[1]}{tail}"
    README.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        print(case_table())
