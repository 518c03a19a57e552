"""A text as a tree of plain values, with the line of every place in it.

Shared by the three formats; what the keys mean is judged later, by `checking` and `shape_file`.
"""

from dataclasses import dataclass, field

from cluster_reconciler.actors.cli.faults import Fault, Path, format_path


@dataclass
class Document:
    """What one file holds: filled by its reader, then only read."""

    file: str
    tree: object = None
    lines: dict[Path, int] = field(default_factory=dict)
    raw: dict[Path, str] = field(default_factory=dict)
    """YAML only: unquoted scalars as they were written (`1.10` is read as the number 1.1)."""
    faults: list[Fault] = field(default_factory=list)
    readable: bool = True
    """False: there is no tree, `faults` says why."""

    def line_of(self, path: Path) -> int | None:
        """The line of the place, or of the nearest place around it that has one."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def fault(
        self,
        path: Path,
        expected: str,
        found: str,
        nearest: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Note a fault at a place."""
        line = self.line_of(path)
        self.faults.append(
            Fault(self.file, expected, found, format_path(path), line, nearest, hint)
        )

    def unreadable(
        self, expected: str, found: str, line: int | None = None, hint: str | None = None
    ) -> None:
        """Note the fault that keeps the whole text from being read."""
        self.readable = False
        self.faults.append(Fault(self.file, expected, found, "", line, None, hint))

    def duplicate(self, path: Path, line: int, first_line: int) -> None:
        """Note a key that stands in its table for the second time."""
        self.faults.append(
            Fault(
                self.file,
                "each key only once",
                f"it again, first on line {first_line}",
                format_path(path),
                line,
                None,
                "remove one of the two",
            )
        )
