"""What to do about a value of another kind than the one that belongs there, in the words of the
file's format.

Judges nothing: `checking` finds the faults and asks here for their hints.
"""

import re
from pathlib import PurePath

from cluster_reconciler.actors.cli.document import Document
from cluster_reconciler.actors.cli.faults import Path, as_written, quoted
from cluster_reconciler.actors.cli.file_structs import GroupEntry

UNFILLED = "a template was not filled in; write the value itself"
_TEMPLATE = re.compile(r"\$\{\w+\}|\$\w+|\{\{.*\}\}|<%.*%>|<[A-Za-z_]+>")
UNSPACED = "write a space after the colon"
_UNSPACED = re.compile(r"[A-Za-z_][\w-]*:\S+")
_GROUP_KEYS = frozenset(GroupEntry.__struct_fields__)
_TABLES_OF_GROUP = ("shape", "boot", "swarm_join")
_OF_VARIABLES = {
    ".toml": 'write a table: { NAME = "value" }',
    ".json": 'write a table: {"NAME": "value"}',
}


def format_of(document: Document) -> str:
    """The suffix that stands for the file's format."""
    suffix = PurePath(document.file).suffix.lower()
    return suffix if suffix in _OF_VARIABLES else ".yaml"


def for_template(value: object) -> str | None:
    """Of a value that another tool should have put something in the place of."""
    is_template = isinstance(value, str) and _TEMPLATE.fullmatch(value.strip())
    return UNFILLED if is_template else None


def for_key_of_group(document: Document, key: str) -> str | None:
    """Of a key of a group that stands outside all of them; None: it is none."""
    if key not in _GROUP_KEYS:
        return None
    if format_of(document) == ".toml" and key in _TABLES_OF_GROUP:
        return f"write [groups.{key}], below the [[groups]] that it belongs to"
    return "it is a key of a group; move it there"


def for_unspaced(document: Document, path: Path, value: object) -> str | None:
    """Of a key and its value that YAML takes for one word, where they are all of a table."""
    is_unspaced = path in document.raw and isinstance(value, str)
    return UNSPACED if is_unspaced and _UNSPACED.fullmatch(str(value)) else None


def for_pairs(document: Document, value: object) -> str | None:
    """Of a list of NAME=value where a table belongs."""
    if isinstance(value, list) and value and all(isinstance(v, str) and "=" in v for v in value):
        return _OF_VARIABLES.get(format_of(document), "write NAME: value, a line for each")
    return None


def for_words(path: Path, value: object) -> str | None:
    """Of a list where one text belongs."""
    if isinstance(value, list) and path[-1] == "start_swactor_command":
        return "write the command as one text; further words may stand in args"
    return None


def for_one_table(document: Document, path: Path, value: object) -> str | None:
    """Of a table where a list of tables belongs."""
    line = document.line_of(path)
    if not isinstance(value, dict) or line is None:
        return None
    written = document.text.split("\n")[line - 1].lstrip()
    if format_of(document) == ".toml" and written.startswith("["):
        name = ".".join(part for part in path if isinstance(part, str))
        return f"write two brackets: [[{name}]]"
    return None if format_of(document) == ".yaml" else "put it in brackets: [...]"


def for_named_groups(document: Document, value: object) -> str | None:
    """Of groups that stand in a table under their names; None: they do not."""
    if not isinstance(value, dict) or not value or _GROUP_KEYS & value.keys():
        return None
    if not all(isinstance(each, dict) for each in value.values()):
        return None
    name = next(iter(value))
    if format_of(document) == ".toml":
        return f"write [[groups]] and group_id = {quoted(name)} for each"
    if format_of(document) == ".json":
        return f'put them in brackets, each with its name: [{{"group_id": {quoted(name)}, ...}}]'
    return f"for each group write {as_written(f'- group_id: {name}')} in place of its name"
