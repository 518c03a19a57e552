"""What a shape means, and which shapes are refused (spec §5.1; design §3, rules 4, 5; L1, L2)."""

import json
import math
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster_reconciler.decider import expand_shape, reconcile
from cluster_reconciler.messages import (
    NODES_MAX,
    BootSpec,
    ClusterShape,
    DesiredNodeShape,
    LogicalNodeId,
    NodeGroupId,
    ProviderKind,
    ProviderMount,
    RunId,
    RunNodeGroupSpec,
    ShapeError,
    SwarmJoinSpec,
    SwarmJoinTemplate,
    expand_node_group,
)
from tests.decider_words import T0, group, shape, state_of


def test_a_group_expands_to_nodes_that_carry_all_of_it() -> None:
    wanted = replace(
        group("web", 2, provider="cloud", command="serve"),
        shape=DesiredNodeShape(image="debian"),
        swarm_join=SwarmJoinTemplate("10.0.0.1:7000", "env:TOKEN"),
    )

    nodes = shape(wanted).expand()

    assert list(nodes) == ["web-0", "web-1"]
    found = nodes[LogicalNodeId("web-1")]
    assert (found.run_id, found.group_id, found.role) == (7, "web", "worker")
    assert (found.provider, found.shape, found.boot) == ("cloud", wanted.shape, wanted.boot)
    assert found.swarm_join == SwarmJoinSpec("10.0.0.1:7000", "env:TOKEN", LogicalNodeId("web-1"))


def test_scaling_down_drops_the_highest_indices() -> None:
    before, after = (shape(group(count=count)).expand() for count in (4, 2))

    assert before.keys() - after.keys() == {"g-2", "g-3"}
    assert expand_node_group(group(count=0)) == ()


def test_l1_two_groups_of_one_name_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"group id 'g' is used twice"):
        shape(group(), group(count=0)).expand()


def test_l1_a_group_of_another_run_is_refused() -> None:
    stranger = replace(group("b"), run_id=RunId(8))

    with pytest.raises(ShapeError, match=r"group 'b' belongs to run 8, its shape to run 7"):
        shape(group("a"), stranger).expand()


@pytest.mark.parametrize("rate", ["min_down_mbps", "min_up_mbps", "min_reliability"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_l1_a_rate_that_is_no_finite_number_is_refused(rate: str, value: float) -> None:
    # it would never equal itself, or never be met: endless replacement
    wanted = replace(group(), shape=replace(DesiredNodeShape(), **{rate: value}))

    with pytest.raises(ShapeError, match=rf"group 'g': {rate} must be a finite number"):
        shape(wanted).expand()


@given(st.lists(st.text("a-01", min_size=1, max_size=4), unique=True, max_size=6))
def test_the_nodes_of_two_groups_never_share_an_id(names: list[str]) -> None:
    # however much the names look like node ids themselves: `a`, `a-1`, `a-1-0`
    nodes = shape(*(group(name, 3) for name in names)).expand()

    assert len(nodes) == 3 * len(names)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (shape(group(""), generation=1), "empty group_id"),
        (shape(group(count=-1)), "count must be at least 0, found -1"),
        (shape(group(provider="")), "provider must not be empty"),
        (shape(group(), generation=-1), "generation must be at least 0, found -1"),
        (shape(group(), limits={"memory": 0}), "in_flight must be at least 1, found 0"),
        (shape(group("a", NODES_MAX), group("b")), f"at most {NODES_MAX} may be"),
    ],
)
def test_a_shape_that_cannot_be_meant_is_refused(broken: ClusterShape, says: str) -> None:
    with pytest.raises(ShapeError, match=says):
        broken.expand()


def _wanting(**wants: object) -> ClusterShape:
    """A shape whose machine holds values that the type checker would not let through."""
    wanted = replace(DesiredNodeShape(), **wants)
    return shape(replace(group(), shape=wanted))


