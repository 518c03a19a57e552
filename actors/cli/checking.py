"""Judges a tree against the type of a Struct and finds every fault at once.

msgspec's own conversion stops at the first fault and knows no lines; this walk goes on, and leaves
to msgspec a tree that it will accept.  What no type can say is judged in `shape_file`.
"""

import math
from pathlib import PurePath

from msgspec import inspect

from cluster_reconciler.actors.cli.document import UNKNOWN, Document
from cluster_reconciler.actors.cli.durations import EXPECTED as A_DURATION
from cluster_reconciler.actors.cli.durations import parse_duration
from cluster_reconciler.actors.cli.faults import (
    CURLY,
    STRAIGHT,
    Path,
    WrittenFloat,
    described,
    format_path,
    quoted,
)
from cluster_reconciler.actors.cli.file_hints import (
    for_key_of_group,
    for_named_groups,
    for_one_table,
    for_pairs,
    for_template,
    for_unspaced,
    for_words,
)
from cluster_reconciler.actors.cli.file_meant import list_words
from cluster_reconciler.actors.cli.file_structs import GROUPS
from cluster_reconciler.actors.cli.file_synonyms import key_meant

_BROKEN = object()
"""Stands for a value with a fault, in a tree that will not be converted."""


def check(document: Document, wanted: inspect.Type, value: object, path: Path = ()) -> object:
    """The value with its durations read; every fault goes into the document."""
    return _Check(document).value(wanted, value, path, None)


