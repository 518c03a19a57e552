"""`bench`: measures on this machine, and says what came of it beside what is aimed at.

Prose of progress goes to stderr, figures to stdout.  A missed aim is no failure: the exit code says
whether it was measured.  Who interrupts it gets the figures that are there, as a table, but no
document: a program would take that for the whole.
"""

import signal
from collections.abc import Iterator
from typing import TypeAlias

from loguru import logger

from cluster_reconciler.actors.bench.comparison import NODES_MAX, Compared, Missing
from cluster_reconciler.actors.bench.figures import Measure, Value
from cluster_reconciler.actors.bench.machine import Machine, this_machine
from cluster_reconciler.actors.bench.profile import ProfileLine
from cluster_reconciler.actors.bench.run import Progress, Wanted, measure
from cluster_reconciler.actors.cli.bench_arguments import BenchOptions
from cluster_reconciler.actors.cli.bench_report import BenchReport
from cluster_reconciler.actors.cli.bench_tables import show_report
from cluster_reconciler.actors.cli.exit_codes import after_signal
from cluster_reconciler.actors.cli.log import restore_log
from cluster_reconciler.actors.cli.output import Output

Found: TypeAlias = Value | ProfileLine | Compared | Missing


def bench(options: BenchOptions, output: Output) -> int:
    """The exit code: 0, or what tells of Ctrl-C."""
    logger.remove()  # What a log costs depends on where it goes: here it goes nowhere.
    machine, found, interrupted = this_machine(), list[Found](), False
    try:
        for one in _measured(options, output.say):
            found.append(one)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if not interrupted:  # Else threads are at work still, and what they log is of no use.
            restore_log()
    report = _report(machine, options.quick, found)
    if not interrupted:
        show_report(report, options.json, output)
        return report.exit_code
    if found and not options.json:
        show_report(report, False, output)
        output.say("interrupted: what was not measured yet is left out")
    return after_signal(signal.SIGINT)


def _measured(options: BenchOptions, progress: Progress) -> Iterator[Found]:
    """All that is asked for, each as soon as it is known."""
    nodes = tuple(options.nodes)
    measures = frozenset(map(Measure, options.only))
    yield from measure(Wanted(nodes, measures, options.quick, options.profile), progress)
    if options.peers:
        yield from compare(min(NODES_MAX, max(nodes)), progress)


def compare(nodes: int, progress: Progress) -> Iterator[Compared | Missing]:
    """Each peer, with so many nodes."""
    from cluster_reconciler.actors.bench.peers import (  # noqa: PLC0415  # who compares, waits
        measure_peers,
    )

    return measure_peers(nodes, progress)


def _report(machine: Machine, quick: bool, found: list[Found]) -> BenchReport:
    return BenchReport(
        machine,
        quick,
        tuple(one for one in found if isinstance(one, Value)),
        tuple(one for one in found if isinstance(one, Compared)),
        tuple(one for one in found if isinstance(one, Missing)),
        tuple(one for one in found if isinstance(one, ProfileLine)),
    )
