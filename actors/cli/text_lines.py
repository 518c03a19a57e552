"""From a position in a text to its line and column."""

from bisect import bisect_right


class TextLines:
    """Finds the line of a position in logarithmic time."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def line_at(self, position: int) -> int:
        """The line of the position, from 1 on."""
        return bisect_right(self._starts, position)

    def place_at(self, position: int) -> tuple[int, int]:
        """The line of the position and its column there, both from 1 on."""
        line = self.line_at(position)
        return line, position - self._starts[line - 1] + 1
