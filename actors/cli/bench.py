"""`bench`: measures on this machine, and says what came of it beside what is aimed at.

Prose of progress goes to stderr, figures to stdout.  A missed aim is no failure: the exit code says
whether it was measured.
"""

from loguru import logger

from cluster_reconciler.actors.bench.comparison import NODES_MAX, Compared, Missing, compare
from cluster_reconciler.actors.bench.figures import Measure
from cluster_reconciler.actors.bench.machine import this_machine
from cluster_reconciler.actors.bench.run import Plan, measure
from cluster_reconciler.actors.cli.bench_arguments import BenchOptions
from cluster_reconciler.actors.cli.bench_report import BenchReport
from cluster_reconciler.actors.cli.bench_tables import show_report
from cluster_reconciler.actors.cli.log import restore_log
from cluster_reconciler.actors.cli.output import Output


def bench(options: BenchOptions, output: Output) -> int:
    """The exit code: 0."""
    logger.remove()  # What a log costs depends on where it goes: here it goes nowhere.
    try:
        report = _measured(options, output)
    finally:
        restore_log()
    show_report(report, options.json, output)
    return report.exit_code


def _measured(options: BenchOptions, output: Output) -> BenchReport:
    machine = this_machine()
    nodes = tuple(sorted(set(options.nodes)))
    plan = Plan(nodes, frozenset(map(Measure, options.only)), options.quick, options.profile)
    measured = measure(plan, output.say)
    compared = compare(min(NODES_MAX, nodes[-1]), output.say) if options.peers else []
    return BenchReport(
        machine,
        plan.quick,
        measured.values,
        tuple(peer for peer in compared if isinstance(peer, Compared)),
        tuple(peer for peer in compared if isinstance(peer, Missing)),
        measured.profile,
    )
