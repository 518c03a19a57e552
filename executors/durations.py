"""What a caller may write for a duration: a timedelta, or a number of seconds.

Reads one value and says what is wrong with it; it waits for nothing and knows no clock.
"""

from datetime import timedelta


def duration(
    name: str,
    value: timedelta | float,
    *,
    least: timedelta | None = timedelta(0),
    above: timedelta | None = None,
) -> timedelta:
    """The value as a timedelta.  `least`, `above`: what it must be at least, and longer than;
    with `least=None` it may be negative, as the rest of a time that is over is.

    Raises:
        ValueError: it is neither, or no finite number, or too short; `name` says of what.
    """
    span = value if isinstance(value, timedelta) else _seconds(value)
    if above is not None:
        limit, too_short = f" above {above.total_seconds():g}", span is not None and span <= above
    elif least is not None:
        limit, too_short = (
            f", at least {least.total_seconds():g}",
            (span is not None and span < least),
        )
    else:
        limit, too_short = "", False
    if span is None or too_short:
        raise ValueError(
            f"{name}: expected a timedelta or a number of seconds{limit}, found {value!r}"
        )
    return span


def _seconds(value: object) -> timedelta | None:
    """None: not a number of seconds that a timedelta can hold.  True is an int to Python alone."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):  # Beyond every timedelta; not a number.
        return None
