"""Reads a misspelt table as the one that is meant, and a single table as the list of groups that it
should be: the fault is told, and what stands inside is judged all the same.

Changes the tree and the places of a document before it is judged; judges no value itself.
"""

from pathlib import PurePath

from msgspec import inspect

from cluster_reconciler.actors.cli.document import Document
from cluster_reconciler.actors.cli.faults import Path, described, quoted
from cluster_reconciler.actors.cli.file_structs import GROUPS, GroupEntry
from cluster_reconciler.actors.cli.file_synonyms import key_meant

_Parts = tuple[str | int, ...]

_LISTS = {
    ".toml": ("[[groups]]", "write two brackets: [[groups]]"),
    ".json": ("[...]", "put it in brackets: [...]"),
}
_IN_YAML = ("a dash before the first key of each", "put a dash before the first key of each group")


def read_as_meant(document: Document, wanted: inspect.Type) -> None:
    """Rewrite the document's tree, and tell what was not written as it is meant."""
    meaning = _Meaning(document)
    tree = meaning.value(wanted, document.tree, ())
    if meaning.parts:
        document.tree = tree
        for places in (document.lines, document.columns, document.raw):
            meaning.move(places)  # type: ignore[arg-type]  # any value stays as it is


def list_words(document: Document) -> tuple[str, str]:
    """How the file's format writes a list of groups, and what to do to get one."""
    return _LISTS.get(PurePath(document.file).suffix.lower(), _IN_YAML)


class _Meaning:
    def __init__(self, document: Document) -> None:
        self.parts: dict[Path, _Parts] = {}
        """By a place in the file what its last part is meant to be."""
        self._document = document

    def value(self, wanted: inspect.Type, value: object, path: Path) -> object:
        match wanted:
            case inspect.Metadata():
                return self.value(wanted.type, value, path)
            case inspect.UnionType():
                return self.value(wanted.types[0], value, path)
            case inspect.StructType() if isinstance(value, dict):
                return self._struct(wanted, value, path)
            case inspect.VarTupleType() if isinstance(value, list):
                item = wanted.item_type
                return [self.value(item, each, (*path, i)) for i, each in enumerate(value)]
            case inspect.VarTupleType() if _is_one_of(wanted.item_type, value):
                return self._one(wanted.item_type, value, path)
            case inspect.DictType() if isinstance(value, dict):
                item = wanted.value_type
                return {key: self.value(item, each, (*path, key)) for key, each in value.items()}
            case _:
                return value

    def _struct(
        self, wanted: inspect.StructType, value: dict[str, object], path: Path
    ) -> dict[str, object]:
        types = {field.encode_name: field.type for field in wanted.fields}
        result: dict[str, object] = {}
        taken = dict(value)
        for key, inner in value.items():
            name, place = key, (*path, key)
            if key not in types:
                near = key_meant(key, wanted, taken)
                if near in types and near not in taken and _fits(types[near], inner):
                    self._document.fault(place, "a known key", quoted(key), near)
                    name, self.parts[place] = near, (near,)
                    taken[near] = inner
            known = types.get(name)
            result[name] = self.value(known, inner, place) if known is not None else inner
        return result

    def _one(self, item: inspect.Type, value: object, path: Path) -> list[object]:
        written, hint = list_words(self._document)
        found = described(value)
        self._document.fault(path, f"{GROUPS} ({written})", found, hint=hint)
        inner = self.value(item, value, path)
        self.parts[path] = (*self.parts.get(path, path[-1:]), 0)
        return [inner]

    def move(self, places: dict[Path, object]) -> None:
        """To each place that is known now under another name."""
        for path, found in list(places.items()):
            meant: Path = ()
            for length in range(1, len(path) + 1):
                meant += self.parts.get(path[:length], path[length - 1 : length])
            places.setdefault(meant, found)
            if meant and meant[-1] == 0:
                places.setdefault(meant[:-1], found)


def _fits(wanted: inspect.Type, value: object) -> bool:
    """Whether there is something inside to be judged, and it is of the kind that is meant."""
    match wanted:
        case inspect.Metadata():
            return _fits(wanted.type, value)
        case inspect.StructType():
            return isinstance(value, dict)
        case inspect.VarTupleType():
            return isinstance(value, list) or _is_one_of(wanted.item_type, value)
        case inspect.DictType():
            inner = isinstance(wanted.value_type, inspect.StructType)
            return isinstance(value, dict) and (
                not inner or all(isinstance(each, dict) for each in value.values())
            )
        case _:
            return False


def _is_one_of(wanted: inspect.Type, value: object) -> bool:
    """Whether it is a single group where the list of them belongs."""
    if not isinstance(wanted, inspect.StructType) or not isinstance(value, dict):
        return False
    return wanted.cls is GroupEntry and any(field.encode_name in value for field in wanted.fields)
