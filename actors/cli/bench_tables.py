"""The table of `bench`: a line for each figure, a column for each number of nodes, and the aims.

Pure layout: what is measured, and what is aimed at, is `actors/bench`'s business.
"""

from cluster_reconciler.actors.bench.figures import FIGURES, Aim, Figure, Value
from cluster_reconciler.actors.bench.machine import Machine
from cluster_reconciler.actors.cli.bench_report import BenchReport
from cluster_reconciler.actors.cli.words import aligned

DIGITS = 3
"""A figure is shown with so many; no machine repeats more."""


def report_lines(report: BenchReport) -> list[str]:
    """All of it; each has no line's end in it but a table's own."""
    sizes = sorted({value.nodes for value in report.values})
    columns = ("FIGURE", "UNIT", *(f"{nodes} NODES" for nodes in sizes), "AIM", "MET")
    found = {(value.figure, value.nodes): value for value in report.values}
    rows = [_row(figure, sizes, found) for figure in FIGURES if _is_in(figure, report)]
    missed = sum(value.met is False for value in report.values)
    met = sum(value.met is True for value in report.values)
    return [
        _machine(report.machine),
        aligned(columns, rows),
        f"{met} aims are met, {missed} are missed" + (" (rough: --quick)" if report.quick else ""),
    ]


def _is_in(figure: Figure, report: BenchReport) -> bool:
    return any(value.figure == figure.name for value in report.values)


def _row(figure: Figure, sizes: list[int], found: dict[tuple[str, int], Value]) -> tuple[str, ...]:
    cells = [
        _shown(value.value) if (value := found.get((figure.name, nodes))) is not None else "-"
        for nodes in sizes
    ]
    met = [value.met for nodes in sizes if (value := found.get((figure.name, nodes))) is not None]
    aim = figure.aim
    verdict = "missed" if False in met else "met" if True in met else ""
    return figure.words, figure.unit, *cells, _aim(aim) if aim is not None else "", verdict


def _aim(aim: Aim) -> str:
    which = "at least" if aim.at_least else "at most"
    with_so_many = f" with {aim.nodes}" if aim.nodes is not None else ""
    return f"{which} {aim.bound:g}{with_so_many}"


def _shown(value: float) -> str:
    """With `DIGITS`, and never as a power of ten."""
    digits = max(0, DIGITS - len(str(int(value)))) if value >= 1 else DIGITS
    return f"{value:.{digits}f}"


def _machine(machine: Machine) -> str:
    load = f", load {machine.load:.2f}" if machine.load is not None else ""
    return (
        f"{machine.processor or 'unknown processor'}, {machine.cores} cores, {machine.python}{load}"
    )
