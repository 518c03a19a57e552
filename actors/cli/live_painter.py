"""The texts that draw the live view at the end of a terminal's output, and lines above it.

Pure: the text is made here and written elsewhere.  Nothing is ever set on the terminal that would
have to be unset (the cursor stays visible, no mode is changed), so that it is left as it was
however the process ends.  The cursor rests at the start of the line below the view.
"""

import re
from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len

_UP = "\x1b[{}A"
_TO_END_OF_LINE = "\x1b[K"
_TO_END_OF_SCREEN = "\x1b[J"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class PaintedLine(Struct, frozen=True, gc=False):
    """A line as it is written: with its colours, and the cells that it takes."""

    text: str
    cells: int


class Painter:
    """Knows what stands on the terminal.  Not safe for threads."""

    def __init__(self) -> None:
        self._shown: tuple[PaintedLine, ...] = ()
        self._columns = 0

    def paint(self, lines: Sequence[PaintedLine], columns: int, above: str = "") -> str:
        """The text that turns what stands there into `lines`, after `above` (whole lines), on a
        terminal that now has so many columns.  Empty: nothing is to be written."""
        new = tuple(lines)
        same_place = columns == self._columns and len(new) == len(self._shown) and not above
        if same_place and new == self._shown:
            return ""
        if not new:
            return self.erase(columns, above)
        text = self._to_top(columns)
        # What stands there is written over, and only what differs: nothing can flicker.
        if same_place:
            for line, old in zip(new, self._shown, strict=True):
                clear = _TO_END_OF_LINE if line.cells < old.cells else ""
                text += "\n" if line == old else f"{clear}{line.text}\n"
        else:
            text += "".join(_over(line, columns) for line in above.split("\n")[:-1])
            text += "".join(f"{_TO_END_OF_LINE}{line.text}\n" for line in new)
        self._shown, self._columns = new, columns
        return text + _TO_END_OF_SCREEN  # Also what was typed meanwhile.

    def erase(self, columns: int, above: str = "") -> str:
        """The text after which the view is gone, and `above` stands in its place."""
        rows = self._rows(columns)
        text = ""
        if rows:
            # Line by line: told to clear from its first line on, tmux keeps what it clears in its
            # history.
            text = "\r" + _TO_END_OF_LINE + self._to_top(columns)
            text += f"{_TO_END_OF_LINE}\n" * rows + _UP.format(rows)
        self._shown = ()
        return text + above

    def forget(self) -> None:
        """Somebody else has written to the terminal: what is painted next begins where the cursor
        is."""
        self._shown = ()

    def _to_top(self, columns: int) -> str:
        rows = self._rows(columns)
        return "\r" + _UP.format(rows) if rows else "\r"

    def _rows(self, columns: int) -> int:
        # A terminal that became narrower has broken the lines that are too long for it now, and
        # counts what was cleared behind a text as part of it: hence it is cleared before.  (One
        # that tells of its size late, as tmux does by a quarter of a second, may keep some rows.)
        return sum(max(1, -(-line.cells // max(1, columns))) for line in self._shown)


def _over(line: str, columns: int) -> str:
    """The line, and nothing of what stood in the rows that it takes."""
    # After a row that is full some terminals would clear its last character.
    rest = cell_len(_COLOURS.sub("", line)) % max(1, columns)
    return f"{_TO_END_OF_LINE}{line}{_TO_END_OF_LINE if rest else ''}\n"
