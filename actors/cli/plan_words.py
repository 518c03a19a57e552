"""How a plan is told to people: lines of text from its report.

Pure: nothing is compared here, and nothing decided.  What is long is folded, with how much more
there is; the report of --json has it all.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile

from msgspec import Struct

from cluster_reconciler.actors.cli.faults import printable, quoted
from cluster_reconciler.actors.cli.plan_order_words import order_lines, ranges
from cluster_reconciler.actors.cli.reports import GroupPlan, NodeChange, NodePlan, PlanReport
from cluster_reconciler.actors.cli.shape_diff import (
    ChangeCounts,
    FieldChange,
    Scalar,
    SettingChange,
    TakesEffect,
)
from cluster_reconciler.actors.cli.words import counted

GROUPS_TOLD_MAX = 20
"""So many groups that change, and as many that do not, are told one by one."""
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


class Line(Struct, frozen=True):
    """A line and how it looks on a terminal."""

    text: str
    style: str = ""


def plan_lines(report: PlanReport) -> list[Line]:
    """The whole plan: the groups with their nodes, the settings, the order."""
    parts = [
        list(_head(report)),
        list(_groups(report)),
        list(_settings(report)),
        [Line(text) for text in order_lines(report)],
    ]
    lines: list[Line] = []
    for part in parts:
        lines += [Line(""), *part] if lines and part else part
    return lines


# -- groups and nodes -----------------------------------------------------------------------------


def _head(report: PlanReport) -> Iterator[Line]:
    was = f"{report.old_generation} -> " if report.old_generation is not None else ""
    if report.old_generation == report.generation:
        was = ""
    since = "" if report.old is not None else ", from nothing (--from OLD: from what runs)"
    yield Line(f"run {report.run_id}, generation {was}{report.generation}{since}: {_all(report)}")
    if report.refused_providers:
        names = ", ".join(quoted(name) for name in report.refused_providers)
        yield Line(
            f"a cluster that runs refuses this: it was started without the provider {names}; "
            "end it, and start `up` with the new file",
            "red",
        )


def _all(report: PlanReport) -> str:
    if not report.changed:
        same = report.old is None or report.old_generation == report.generation
        return "no changes" if same else "no changes but its number"
    told = _counts(report.counts)
    if report.counts.changes:
        return told
    return f"no node changes ({told})" if told else "no node changes"


def _counts(counts: ChangeCounts) -> str:
    named = ((name, getattr(counts, name)) for name in ("kept", "added", "replaced", "removed"))
    return ", ".join(f"{number} {name}" for name, number in named if number)


def _groups(report: PlanReport) -> Iterator[Line]:
    """Those in which anything changes, each with its nodes; then the others."""
    changing = [group for group in report.groups if group.counts.changes]
    others = [group for group in report.groups if not group.counts.changes]
    told = {group.group_id for group in changing[:GROUPS_TOLD_MAX]}
    nodes: dict[str, list[NodePlan]] = {group_id: [] for group_id in told}
    for node in report.nodes:
        if node.group_id in told:
            nodes[node.group_id].append(node)
    for group in changing[:GROUPS_TOLD_MAX]:
        yield Line(f"{printable(group.group_id)}: {_summary(group)}")
        yield from (Line(f"    {field_words(change)}") for change in group.changes)
        yield from _nodes(nodes[group.group_id])
    yield from _more(changing[GROUPS_TOLD_MAX:])
    for group in others[:GROUPS_TOLD_MAX]:
        yield Line(f"{printable(group.group_id)}: {_summary(group)}")
    yield from _more(others[GROUPS_TOLD_MAX:])


def _summary(group: GroupPlan) -> str:
    text = _counts(group.counts) or "no nodes"
    if group.new_count is None:
        text += "; the group is gone"
    if group.renamed_from is not None:
        text += f"; {quoted(group.renamed_from)} under another name is another group: "
        text += "no node is taken over"
    return text


def _nodes(nodes: Sequence[NodePlan]) -> Iterator[Line]:
    for fate, alike in groupby(nodes, key=lambda node: node.change):
        names = [node.node for node in alike]
        number = f"{len(names)} " if len(names) > 1 else ""
        meanwhile = ", all at once" if fate is NodeChange.REPLACED and len(names) > 1 else ""
        sign = SIGNS[fate]
        text = f"  {sign} {ranges(names)}: {number}{fate}{meanwhile}"
        yield Line(text, STYLES.get(sign, ""))


def _more(groups: Sequence[GroupPlan]) -> Iterator[Line]:
    if groups:
        counts: Counter[str] = Counter()
        for group in groups:
            for name in ChangeCounts.__struct_fields__:
                counts[name] += getattr(group.counts, name)
        told = _counts(ChangeCounts(**counts)) or "no nodes"
        yield Line(f"and {counted(len(groups), 'more group')}: {told} (--json names all)")


def field_words(change: FieldChange) -> str:
    """Why a node is replaced: the place, the old value and the new one."""
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


# -- settings -------------------------------------------------------------------------------------


def _settings(report: PlanReport) -> Iterator[Line]:
    for takes_effect, title in (
        (TakesEffect.AT_ONCE, "settings that a running `up --watch` takes over at once"),
        (TakesEffect.AT_A_NEW_START, "settings that count only once `up` is started anew"),
    ):
        changes = [change for change in report.settings if change.takes_effect is takes_effect]
        if changes:
            yield Line(title)
            yield from (Line(f"  ~ {setting_words(change)}", STYLES["~"]) for change in changes)
    if report.changed and not report.settings and not report.counts.changes:
        yield Line("the content differs (order of groups, empty groups, a default written out)")


def setting_words(change: SettingChange) -> str:
    """The place, the old value and the new one."""
    return f"{printable(change.path)}: {from_to(change.old, change.new)}"
