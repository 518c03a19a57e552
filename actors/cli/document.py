"""A text as a tree of plain values, with the place of everything in it.

Shared by the three formats; what the keys mean is judged later, by `checking` and `shape_file`.
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from cluster_reconciler.actors.cli.faults import Caution, Fault, Path, format_path
from cluster_reconciler.executors.secret_words import hidden_as_in, line_without_secrets

FAULTS_MAX = 1000
"""Faults that are told of one file; the others are counted."""

_SOURCE_MAX = 1000
"""Characters of a line that a fault keeps; of a longer one those around its place."""
_SOURCE_STEP = 200

_without_secrets = lru_cache(maxsize=64)(line_without_secrets)
"""Many faults may stand on one line."""

UNKNOWN = object()
"""Stands in the tree where the text has a fault of syntax: something is there, nobody knows what.
It is no further fault, whatever is expected there."""


@dataclass
class Document:
    """What one file holds: filled by its reader, then only read."""

    file: str
    text: str = ""
    tree: object = None
    lines: dict[Path, int] = field(default_factory=dict)
    columns: dict[Path, int] = field(default_factory=dict)
    raw: dict[Path, str] = field(default_factory=dict)
    """YAML only: unquoted scalars as they were written (`1.10` is read as the number 1.1)."""
    faults: list[Fault] = field(default_factory=list)
    readable: bool = True
    """False: there is no tree, `faults` says why."""
    untold: int = 0
    """How many faults there are beyond `FAULTS_MAX`."""
    complete: bool = True
    """False: keys may stand where the text has a fault of syntax; what seems to be missing may be
    there."""

    def line_of(self, path: Path) -> int | None:
        """The line of the place, or of the nearest place around it that has one."""
        return self.lines.get(self._placed(path))

    def fault(
        self,
        path: Path,
        expected: str,
        found: str,
        nearest: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Note a fault at a place."""
        placed = self._placed(path)
        place = self.lines.get(placed), self.columns.get(placed)
        self._note(expected, found, format_path(path), place, nearest, hint)

    def caution(self, path: Path, text: str) -> Caution:
        """Words on what is allowed there and probably not meant."""
        placed = self._placed(path)
        place = self.lines.get(placed), self.columns.get(placed)
        return Caution(self.file, text, format_path(path), *place)

    def broken(
        self,
        expected: str,
        found: str,
        line: int | None = None,
        hint: str | None = None,
        column: int | None = None,
        path: Path = (),
    ) -> None:
        """Note a fault of syntax that leaves the rest to be read."""
        self._note(expected, found, format_path(path), (line, column), None, hint)

    def unreadable(
        self,
        expected: str,
        found: str,
        line: int | None = None,
        hint: str | None = None,
        nearest: str | None = None,
    ) -> None:
        """Note the fault that keeps the whole text from being read."""
        self.readable = False
        self._note(expected, found, "", (line, None), nearest, hint)

    def duplicate(self, path: Path, place: tuple[int, int], first_line: int) -> None:
        """Note a key that stands in its table for the second time."""
        found = f"it again, first on line {first_line}"
        hint = "remove one of the two"
        self._note("each key only once", found, format_path(path), place, None, hint)

    def _placed(self, path: Path) -> Path:
        """The nearest place around this one that has a line."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return path[:length]
        return path

    def _note(
        self,
        expected: str,
        found: str,
        path: str,
        place: tuple[int | None, int | None],
        nearest: str | None,
        hint: str | None,
    ) -> None:
        if len(self.faults) >= FAULTS_MAX:
            self.untold += 1
            return
        line, column = place
        written = self._source(line, column or 1) if line is not None else ""
        before = self._source_lines[line - 2] if line is not None and line > 1 and written else ""
        source = _without_secrets(written, before)
        found = hidden_as_in(found, written, source)
        self.faults.append(
            Fault(self.file, expected, found, path, line, nearest, hint, column, source or None)
        )

    @cached_property
    def _source_lines(self) -> list[str]:
        return self.text.split("\n")

    def _source(self, line: int, column: int) -> str:
        if line > len(self._source_lines):
            return ""
        written = self._source_lines[line - 1]
        if len(written) > _SOURCE_MAX:
            # In steps, so that the faults of one place share what is hidden there.
            start = max(column // _SOURCE_STEP - 1, 0) * _SOURCE_STEP
            written = written[start : start + _SOURCE_MAX]
        return written.strip()
