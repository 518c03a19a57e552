"""The second signal: ends the process within two seconds, whatever its other threads do.

Runs on the signals' own thread.  Every step has a limit of its own, and none is waited for longer.
"""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from cluster_reconciler.actors.cli import exit_codes
from cluster_reconciler.actors.cli.driven_cluster import DrivenCluster
from cluster_reconciler.actors.cli.jobs import bounded
from cluster_reconciler.actors.cli.log import end_news
from cluster_reconciler.actors.cli.reports import UpReport
from cluster_reconciler.actors.cli.up_screen import UpScreen


def how_to_force(first: signal.Signals) -> str:
    """For the end of a sentence, after the first signal."""
    how = f"`kill {os.getpid()}`"
    if first is signal.SIGINT:
        how = f"Ctrl-C again, or {how},"
    elif first is not signal.SIGHUP and _has_keyboard():
        how = f"Ctrl-C, or {how} again,"
    elif first is signal.SIGTERM:
        how += " again"
    return f"{how} ends it at once and may leave machines behind"


def how_to_force_shortly(first: signal.Signals | None) -> str:
    """The same for the live view's one line; None: no signal has come yet."""
    if first is None:
        how = "Ctrl-C twice"
    else:
        how = "Ctrl-C again" if first is signal.SIGINT else "Ctrl-C"
    return f"{how} ends at once, may leave machines"


def _has_keyboard() -> bool:
    """Somebody could press Ctrl-C, and it would reach us."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def force_end(
    number: signal.Signals,
    first: signal.Signals,
    cluster: DrivenCluster | None,
    screen: UpScreen,
    report: UpReport,
    end_process: Callable[[int], None],
) -> None:
    """Say what may be left, close without a drain, end.  `number` is the signal that forces,
    `first` the one that the exit code names."""
    left = bounded(cluster.possibly_left, 0.5, None) if cluster is not None else None
    code = exit_codes.after_signal(first) if left == () else exit_codes.LEFT_OR_DIED
    again = "again" if number is first else f"after {first.name}"
    text = f"{number.name} {again}: ends at once, without waiting for the drain"
    if left is None:
        text += "; whether leases are left is not known: the next `up` of this run names them"
    last = replace(
        report,
        exit_code=code,
        signal=first.name,
        left=left or (),
        drained=left == (),
        error=text,
    )
    bounded(lambda: _tell(screen, text, last), 0.5, None)
    if cluster is not None:
        bounded(lambda: cluster.close(drain=False), 0.6, None)
    end_process(code)


def _tell(screen: UpScreen, text: str, report: UpReport) -> None:
    end_news()
    screen.warn(text)
    screen.end(report)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
