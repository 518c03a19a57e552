"""Every place of a TOML or JSON text is found on its line; the values here are their own lines."""

import json
import tomllib
from collections.abc import Iterator

from cluster_reconciler.actors.cli.document import Document
from cluster_reconciler.actors.cli.faults import Path
from cluster_reconciler.actors.cli.read_json import read_json
from cluster_reconciler.actors.cli.toml_positions import toml_positions

# A ~~~ stands for three double quotes.
TOML = r"""# a comment with "quotes" and = signs
a = 2
b.c."d.e" = 3 # [not.a.table]
'f"g' = 4
"h\"\u0041" = 5
"strings" = ["# ]", ''']''', "\"]", ~~~
[x]
a = 0 \~~~
~~~]
list = [
  11,
  12, # ]
  { inner = 13, other = [13, 13] },
]
[table]
a = 16
  [table.sub] # a comment
  a = 18
[[entries]]
a = 20
[entries.sub]
a = 22
[[entries.deep]]
a = 24
[[entries.deep]]
a = 26
[[entries]]
a = 28
[entries.sub]
a = 30
date = 1979-05-27T07:32:00Z
inline = { a = 32, "b c" = 32, list = [
  33 ] }
""".replace("~~~", '"""')

JSON = """{"a": 1, "b\\u0041": [2,
2,
  {"c": 3}, "]", "}\\\\", [
4
]], "d"
:
7, "e": {}, "f": [], "g": -7e0}"""


def places(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every leaf with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))
    else:
        yield path, value


def test_every_number_of_a_toml_text_stands_on_the_line_that_it_names() -> None:
    lines = toml_positions(TOML).lines
    leaves = dict(places(tomllib.loads(TOML)))
    numbers = {path: value for path, value in leaves.items() if isinstance(value, int)}
    assert len(numbers) == 20
    assert {path: lines.get(path) for path in numbers} == numbers
    assert set(leaves) <= set(lines)


def test_every_place_of_a_json_text_has_its_line() -> None:
    document = Document("shape.json")
    read_json(document, JSON)
    leaves = dict(places(json.loads(JSON)))
    assert document.faults == []
    assert {path: document.lines.get(path) for path in leaves} == {
        ("a",): 1,
        ("bA", 0): 1,
        ("bA", 1): 2,
        ("bA", 2, "c"): 3,
        ("bA", 3): 3,
        ("bA", 4): 3,
        ("bA", 5, 0): 4,
        ("d",): 5,
        ("g",): 7,
    }


def test_a_text_that_breaks_off_keeps_the_lines_before() -> None:
    assert toml_positions("a = 1\n[b\nc = 2\n").lines == {("a",): 1, ("b",): 2}