class _Check:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._groups_words = list_words(document)
        self._around: list[tuple[Path, inspect.StructType]] = []
        """The tables around the place that is being judged."""
        self._misplaced: set[Path] = set()
        """The places of keys that stand in a table within the one in which they belong."""

    def value(
        self, wanted: inspect.Type, value: object, path: Path, expected: str | None
    ) -> object:
        """`expected`: how the type is called, where the file's Structs give it a name."""
        if value is UNKNOWN:
            return _BROKEN
        match wanted:
            case inspect.Metadata():
                named = (wanted.extra or {}).get("expected", expected)
                return self.value(wanted.type, value, path, named)
            case inspect.UnionType():
                return None if value is None else self.value(wanted.types[0], value, path, expected)
            case inspect.StructType():
                return self._struct(wanted, value, path, expected)
            case inspect.DictType():
                return self._table(wanted, value, path, expected)
            case inspect.VarTupleType():
                return self._list(wanted, value, path, expected)
            case inspect.StrType():
                return self._text(wanted, value, path, expected)
            case inspect.BoolType():
                return self._boolean(value, path)
            case inspect.IntType() | inspect.FloatType():
                return self._number(wanted, value, path)
            case inspect.TimeDeltaType():
                return self._duration(value, path)
            case _:
                raise AssertionError(f"the file's Structs use a type with no rule: {wanted}")

    def _struct(
        self, wanted: inspect.StructType, value: object, path: Path, expected: str | None
    ) -> object:
        if not isinstance(value, dict):
            keys = ", ".join(field.encode_name for field in wanted.fields)
            table = f"a table with the keys {keys}" if path else "a table"
            of_file = isinstance(value, list) and not path
            hint: str | None = "the groups stand in a table with the keys run_id and groups"
            hint = hint if of_file else for_unspaced(self._document, path, value)
            return self._fault(path, expected or table, value, hint)
        self._around.append((path, wanted))
        unknown = self._unknown_keys(wanted, value, path)
        result: dict[str, object] = {}
        for field in wanted.fields:
            if field.encode_name in value:
                place = (*path, field.encode_name)
                inner = value[field.encode_name]
                result[field.encode_name] = self.value(field.type, inner, place, None)
        self._around.pop()
        lacking = {field.encode_name: field for field in wanted.fields if field.required}
        for name, field in lacking.items() if self._document.complete else ():
            place = (*path, name)
            # A key that is misspelt or misplaced is one fault, not two.
            if name not in value and name not in unknown.values() and place not in self._misplaced:
                expected = self._called(_named(field.type))
                self._document.fault(place, expected, "nothing", hint="add this key")
        return result

    def _unknown_keys(
        self, wanted: inspect.StructType, value: dict[str, object], path: Path
    ) -> dict[str, str | None]:
        """What is meant by each key that is not known here, as far as that can be told."""
        known = [field.encode_name for field in wanted.fields]
        unknown = {key: key_meant(key, wanted, value) for key in value if key not in known}
        of_these = f"one of the keys {', '.join(known)}"
        for key, near in unknown.items():
            place, found = (*path, key), quoted(key)
            outer = self._outer_of(key)
            if outer is not None:
                self._misplaced.add((*outer, key))
                self._document.fault(place, of_these, found, hint=self._where(path, outer, key))
            elif not path and (hint := for_key_of_group(self._document, key)) is not None:
                self._document.fault(place, of_these, found, hint=hint)
            else:
                expected = "a known key" if near is not None else of_these
                self._document.fault(place, expected, found, near)
        return {key: near for key, near in unknown.items() if self._outer_of(key) is None}

    def _outer_of(self, key: str) -> Path | None:
        """The table around this one in which such a key belongs, first where it must stand: a group
        has a run_id too, but need not."""
        found = [
            (not field.required, number, path)
            for number, (path, wanted) in enumerate(reversed(self._around[:-1]))
            for field in wanted.fields
            if field.encode_name == key
        ]
        return min(found)[2] if found else None

    def _where(self, path: Path, outer: Path, key: str) -> str:
        """Where a key belongs that stands in a table within its own."""
        of_outer = f"it is a key of {format_path(outer) or 'the file as a whole'}"
        if line := self._document.lines.get((*outer, key)):
            return f"{of_outer}, which has it already on line {line}; remove one of the two"
        if PurePath(self._document.file).suffix.lower() == ".toml":
            above = _header(path) if outer else "the first [table]"
            return f"a key below {_header(path)} belongs to that table; move it up, above {above}"
        return f"{of_outer}; move it there"

    def _called(self, expected: str) -> str:
        """In the words of the file's format."""
        return f"{expected} ({self._groups_words[0]})" if expected == GROUPS else expected

    def _table(
        self, wanted: inspect.DictType, value: object, path: Path, expected: str | None
    ) -> object:
        if not isinstance(value, dict):
            hint = for_pairs(self._document, value)
            return self._fault(path, expected or "a table", value, hint)
        result = {}
        for key, item in value.items():
            if not key or not _is_clean(key):
                self._document.fault((*path, key), "a key of printable characters", quoted(key))
            result[key] = self.value(wanted.value_type, item, (*path, key), None)
        return result

    def _list(
        self, wanted: inspect.VarTupleType, value: object, path: Path, expected: str | None
    ) -> object:
        if not isinstance(value, list):
            hint = "put it in brackets: [...]" if isinstance(value, str) and value else None
            if expected == GROUPS and value is not None:
                hint = for_named_groups(self._document, value) or self._groups_words[1]
            elif hint is None and isinstance(wanted.item_type, inspect.StructType):
                hint = for_one_table(self._document, path, value)
            return self._fault(path, self._called(expected or "a list"), value, hint)
        return [self.value(wanted.item_type, v, (*path, i), None) for i, v in enumerate(value)]

    def _text(
        self, wanted: inspect.StrType, value: object, path: Path, expected: str | None
    ) -> object:
        expected = expected or "a string"
        if not isinstance(value, str):
            written = self._document.raw.get(path, _written(value))
            quote_it = f'quote it: "{written}"' if written is not None else None
            hint = quote_it or for_words(path, value)
            return self._fault(path, expected, value, hint)
        if wanted.min_length is not None and not value:
            return self._fault(path, expected, value)
        if wanted.max_length is not None and len(value) > wanted.max_length:
            self._document.fault(
                path, f"{expected} of at most {wanted.max_length} characters", f"{len(value)}"
            )
            return _BROKEN
        if "\0" in value or not _is_unicode(value):
            return self._fault(path, f"{expected} without NUL and lone surrogates", value)
        return value

    def _boolean(self, value: object, path: Path) -> object:
        if isinstance(value, bool):
            return value
        meant = {"yes": "true", "on": "true", "no": "false", "off": "false"}
        word = meant.get(value.lower()) if isinstance(value, str) else None
        hint = f"write {word}" if word else None
        if isinstance(value, str) and value.lower() in {"true", "false"}:
            hint = "write it without quotes" if value.islower() else f"write {value.lower()}"
        return self._fault(path, "true or false", value, hint)

    def _number(
        self, wanted: inspect.IntType | inspect.FloatType, value: object, path: Path
    ) -> object:
        whole = isinstance(wanted, inspect.IntType)
        expected = f"{'an integer' if whole else 'a number'}{_bounds(wanted)}"
        kinds = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return self._fault(path, expected, value, self._number_hint(value, path, whole))
        assert isinstance(value, int | float), f"{value!r} is no number"
        if isinstance(value, float) and not math.isfinite(value):
            return self._fault(path, expected, value)
        too_low = wanted.ge is not None and value < wanted.ge
        too_high = wanted.le is not None and value > wanted.le
        if too_low or too_high:
            return self._fault(path, expected, value)
        return float(value) if isinstance(value, WrittenFloat) else value

    def _number_hint(self, value: object, path: Path, whole: bool) -> str | None:
        """What to do about a string that looks like a number."""
        if not isinstance(value, str):
            return None
        try:
            number = int(value) if whole else float(value)
        except ValueError:
            return None
        if path in self._document.raw:
            # It was not quoted: other tools read 012 as ten, or as twelve.
            return f"write {number}"
        return "write it without quotes"

    def _duration(self, value: object, path: Path) -> object:
        try:
            return parse_duration(value)
        except ValueError as error:
            reason = str(error)
            hint = None if reason in {"not a duration", "not a finite number"} else reason
            return self._fault(path, A_DURATION, value, hint)

    def _fault(self, path: Path, expected: str, value: object, hint: str | None = None) -> object:
        if value is None and hint is None:
            hint = "give it a value, or leave an optional key out"
        if isinstance(value, str) and value[:1] in CURLY:
            hint = STRAIGHT
        hint = for_template(value) or hint
        self._document.fault(path, expected, described(value), hint=hint)
        return _BROKEN


