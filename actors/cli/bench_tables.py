"""The report of `bench` for people: a line for each figure, a column for each number of nodes, and
the aims.

Pure layout: what is measured, and what is aimed at, is the business of `actors/bench`.
"""

from collections.abc import Iterable

from cluster_reconciler.actors.bench.comparison import Compared
from cluster_reconciler.actors.bench.figures import FIGURES, Aim, Figure, Value
from cluster_reconciler.actors.bench.machine import Machine
from cluster_reconciler.actors.bench.profile import ProfileLine
from cluster_reconciler.actors.cli.bench_report import BenchReport
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.words import aligned, empty_table, one_line

DIGITS = 3
"""A figure is shown with so many; no machine repeats more."""
MET, MISSED = "met", "missed"
STYLES = {MET: "green", MISSED: "red"}

PEER_COLUMNS = (
    "PEER", "NODES", "CONVERGE", "OURS", "RATIO", "AIM", "MET", "STEADY", "OURS", "RATIO",
    "OURS, FULL", "RATIO",
)  # fmt: skip

PROFILE_COLUMNS = ("FUNCTION", "PLACE", "CALLS", "OWN", "WITH CALLED")


def show_report(report: BenchReport, json: bool, output: Output) -> None:
    """One document, or tables."""
    if json:
        output.data(as_json(report))
        return
    output.data(_machine(report.machine))
    sizes = sorted({value.nodes for value in report.values})
    found = {(value.figure, value.nodes): value for value in report.values}
    shown = [figure for figure in FIGURES if any((figure.name, n) in found for n in sizes)]
    rows = [_row(figure, [found.get((figure.name, nodes)) for nodes in sizes]) for figure in shown]
    if rows:
        _table(("FIGURE", "UNIT", *(f"{n} NODES" for n in sizes), "AIM", "MET"), rows, output)
    if report.peers:
        _table(PEER_COLUMNS, [_peer_row(peer) for peer in report.peers], output)
    for missing in report.missing_peers:
        why = f"{missing.peer} was not measured: {missing.reason}; it takes {missing.install}"
        output.data(one_line(why))
    if report.profile:
        _table(PROFILE_COLUMNS, [_profile_row(line) for line in report.profile], output)
    met = [value.met for value in report.values] + [peer.met for peer in report.peers]
    rough = " (rough: --quick)" if report.quick else ""
    output.data(f"aims: {met.count(True)} met, {met.count(False)} missed{rough}")


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]], output: Output) -> None:
    if not output.shows_unicode:
        rows = [tuple(cell.replace("µ", "u") for cell in row) for row in rows]
    if not output.stdout_is_terminal:
        output.data(aligned(columns, rows))
        return
    from rich.text import Text  # noqa: PLC0415  # who writes lines need not wait for it

    table = empty_table(columns)
    for row in rows:
        table.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
    output.table(table)


def _row(figure: Figure, values: Iterable[Value | None]) -> tuple[str, ...]:
    present = list(values)
    cells = ["-" if value is None else _shown(value.value) for value in present]
    met = [value.met for value in present if value is not None and value.met is not None]
    aim = _aim(figure.aim) if figure.aim is not None else ""
    return figure.words, figure.unit, *cells, aim, _verdict(all(met) if met else None)


def _aim(aim: Aim) -> str:
    with_so_many = f" with {aim.nodes}" if aim.nodes is not None else ""
    if aim.or_more:
        with_so_many += " or more"
    return f"at {'least' if aim.at_least else 'most'} {aim.bound:g}{with_so_many}"


def _verdict(met: bool | None) -> str:
    return "" if met is None else MET if met else MISSED


def _peer_row(peer: Compared) -> tuple[str, ...]:
    return (
        f"{peer.peer} {peer.version}",
        str(peer.nodes),
        f"{_shown(peer.converge_seconds)} s",
        f"{_shown(peer.ours_converge_seconds)} s",
        _shown(peer.converge_ratio),
        f"at least {peer.aim:g}" if peer.aim is not None else "",
        _verdict(peer.met),
        *(
            f"{_shown(seconds * 1000)} ms"
            for seconds in (peer.steady_seconds, peer.ours_steady_seconds)
        ),
        _shown(peer.steady_ratio),
        f"{_shown(peer.ours_full_pass_seconds * 1000)} ms",
        _shown(peer.full_pass_ratio),
    )


def _profile_row(line: ProfileLine) -> tuple[str, ...]:
    times = (f"{_shown(time)} µs" for time in (line.own_microseconds, line.total_microseconds))
    return one_line(line.function), line.place, _shown(line.calls), *times


def _shown(value: float) -> str:
    """With `DIGITS`, and never as a power of ten."""
    digits = max(0, DIGITS - len(str(int(value)))) if value >= 1 else DIGITS
    return f"{value:.{digits}f}"


def _machine(machine: Machine) -> str:
    load = f", load {machine.load:.2f}" if machine.load is not None else ""
    processor = one_line(machine.processor) or "unknown processor"
    return f"{processor}, {machine.cores} cores, {machine.python}{load}"
