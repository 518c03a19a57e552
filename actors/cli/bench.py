"""`bench`: measures on this machine, and says what came of it beside what is aimed at.

Prose of progress goes to stderr, figures to stdout.  A missed aim is no failure: the exit code says
whether it was measured.
"""

from loguru import logger

from cluster_reconciler.actors.bench.figures import Measure
from cluster_reconciler.actors.bench.machine import this_machine
from cluster_reconciler.actors.bench.run import Plan, measure
from cluster_reconciler.actors.cli.bench_arguments import BenchOptions
from cluster_reconciler.actors.cli.bench_report import BenchReport
from cluster_reconciler.actors.cli.bench_tables import report_lines
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.exit_codes import DONE
from cluster_reconciler.actors.cli.output import Output


def bench(options: BenchOptions, output: Output) -> int:
    """The exit code: 0."""
    logger.remove()  # What a log costs depends on where it goes: here it goes nowhere.
    machine = this_machine()
    plan = Plan(
        nodes=tuple(sorted(set(options.nodes))),
        measures=frozenset(map(Measure, options.only)),
        quick=options.quick,
    )
    values = measure(plan, output.say)
    report = BenchReport(machine, tuple(values), plan.quick, DONE)
    output.data(as_json(report) if options.json else "\n".join(report_lines(report)))
    return DONE