def _header(path: Path) -> str:
    """Of a table in TOML."""
    name = ".".join(str(part) for part in path if isinstance(part, str))
    return f"[[{name}]]" if isinstance(path[-1], int) else f"[{name}]"


def _named(wanted: inspect.Type) -> str:
    """How a required value is called when it is missing."""
    match wanted:
        case inspect.Metadata() if wanted.extra and "expected" in wanted.extra:
            return str(wanted.extra["expected"])
        case inspect.Metadata():
            return _named(wanted.type)
        case inspect.IntType():
            return f"an integer{_bounds(wanted)}"
        case _:
            return "a value"


def _bounds(wanted: inspect.IntType | inspect.FloatType) -> str:
    if wanted.ge is not None and wanted.le is not None:
        largest = "2^63 - 1" if wanted.le == 2**63 - 1 else f"{wanted.le}"
        return f" from {wanted.ge} to {largest}"
    return f" of at least {wanted.ge}" if wanted.ge is not None else ""


def _written(value: object) -> str | None:
    """How a scalar looks in the file, as far as can be told from its value; None: it is none."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, WrittenFloat):
        return value.written if len(value.written) < 20 else None
    return repr(value) if isinstance(value, int | float) and abs(value) < 1e15 else None


def _is_clean(text: str) -> bool:
    return text.isprintable() and _is_unicode(text)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
