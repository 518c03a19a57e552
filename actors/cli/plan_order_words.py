"""In which order a plan goes, told to people: what happens to which nodes at the same time.

Pure: lines of text from the report.  Steps that only keep the books of the reconciler are not
told, they always go with one that is; `--json` has them all.
"""

import re
from collections.abc import Iterator, Sequence

from cluster_reconciler.actors.cli.faults import printable
from cluster_reconciler.actors.cli.rehearsal import Wave
from cluster_reconciler.actors.cli.reports import PlanReport
from cluster_reconciler.actors.cli.words import counted

WAVES_FIRST, WAVES_LAST = 6, 2
RANGES_MAX = 6
"""So many runs of nodes are named in one line."""

_STEPS = {
    "begin_delete": "no longer ready",
    "destroy_lease": "destroy machines of",
    "reap": "nothing is left of",
    "create_lease": "create machines for",
    "lookup_endpoint": "ask for addresses of",
    "start_bootstrap": "boot",
    "bootstrap_convergence_observed": "joined, ready",
    "cancel_bootstrap": "end the boot of",
}
_BOOKKEEPING = frozenset({"insert", "restart", "mark_destroyed"})
_WIDTH = max(len(words) for words in _STEPS.values())
_NUMBERED = re.compile(r"(.*-)(\d+)", re.DOTALL)


def order_lines(report: PlanReport) -> Iterator[str]:
    """One paragraph, or nothing where nothing happens."""
    waves = report.waves
    if not waves:
        if not report.waves_complete:
            yield "order: not rehearsed, there are too many nodes"
        return
    yield "order, if every call succeeds (one number at once, the next when all of it is done)"
    hidden = len(waves) - WAVES_FIRST - WAVES_LAST
    if hidden <= 1:
        hidden = 0
    for number, wave in enumerate(waves, start=1):
        if not hidden or number <= WAVES_FIRST or number > WAVES_FIRST + hidden:
            yield from _wave(number, wave)
        elif number == WAVES_FIRST + 1:
            yield f"  ...  {counted(hidden, 'more number')} like these"
    if not report.waves_complete:
        yield "  ...  and so on until the shape is reached: only the beginning was rehearsed"


def _wave(number: int, wave: Wave) -> Iterator[str]:
    label = f"{number}."
    for step in wave.steps:
        if step.action not in _BOOKKEEPING:
            yield f"  {label:<4} {_STEPS[step.action]:<{_WIDTH}}  {ranges(step.nodes)}"
            label = ""
    if wave.held_back:
        held = len(wave.held_back)
        waits = "waits" if held == 1 else "wait"
        yield f"       ({counted(held, 'node')} {waits} for a place under a limit: in_flight)"


def ranges(nodes: Sequence[str]) -> str:
    """`worker-0..worker-299, web-3`: runs of three or more are folded, and so are many runs."""
    runs: list[list[str]] = []
    for node in sorted(nodes, key=_by_number):
        if runs and _follows(runs[-1][-1], node):
            runs[-1].append(node)
        else:
            runs.append([node])
    told: list[str] = []
    for number, run in enumerate(runs):
        if number == RANGES_MAX and number + 1 < len(runs):
            told.append(f"and {sum(len(more) for more in runs[number:])} more")
            break
        told += [f"{run[0]}..{run[-1]}"] if len(run) > 2 else run
    return printable(", ".join(told))


def _by_number(node: str) -> tuple[str, int]:
    match = _NUMBERED.fullmatch(node)
    return (match[1], int(match[2])) if match else (node, -1)


def _follows(before: str, after: str) -> bool:
    (group, number), (next_group, next_number) = _by_number(before), _by_number(after)
    return group == next_group and next_number == number + 1
