"""Durations as people write them: "500ms", "10s", "2m", "1h30m", or a number of seconds."""

import math
import re
from datetime import timedelta

EXPECTED = 'a duration such as "500ms", "10s", "2m" or "1h", or a number of seconds'

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern}\s*)+", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: object) -> timedelta:
    """Raises ValueError, with what is wrong, for anything but a duration of at least 0."""
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value.strip()):
            raise ValueError("a unit is missing" if _is_number(value) else "not a duration")
        return _of(sum(float(n) * _SECONDS[unit] for n, unit in _PART.findall(value)))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a duration")
    return _of(value)


def format_duration(value: timedelta) -> str:
    """The shortest of the forms that `parse_duration` reads, rounded to what people notice."""
    seconds = value.total_seconds()
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def _of(seconds: float) -> timedelta:
    try:
        finite = math.isfinite(seconds)
    except OverflowError:
        raise ValueError("it is too long") from None
    if not finite:
        raise ValueError("not a finite number")
    if seconds < 0:
        raise ValueError("it is negative")
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("it is too long") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
