"""`plan`: says what would happen from one shape to another.  Locks, creates and starts nothing."""

from itertools import chain

from msgspec.structs import replace
from rich.style import Style

from cluster_reconciler.actors.cli.arguments import PlanOptions
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.exit_codes import DONE, HAS_CHANGES, INVALID
from cluster_reconciler.actors.cli.faults import told
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.plan_words import Line, plan_lines
from cluster_reconciler.actors.cli.rehearsal import rehearse
from cluster_reconciler.actors.cli.reports import (
    GroupPlan,
    NodeChange,
    NodePlan,
    PlanReport,
)
from cluster_reconciler.actors.cli.shape_diff import (
    GroupDiff,
    SettingChange,
    TakesEffect,
    diff_groups,
    diff_settings,
    same_content,
    total,
)
from cluster_reconciler.actors.cli.shape_file import LoadedShape, Loading, load, next_generation
from cluster_reconciler.actors.cli.succession import succession_faults
from cluster_reconciler.decider import expand_shape
from cluster_reconciler.messages import ClusterShape


def plan(options: PlanOptions, output: Output) -> int:
    """The exit code: 0, 2 for faults in either file, 3 for changes with --exit-code."""
    old = load(options.old) if options.old is not None else None
    report = plan_report(old, load(options.new), changes_are_told=options.exit_code)
    if options.json:
        output.data(as_json(report))
        return report.exit_code
    for caution in report.warnings:
        output.say(str(caution))
    if not report.valid:
        output.data("\n".join(told(report.faults, sources=output.stdout_is_terminal)))
    else:
        lines = plan_lines(report)
        output.data(
            "\n".join(_painted(line) if output.colours_data else line.text for line in lines)
        )
    return report.exit_code


def plan_report(old: Loading | None, new: Loading, *, changes_are_told: bool = False) -> PlanReport:
    """The plan from `old`, or from nothing, to `new`; with their faults alone, when there are any.
    `changes_are_told`: the exit code says whether there are changes."""
    file = old.file if old is not None else None
    faults = (*(old.faults if old is not None else ()), *new.faults)
    before = old.loaded if old is not None else None
    after = new.loaded
    if before is not None and after is not None:
        faults = succession_faults(before, after)
    if after is None or faults:
        return PlanReport(new.file, file, False, INVALID, faults, new.cautions)
    return _compared(new, file, before, after, changes_are_told)


def _compared(
    new: Loading, file: str | None, before: LoadedShape | None, after: LoadedShape, told: bool
) -> PlanReport:
    run_id = after.shape.run_id
    shape = next_generation(before.shape, after) if before is not None else after.shape
    was = before.shape if before is not None else ClusterShape(run_id, 0, ())
    there, wanted = expand_shape(was), expand_shape(shape)
    groups = diff_groups(there, wanted)
    refused = _refused_providers(before, after) if before is not None else ()
    settings = _settings(before, after, refused=bool(refused)) if before is not None else ()
    changed = bool(settings) or not same_content(was, shape)
    rehearsal = rehearse(there, wanted)
    return PlanReport(
        new=new.file,
        old=file,
        valid=True,
        exit_code=HAS_CHANGES if told and changed else DONE,
        warnings=new.cautions,
        run_id=run_id,
        old_generation=before.shape.generation if before is not None else None,
        generation=shape.generation,
        changed=changed,
        counts=total(groups),
        groups=tuple(_group(group) for group in groups),
        nodes=tuple(chain.from_iterable(_nodes(group) for group in groups)),
        settings=settings,
        refused_providers=refused,
        waves=rehearsal.waves,
        waves_complete=rehearsal.complete,
    )


def _settings(
    before: LoadedShape, after: LoadedShape, *, refused: bool
) -> tuple[SettingChange, ...]:
    """A running cluster that refuses the file takes none of its settings either."""
    changes = diff_settings(before, after)
    if not refused:
        return changes
    return tuple(replace(change, takes_effect=TakesEffect.AT_A_NEW_START) for change in changes)


def _refused_providers(before: LoadedShape, after: LoadedShape) -> tuple[str, ...]:
    """A cluster makes its providers when it starts, from the file that it is started with."""
    known = {provider.name: provider.kind for provider in before.providers}
    kinds = {provider.name: provider.kind for provider in after.providers}
    asked = dict.fromkeys(group.provider for group in after.shape.groups)
    return tuple(name for name in asked if known.get(name) != kinds[name])


def _group(group: GroupDiff) -> GroupPlan:
    return GroupPlan(
        group.group_id,
        group.old_count,
        group.new_count,
        group.counts,
        group.changes,
        group.renamed_from,
    )


def _nodes(group: GroupDiff) -> list[NodePlan]:
    """In the order of their numbers: what both shapes have comes before what only one has."""
    by_fate = (
        (NodeChange.KEPT, group.kept),
        (NodeChange.REPLACED, group.replaced),
        (NodeChange.ADDED, group.added),
        (NodeChange.REMOVED, group.removed),
    )
    return [NodePlan(node, group.group_id, fate) for fate, nodes in by_fate for node in nodes]


def _painted(line: Line) -> str:
    return Style.parse(line.style).render(line.text) if line.style else line.text