@pytest.mark.parametrize(
    "value",
    [
        5,
        None,
        b"debian",
        bytearray(b"debian"),
        memoryview(b"debian"),
        ["debian"],
        object,
        datetime(2026, 1, 1, tzinfo=UTC),
        timedelta(days=1),
        Decimal("1.5"),
        UUID(int=3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_text_field_takes_text_alone(value: object) -> None:
    # what msgspec could write as text, such as bytes and dates, is no text all the same
    with pytest.raises(ShapeError, match=r"wrong type.*groups\[0\]\.shape\.image"):
        _wanting(image=value).expand()


@pytest.mark.parametrize("value", [True, 1.5, "5", None])
def test_a_number_field_takes_whole_numbers_alone(value: object) -> None:
    with pytest.raises(ShapeError, match=r"wrong type.*groups\[0\]\.shape\.disk_gb"):
        _wanting(disk_gb=value).expand()


@pytest.mark.parametrize("labels", [{1: "a"}, {"a": 1}, {b"a": "x"}, None, [("a", "b")]])
def test_labels_map_text_to_text(labels: object) -> None:
    with pytest.raises(ShapeError, match=r"wrong type.*provider_labels"):
        _wanting(provider_labels=labels).expand()


@pytest.mark.parametrize("commands", ["true", {"true"}, frozenset({"true"}), 3])
def test_commands_stand_in_an_order(commands: object) -> None:
    # a set has none: the same shape would differ from one process to the next
    boot = replace(BootSpec(), verify_commands=commands)

    with pytest.raises(ShapeError, match="wrong type"):
        shape(replace(group(), boot=boot)).expand()


def test_what_cannot_be_written_down_is_refused() -> None:
    # a lone surrogate would break every trace and message that carries it
    with pytest.raises(ShapeError, match="cannot be written"):
        _wanting(image="\ud800").expand()


def test_groups_that_are_none_or_contain_themselves_are_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    broken: tuple[object, ...] = (None, 5, ({},), endless)
    for groups in broken:
        with pytest.raises(ShapeError, match="wrong type"):
            replace(shape(), groups=groups).expand()


def test_a_caller_who_edits_his_own_maps_and_lists_afterwards_changes_nothing() -> None:
    # given a shape whose lists and maps stay in the caller's hands
    labels, env, commands = {"zone": "a"}, {"A": "1"}, ["true"]
    groups = [group("extra")]
    boot = replace(BootSpec(env=env), verify_commands=commands)
    mine = replace(group(), boot=boot, shape=DesiredNodeShape(provider_labels=labels))
    offered = replace(shape(), groups=groups)
    groups.append(mine)
    accepted = expand_shape(offered)
    before = msgspec.json.encode((accepted.shape, accepted.nodes))

    labels["zone"] = "b"
    env.clear()
    commands.append("false")
    groups.clear()
    offered.limits[ProviderKind("memory")] = None  # type: ignore[assignment]

    assert msgspec.json.encode((accepted.shape, accepted.nodes)) == before
    assert accepted.nodes[LogicalNodeId("g-0")].shape.provider_labels == {"zone": "a"}


def test_equal_specs_of_two_generations_are_the_same_object() -> None:
    first = expand_shape(shape(group("a"), group("b"), generation=1))

    second = expand_shape(
        shape(group("a"), group("b", command="x"), group("c"), generation=2), first
    )

    same = {node for node in second.nodes if second.nodes[node] is first.nodes.get(node)}
    assert same == {"a-0"}


RICH = RunNodeGroupSpec(
    RunId(7),
    NodeGroupId("g"),
    group().role,
    2,
    ProviderKind("memory"),
    DesiredNodeShape(
        image="debian",
        disk_gb=20,
        min_up_mbps=5.0,
        min_reliability=0.99,
        provider_labels={"b": "2", "a": "1"},
    ),
    BootSpec(
        verify_commands=("test -w .",),
        env={"KEY": "env:KEY"},
        args=("--x", ""),
        mounts=(ProviderMount("/a", "/b", True),),
    ),
    SwarmJoinTemplate("host:1"),
)


def _through_json(value: object) -> object:
    return json.loads(json.dumps(value, sort_keys=True))


def _through_yaml(value: object) -> object:
    return yaml.safe_load(yaml.safe_dump(value))


def _through_toml(value: object) -> object:
    return tomllib.loads(f"shape = {_toml(value)}")["shape"]


def _toml(value: object) -> str:
    """An inline value; what is None is left out, for TOML has no word for it."""
    if isinstance(value, dict):
        known = {key: item for key, item in value.items() if item is not None}
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in known.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value)


@pytest.mark.parametrize("through", [_through_json, _through_yaml, _through_toml])
def test_a_shape_that_went_through_a_file_replaces_nothing(
    through: Callable[[object], object],
) -> None:
    # given a cluster built from a shape, and the same shape written out, defaults and all
    built = shape(RICH)
    written = msgspec.to_builtins(built)

    read = msgspec.convert(through(written), ClusterShape)

    assert read.expand() == built.expand()


def test_an_integer_where_a_rate_is_meant_is_the_same_rate() -> None:
    whole, fraction = _wanting(min_up_mbps=5), _wanting(min_up_mbps=5.0)

    assert msgspec.json.encode(whole.expand()) == msgspec.json.encode(fraction.expand())


def test_one_real_change_concerns_exactly_its_own_nodes() -> None:
    before = shape(group("a", 2), group("b", 2)).expand()

    after = shape(group("a", 2), group("b", 2, command="new"), generation=2).expand()

    assert {node for node in before if before[node] != after[node]} == {"b-0", "b-1"}


def test_limits_are_no_part_of_a_spec() -> None:
    assert shape(group(), limits={"memory": 1}).expand() == shape(group()).expand()


def test_an_invalid_shape_is_refused_before_anything_is_planned() -> None:
    with pytest.raises(ShapeError):
        reconcile(state_of(), shape(group(), group()), T0)
