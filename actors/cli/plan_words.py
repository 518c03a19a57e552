"""How a plan is told to people: lines of text from its report.

Pure: nothing is compared here, and nothing decided.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile

from msgspec import Struct

from cluster_reconciler.actors.cli.faults import printable, quoted
from cluster_reconciler.actors.cli.rehearsal import Step, Wave
from cluster_reconciler.actors.cli.reports import (
    ChangeCounts,
    GroupPlan,
    NodeChange,
    NodePlan,
    PlanReport,
)
from cluster_reconciler.actors.cli.shape_diff import FieldChange, Scalar, SettingChange, TakesEffect
from cluster_reconciler.actors.cli.words import counted

NODES_TOLD_MAX = 8
"""So many nodes of a group with the same fate have a line each; more are told as ranges."""
PATHS_NAMED_MAX = 3
WAVES_FIRST, WAVES_LAST = 6, 2
TEXT_MAX, CONTEXT = 50, 20
"""Characters: a longer text is told from so many before the first difference."""

SIGNS = {
    NodeChange.KEPT: "=",
    NodeChange.ADDED: "+",
    NodeChange.REMOVED: "-",
    NodeChange.REPLACED: "~",
}
STYLES = {"+": "green", "-": "red", "~": "yellow"}
"""Of a line that begins with the sign, on a terminal."""

_STEPS = {
    "begin_delete": "give up",
    "insert": "add",
    "restart": "begin anew",
    "mark_destroyed": "is gone",
    "reap": "forget",
    "create_lease": "create",
    "lookup_endpoint": "look up",
    "start_bootstrap": "boot",
    "bootstrap_convergence_observed": "hand over",
    "cancel_bootstrap": "cancel boot",
    "destroy_lease": "destroy",
}
_WIDTH = max(len(word) for word in _STEPS.values())
_NUMBERED = re.compile(r"(.*-)(\d+)", re.DOTALL)


class Line(Struct, frozen=True):
    """A line and how it looks on a terminal."""

    text: str
    style: str = ""


def plan_lines(report: PlanReport) -> list[Line]:
    """The whole plan: the groups, their nodes, the settings, the order."""
    parts = [
        _head(report),
        [line for group in report.groups for line in _nodes(group, report.nodes)],
        list(_settings(report)),
        list(_order(report)),
    ]
    lines: list[Line] = []
    for part in parts:
        lines += [Line(""), *part] if lines and part else part
    return lines


def ranges(nodes: Sequence[str]) -> str:
    """`worker-0..worker-299, web-3`: runs of three or more are folded."""
    told: list[str] = []
    runs: list[list[str]] = []
    for node in sorted(nodes, key=_by_number):
        if runs and _follows(runs[-1][-1], node):
            runs[-1].append(node)
        else:
            runs.append([node])
    for run in runs:
        told += [f"{run[0]}..{run[-1]}"] if len(run) > 2 else run
    return printable(", ".join(told))


def _by_number(node: str) -> tuple[str, int]:
    match = _NUMBERED.fullmatch(node)
    return (match[1], int(match[2])) if match else (node, -1)


def _follows(before: str, after: str) -> bool:
    (group, number), (next_group, next_number) = _by_number(before), _by_number(after)
    return group == next_group and next_number == number + 1


# -- groups and nodes -----------------------------------------------------------------------------


def _head(report: PlanReport) -> list[Line]:
    was = f"{report.old_generation} -> " if report.old_generation is not None else ""
    if report.old_generation == report.generation:
        was = ""
    lines = [Line(f"run {report.run_id}, generation {was}{report.generation}: {_all(report)}")]
    lines += [Line(f"{printable(group.group_id)}: {_summary(group)}") for group in report.groups]
    return lines


def _all(report: PlanReport) -> str:
    if not report.changed:
        return "no changes"
    total = _counts(report.counts)
    if report.counts.added or report.counts.removed or report.counts.replaced:
        return total
    return f"no node changes ({total})" if total else "no node changes"


def _summary(group: GroupPlan) -> str:
    text = _counts(group.counts) or "no nodes"
    if group.counts.replaced:
        paths = [change.path for change in group.changes]
        more = len(paths) - PATHS_NAMED_MAX
        named = ", ".join(paths[:PATHS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        text += f" ({printable(named)})"
    if group.new_count is None:
        text += "; the group is gone"
    return text


def _counts(counts: ChangeCounts) -> str:
    named = ((name, getattr(counts, name)) for name in ("kept", "added", "replaced", "removed"))
    return ", ".join(f"{number} {name}" for name, number in named if number)


def _nodes(group: GroupPlan, nodes: Sequence[NodePlan]) -> Iterator[Line]:
    """The nodes of a group in which anything changes."""
    counts = group.counts
    if not (counts.added or counts.removed or counts.replaced):
        return
    yield Line(printable(group.group_id))
    for change in group.changes:
        yield Line(f"    {_field(change)}")
    mine = (node for node in nodes if node.group_id == group.group_id)
    for fate, alike in groupby(mine, key=lambda node: node.change):
        yield from _alike(fate, [node.node for node in alike])


def _alike(fate: NodeChange, nodes: list[str]) -> Iterator[Line]:
    sign = SIGNS[fate]
    style = STYLES.get(sign, "")
    if fate is NodeChange.KEPT or len(nodes) > NODES_TOLD_MAX:
        told = [f"{ranges(nodes)}: {len(nodes)} {fate}" if len(nodes) > 2 else ranges(nodes)]
        if len(nodes) <= 2:
            told = [f"{ranges(nodes)}: {fate}"]
    else:
        told = [f"{printable(node)}: {fate}" for node in nodes]
    for text in told:
        yield Line(f"  {sign} {text}", style)


def _field(change: FieldChange) -> str:
    path = printable(change.path)
    if change.hidden and change.old == change.new:
        return f"{path}: {_value(change.old)} with another secret in it, which is hidden"
    note = " (what looks like a secret is hidden)" if change.hidden else ""
    return f"{path}: {from_to(change.old, change.new)}{note}"


def from_to(old: Scalar, new: Scalar) -> str:
    """Long texts from shortly before the place in which they differ."""
    if isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > TEXT_MAX:
        skipped = _common_prefix(old, new) - CONTEXT
        if skipped > 0:
            old, new = (f"...{text[skipped:]}" for text in (old, new))
    return f"{_value(old)} -> {_value(new)}"


def _value(value: Scalar) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    return quoted(value) if isinstance(value, str) else str(value)


def _common_prefix(old: str, new: str) -> int:
    """Characters that both begin with."""
    alike = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], alike))


# -- settings and order ---------------------------------------------------------------------------


def _settings(report: PlanReport) -> Iterator[Line]:
    for when, title in (
        (TakesEffect.AT_ONCE, "settings that count at once where the cluster runs (`up --watch`)"),
        (TakesEffect.AT_A_NEW_START, "settings that count only from a new start on"),
    ):
        changes = [change for change in report.settings if change.takes_effect is when]
        if changes:
            yield Line(title)
            yield from (Line(f"  ~ {_setting(change)}", STYLES["~"]) for change in changes)
    if report.refused_providers:
        names = ", ".join(quoted(name) for name in report.refused_providers)
        yield Line(f"a cluster that runs has no such provider as {names}: start it anew", "red")
    if report.changed and not report.settings and not _touches_nodes(report.counts):
        yield Line("the content differs (order of groups, empty groups, a default written out)")


def _setting(change: SettingChange) -> str:
    return f"{printable(change.path)}: {from_to(change.old, change.new)}"


def _touches_nodes(counts: ChangeCounts) -> bool:
    return bool(counts.added or counts.removed or counts.replaced)


def _order(report: PlanReport) -> Iterator[Line]:
    waves = report.waves
    if not waves:
        if not report.waves_complete:
            yield Line("order: not rehearsed, there are too many nodes")
        return
    yield Line("order, if every call succeeds (what has one number happens together)")
    hidden = len(waves) - WAVES_FIRST - WAVES_LAST
    if hidden <= 1:
        hidden = 0
    for number, wave in enumerate(waves, start=1):
        if not hidden or number <= WAVES_FIRST or number > WAVES_FIRST + hidden:
            yield from _wave(number, wave)
        elif number == WAVES_FIRST + 1:
            yield Line(f"  ...  {counted(hidden, 'more wave')} like these")
    if not report.waves_complete:
        yield Line("  ...  and so on until the shape is reached: only the beginning was rehearsed")


def _wave(number: int, wave: Wave) -> Iterator[Line]:
    label = f"{number}."
    for step in wave.steps:
        yield Line(f"  {label:<4} {_step(step)}")
        label = ""
    if wave.held_back:
        number_held = len(wave.held_back)
        wait = "waits" if number_held == 1 else "wait"
        yield Line(f"       ({counted(number_held, 'node')} {wait} for a place under a limit)")


def _step(step: Step) -> str:
    return f"{_STEPS[step.action]:<{_WIDTH}}  {ranges(step.nodes)}"
