"""The exit codes (design §6).  They never contradict what was printed."""

DONE = 0
LEFT_OR_DIED = 1
"""Leases are left, or the driver died, or it is not known."""
INVALID = 2
"""Wrong usage, an invalid shape, or nothing could be started."""
HAS_CHANGES = 3
"""A plan with changes, with --exit-code."""
NOT_CONVERGED = 4
READER_GONE = 141
"""stdout was closed on us: what a shell reports for SIGPIPE."""


def after_signal(number: int) -> int:
    """130, 143, 129: what shells report for a program that a signal ended."""
    return 128 + number
