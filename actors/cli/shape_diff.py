"""What differs between two shapes: nodes by group, the fields that make a difference, settings.

Pure: values in, values out.  Nodes are compared as the decider compares them, by their whole spec;
what it then does about a difference, and in which order, is `rehearsal`'s to say.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from enum import StrEnum, auto
from pathlib import Path

import msgspec
from msgspec import Struct

from cluster_reconciler.actors.cli.durations import format_duration
from cluster_reconciler.actors.cli.faults import format_path
from cluster_reconciler.actors.cli.shape_file import LoadedShape, ProviderSettings
from cluster_reconciler.decider import ExpandedShape
from cluster_reconciler.executors.secret_words import without_secrets, words_without_secrets
from cluster_reconciler.messages import (
    ClusterShape,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeGroupId,
    ProviderKind,
    ProviderLimits,
    RunNodeGroupSpec,
)

Scalar = str | int | float | bool | None
"""A value at the end of a path; None: nothing stands there."""
_Leaf = tuple[Scalar, str]

_OF_THE_NODE_ITSELF = frozenset(
    {("run_id",), ("logical_node_id",), ("group_id",), ("swarm_join", "expected_logical_node_id")}
)
"""These say which node it is; they are never why one is replaced."""

RENAMINGS_MAX = 10_000
"""Pairs of groups, one gone and one new, that are compared; with more, none is."""
_MAPS = frozenset({("boot", "env"), ("shape", "options"), ("shape", "provider_labels")})
"""Here the key names the value."""


class FieldChange(Struct, frozen=True, gc=False):
    """One value of a node's spec that is another one in the new shape."""

    path: str
    """As in a group of the file, such as `boot.env.GREETING` or `boot.args[1]`."""
    old: Scalar
    new: Scalar
    hidden: bool = False
    """Something that looks like a secret is shown as `***`."""


class ChangeCounts(Struct, frozen=True):
    """How many nodes, by what becomes of them."""

    kept: int = 0
    added: int = 0
    removed: int = 0
    replaced: int = 0

    @property
    def changes(self) -> bool:
        """Whether any node feels it."""
        return bool(self.added or self.removed or self.replaced)


class GroupDiff(Struct, frozen=True):
    """What becomes of the nodes of one group; each list is in the order of their numbers."""

    group_id: str
    old_count: int | None
    """None: the old shape has no such group."""
    new_count: int | None
    kept: tuple[LogicalNodeId, ...]
    added: tuple[LogicalNodeId, ...]
    removed: tuple[LogicalNodeId, ...]
    replaced: tuple[LogicalNodeId, ...]
    changes: tuple[FieldChange, ...]
    """Why: the same for every replaced node of the group."""
    renamed_from: str | None = None
    """A group that is gone, and was as this new one is but for its name."""

    @property
    def counts(self) -> ChangeCounts:
        """The nodes, counted."""
        lists = (self.kept, self.added, self.removed, self.replaced)
        return ChangeCounts(*(len(nodes) for nodes in lists))


class TakesEffect(StrEnum):
    """When a changed setting counts: for a cluster that runs, or only for one that is started."""

    AT_ONCE = auto()
    AT_A_NEW_START = auto()


class SettingChange(Struct, frozen=True, gc=False):
    """One value outside the groups that is another one."""

    path: str
    """As in the file, such as `limits.process.in_flight` or `retry.initial_delay`."""
    old: Scalar
    new: Scalar
    takes_effect: TakesEffect


def diff_groups(old: ExpandedShape, new: ExpandedShape) -> tuple[GroupDiff, ...]:
    """The groups of the new shape in its order, then those that are gone."""
    before = {group.group_id: group for group in old.shape.groups}
    after = {group.group_id: group for group in new.shape.groups}
    renamed = _renamed(before, after)
    return tuple(
        _diff_group(group_id, before, after, old, new, renamed.get(group_id))
        for group_id in dict.fromkeys([*after, *before])
    )


def total(groups: Iterable[GroupDiff]) -> ChangeCounts:
    """The nodes of all groups, counted."""
    each = [msgspec.structs.astuple(group.counts) for group in groups]
    return ChangeCounts(*map(sum, zip(*each, strict=True)))


_Groups = dict[NodeGroupId, RunNodeGroupSpec]


def _renamed(before: _Groups, after: _Groups) -> dict[NodeGroupId, NodeGroupId]:
    """From which group each new one seems to come: the first that is gone and was the same."""
    gone = [group for name, group in before.items() if name not in after]
    come = [group for name, group in after.items() if name not in before]
    if len(gone) * len(come) > RENAMINGS_MAX:
        return {}
    renamed = {}
    for group in come:
        for was in gone:
            if msgspec.structs.replace(was, group_id=group.group_id) == group:
                renamed[group.group_id] = was.group_id
                gone.remove(was)
                break
    return renamed


def _diff_group(
    group_id: NodeGroupId,
    groups_before: _Groups,
    groups_after: _Groups,
    old: ExpandedShape,
    new: ExpandedShape,
    renamed_from: NodeGroupId | None,
) -> GroupDiff:
    """A group's nodes are alike but for their ids: the first one stands for all."""
    before, after = groups_before.get(group_id), groups_after.get(group_id)
    old_count = before.count if before is not None else 0
    new_count = after.count if after is not None else 0
    common = _ids(group_id, 0, min(old_count, new_count))
    changes = diff_specs(old.nodes[common[0]], new.nodes[common[0]]) if common else ()
    return GroupDiff(
        group_id=group_id,
        old_count=before.count if before is not None else None,
        new_count=after.count if after is not None else None,
        kept=() if changes else common,
        added=_ids(group_id, old_count, new_count),
        removed=_ids(group_id, new_count, old_count),
        replaced=common if changes else (),
        changes=changes,
        renamed_from=renamed_from,
    )


