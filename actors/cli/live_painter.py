"""The texts that draw the live view at the end of a terminal's output, and lines above it.

Pure: the text is made here and written elsewhere.  Nothing is ever set on the terminal that would
have to be unset (the cursor stays visible, no mode is changed), so that it is left as it was
however the process ends.  The cursor rests at the start of the line below the view.
"""

from collections.abc import Sequence

from msgspec import Struct

_UP = "\x1b[{}A"
_TO_END_OF_LINE = "\x1b[K"
_TO_END_OF_SCREEN = "\x1b[J"


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
        text = self._to_top(columns)
        if same_place:
            # Only what differs is written: nothing else can flicker.
            for line, old in zip(new, self._shown, strict=True):
                text += "\n" if line == old else f"{line.text}{_TO_END_OF_LINE}\n"
            text += _TO_END_OF_SCREEN  # what was typed meanwhile
        else:
            text += _TO_END_OF_SCREEN + above + "".join(f"{line.text}\n" for line in new)
        self._shown, self._columns = new, columns
        return text

    def erase(self, columns: int, above: str = "") -> str:
        """The text after which the view is gone, and `above` stands in its place."""
        text = self._to_top(columns) + _TO_END_OF_SCREEN if self._shown else ""
        self._shown = ()
        return text + above

    def forget(self) -> None:
        """Somebody else has written to the terminal: what is painted next begins where the cursor
        is."""
        self._shown = ()

    def _to_top(self, columns: int) -> str:
        # A terminal that became narrower has broken the lines that are too long for it now.
        rows = sum(max(1, -(-line.cells // max(1, columns))) for line in self._shown)
        return "\r" + _UP.format(rows) if rows else "\r"
