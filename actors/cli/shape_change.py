"""What a shape file, read anew, changes against what runs: the next shape, and what must wait.

Pure: a comparison of values.  Whether the shape is accepted is the driver's word; what is known to
be refused is said here in the driver's own words, so that nothing is begun for it.
"""

from msgspec import Struct
from msgspec.structs import replace

from cluster_reconciler.actors.admission import accepted_offer
from cluster_reconciler.actors.cli.faults import quoted
from cluster_reconciler.actors.cli.plan_words import field_words, setting_words
from cluster_reconciler.actors.cli.shape_diff import (
    GroupDiff,
    TakesEffect,
    diff_groups,
    diff_settings,
    total,
)
from cluster_reconciler.actors.cli.shape_file import (
    LoadedShape,
    ProviderSettings,
    next_generation,
)
from cluster_reconciler.actors.cli.words import counted, one_line
from cluster_reconciler.decider import ExpandedShape, RetryPolicy, expand_shape
from cluster_reconciler.messages import ClusterShape, ProviderKind, ShapeRefused

REASONS_MAX = 5
"""So many differing values are named for a group; the rest are counted."""


class Running(Struct, frozen=True):
    """What is in force."""

    shape: ClusterShape
    """The one accepted last."""
    retry: RetryPolicy
    """As a file says it: without the seed that was drawn."""
    started: LoadedShape
    """What the process began with: its listener and its providers are of that."""


class PlanSummary(Struct, frozen=True):
    """What becomes of the nodes."""

    kept: int = 0
    added: int = 0
    removed: int = 0
    replaced: int = 0
    groups: tuple[str, ...] = ()
    """A line for each group that changes."""

    def __str__(self) -> str:
        numbers = {"kept": self.kept, "added": self.added, "removed": self.removed}
        numbers["replaced"] = self.replaced
        return ", ".join(f"{number} {what}" for what, number in numbers.items())


class ShapeChange(Struct, frozen=True):
    """All that one reading of the file changes."""

    generation: int
    """Of the shape in the file, once it is accepted."""
    shape: ClusterShape | None = None
    """The one to ask for; None: it is the accepted one."""
    retry: RetryPolicy | None = None
    """The one to be used; None: it is in use."""
    plan: PlanSummary = PlanSummary()
    takes_effect: tuple[str, ...] = ()
    """Settings that change at once, one text each."""
    needs_restart: tuple[str, ...] = ()
    """Settings of the file that are not in force, and will be with the next start."""
    refused: str | None = None
    """Why nothing of it can be taken."""

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.refused is None and (self.shape is not None or self.retry is not None)


def compare(running: Running, new: LoadedShape) -> ShapeChange:
    """What the file asks for against what is in force."""
    old = running.shape
    if new.shape.run_id != old.run_id:
        refused = (
            f"run_id is {new.shape.run_id}, this process drives run {old.run_id}; "
            f"put it back on line {new.run_id_line}, or start an `up` of its own for the other run"
        )
        return ShapeChange(new.shape.generation, refused=refused)
    started = {settings.name: settings for settings in running.started.providers}
    shape = next_generation(old, new)
    before = expand_shape(old)
    try:
        _refuse_other_providers(started, new)
        after = accepted_offer(shape, before, tuple(started)) or before
    except ShapeRefused as refusal:
        return ShapeChange(shape.generation, refused=one_line(refusal.reason))
    takes_effect, needs_restart = _settings(running, new)
    return ShapeChange(
        shape.generation,
        after.shape if after is not before else None,
        new.retry if new.retry != running.retry else None,
        summarize(before, after),
        takes_effect,
        needs_restart,
    )


def summarize(old: ExpandedShape, new: ExpandedShape) -> PlanSummary:
    """The nodes of all groups counted, and the groups that change, in words."""
    groups = diff_groups(old, new)
    counts = total(groups)
    lines = tuple(line for group in groups if (line := _group_line(group)))
    return PlanSummary(counts.kept, counts.added, counts.removed, counts.replaced, lines)


def _group_line(group: GroupDiff) -> str:
    """Empty: nothing changes."""
    parts = []
    if group.added:
        parts.append(f"adds {counted(len(group.added), 'node')}")
    if group.removed:
        parts.append(f"removes {counted(len(group.removed), 'node')}")
    if group.replaced:
        reasons = [field_words(change) for change in group.changes[:REASONS_MAX]]
        if len(group.changes) > REASONS_MAX:
            reasons.append(f"and {len(group.changes) - REASONS_MAX} more")
        said = one_line("; ".join(reasons))
        parts.append(f"replaces {counted(len(group.replaced), 'node')} ({said})")
    return f"{one_line(group.group_id)}: {', '.join(parts)}" if parts else ""


def _settings(running: Running, new: LoadedShape) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What takes effect, and what needs a new start."""
    in_force = replace(running.started, shape=running.shape, retry=running.retry)
    named = {settings.name for settings in new.providers}
    # One that is no longer named is asked for nothing: that needs no start.
    unnamed = (settings for settings in in_force.providers if settings.name not in named)
    asked = replace(new, providers=(*new.providers, *unnamed))
    takes_effect, needs_restart = [], []
    for setting in diff_settings(in_force, asked):
        if setting.takes_effect is TakesEffect.AT_A_NEW_START:
            needs_restart.append(setting_words(setting))
        elif setting.path.startswith("retry."):
            takes_effect.append(f"{setting_words(setting)}, from the next wait on")
        else:
            takes_effect.append(setting_words(setting))
    return tuple(takes_effect), tuple(needs_restart)


def _refuse_other_providers(
    started: dict[ProviderKind, ProviderSettings], new: LoadedShape
) -> None:
    """Raises ShapeRefused: a group's provider is not one that this process has started."""
    kinds = {settings.name: settings.kind for settings in new.providers}
    for group in new.shape.groups:
        there = started.get(group.provider)
        asks = f"group {quoted(group.group_id)} asks for provider {quoted(group.provider)}"
        if there is None:
            names = ", ".join(sorted(started)) or "none"
            raise ShapeRefused(
                f"{asks}, which this process did not start (it has {names}); start `up` again"
            )
        kind = kinds.get(group.provider, there.kind)
        if there.kind != kind:
            raise ShapeRefused(
                f"{asks} of the kind {quoted(kind)}, this process has started it as "
                f"{quoted(there.kind)}; start `up` again"
            )