def _ids(group_id: str, first: int, end: int) -> tuple[LogicalNodeId, ...]:
    return tuple(LogicalNodeId(f"{group_id}-{number}") for number in range(first, end))


def same_content(old: ClusterShape, new: ClusterShape) -> bool:
    """Whether the shapes are equal but for their generation (design rule 23)."""
    return msgspec.structs.replace(new, generation=old.generation) == old


# -- the fields of a spec -------------------------------------------------------------------------


def diff_specs(old: LogicalNodeSpec, new: LogicalNodeSpec) -> tuple[FieldChange, ...]:
    """The values that differ, but for those that say which node it is; secrets are hidden."""
    before, after = dict(_leaves(old, ())), dict(_leaves(new, ()))
    return tuple(
        _change(path, _leaf(before, path), _leaf(after, path))
        for path in dict.fromkeys([*after, *before])
        if before.get(path) != after.get(path)
    )


def _leaf(leaves: dict[tuple[str | int, ...], Scalar], path: tuple[str | int, ...]) -> _Leaf:
    """What stands at the path, and the word before it in a list of words."""
    last = path[-1]
    before = leaves.get((*path[:-1], last - 1)) if isinstance(last, int) else None
    return leaves.get(path), before if isinstance(before, str) else ""


def _leaves(
    value: object, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Scalar]]:
    """Every value with its place."""
    if path in _OF_THE_NODE_ITSELF:
        return
    parts: Iterable[tuple[str | int, object]]
    if isinstance(value, Struct):
        parts = ((field, getattr(value, field)) for field in value.__struct_fields__)
    elif isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, tuple):
        parts = enumerate(value)
    else:
        assert value is None or isinstance(value, str | int | float), f"{path}: {value!r}"
        yield path, value
        return
    for part, item in parts:
        yield from _leaves(item, (*path, part))


def _change(path: tuple[str | int, ...], old: _Leaf, new: _Leaf) -> FieldChange:
    name = str(path[-1]) if path[:2] in _MAPS else ""
    shown_old, shown_new = _shown(old, name), _shown(new, name)
    hidden = (shown_old, shown_new) != (old[0], new[0])
    return FieldChange(format_path(path), shown_old, shown_new, hidden)


def _shown(leaf: _Leaf, name: str) -> Scalar:
    """The value with what looks like a secret hidden; a reference names one and is shown."""
    value, before = leaf
    if not isinstance(value, str):
        return value
    if before:
        return words_without_secrets((before, value))[1]
    return without_secrets(value, name)


# -- settings -------------------------------------------------------------------------------------


def diff_settings(old: LoadedShape, new: LoadedShape) -> tuple[SettingChange, ...]:
    """What differs outside the groups: first what a running cluster takes at once."""
    return (
        *_diff_limits(old.shape, new.shape),
        *_diff_structs("retry", old.retry, new.retry, TakesEffect.AT_ONCE),
        *_diff_structs("swarm", old.swarm, new.swarm, TakesEffect.AT_A_NEW_START),
        *_diff_providers(old.providers, new.providers),
    )


def _diff_limits(old: ClusterShape, new: ClusterShape) -> Iterator[SettingChange]:
    for name in sorted({*old.limits, *new.limits}):
        before, after = _limit(old, name), _limit(new, name)
        if before != after:
            path = format_path(("limits", name, "in_flight"))
            yield SettingChange(path, before, after, TakesEffect.AT_ONCE)


def _limit(shape: ClusterShape, name: ProviderKind) -> int:
    return shape.limits.get(name, ProviderLimits()).in_flight


def _diff_structs(
    section: str, old: Struct, new: Struct, takes_effect: TakesEffect
) -> Iterator[SettingChange]:
    for field in old.__struct_fields__:
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            shown = _settings_shown(before, after)
            yield SettingChange(f"{section}.{field}", *shown, takes_effect)


def _diff_providers(
    old: tuple[ProviderSettings, ...], new: tuple[ProviderSettings, ...]
) -> Iterator[SettingChange]:
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    for name in dict.fromkeys([*after, *before]):
        for field in ("kind", "state_dir"):
            was, is_now = (getattr(each.get(name), field, None) for each in (before, after))
            if was != is_now:
                path = format_path(("providers", name, field))
                shown = _settings_shown(was, is_now)
                yield SettingChange(path, *shown, TakesEffect.AT_A_NEW_START)


def _settings_shown(old: object, new: object) -> tuple[Scalar, Scalar]:
    """Durations as they are written; exactly, where the short form would hide the difference."""
    shown = _setting_shown(old), _setting_shown(new)
    if shown[0] == shown[1] and isinstance(old, timedelta) and isinstance(new, timedelta):
        return f"{old.total_seconds()}s", f"{new.total_seconds()}s"
    return shown


def _setting_shown(value: object) -> Scalar:
    if isinstance(value, timedelta):
        return format_duration(value) or "0s"
    if isinstance(value, Path):
        return str(value)
    assert value is None or isinstance(value, str | int | float), f"no setting: {value!r}"
    return value
