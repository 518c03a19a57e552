"""What holds for every value of `messages` and `decider`: its name, its fields, its wire form.

Written over what the packages hold, so that a new Struct is covered by being there.
"""

import importlib
import pkgutil
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import ModuleType, NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

import cluster_reconciler.decider
import cluster_reconciler.messages
from cluster_reconciler.decider import (
    ClusterState,
    ManagedNode,
    NodeAction,
    PendingOperation,
    ReconcilePlan,
    RetryPolicy,
    RetryState,
)
from cluster_reconciler.messages import (
    DriverMessage,
    Endpoint,
    NodeManagerCommand,
    NodeObservation,
    OperationId,
    OperationOutcome,
)

PACKAGES = (cluster_reconciler.messages, cluster_reconciler.decider)

# Of the design's §3: the name, and the fields that stand first, in this order.
FIELDS = {
    "messages": {
        "ClusterShape": "run_id generation groups limits",
        "RunNodeGroupSpec": "run_id group_id role count provider shape boot swarm_join",
        "LogicalNodeSpec": "run_id logical_node_id group_id role provider shape boot swarm_join",
        "ProviderLimits": "in_flight",
        "DesiredNodeShape": "image disk_gb gpu_name min_gpu_ram_mb min_down_mbps min_up_mbps"
        " min_reliability require_verified provider_labels options",
        "BootSpec": "ssh_user verify_commands start_swactor_command stdout_sources"
        " stderr_sources env args mounts",
        "ProviderMount": "host_path container_path readonly",
        "SwarmJoinTemplate": "orch_swactor_addr join_token_ref",
        "SwarmJoinSpec": "orch_swactor_addr join_token_ref expected_logical_node_id",
        "OperationId": "attempt sequence",
        "LeaseFacts": "provider lease_id provider_contract_id offer_id destroy_handle"
        " provider_metadata",
        "DestroyHandle": "provider lease_id provider_contract_id",
        "SshEndpoint": "host port user auth_ref",
        "LocalEndpoint": "directory",
        "BootstrapFacts": "session_id last_stage last_stdout_seq last_stderr_seq last_observed_at",
        "SwactorFacts": "swactor_id joined_at handed_off_at",
        "NodeRecord": "logical_node_id run_id group_id role desired stage ready lease connection"
        " bootstrap swactor failed_reason failed_at destroyed_at",
        "CreateLease": "spec adopt_only",
        "LookupEndpoint": "lease",
        "StartBootstrap": "session adopt_only",
        "BootstrapConvergenceObserved": "session_id swactor_id",
        "CancelBootstrap": "session_id",
        "DestroyLease": "handle",
        "BootstrapSessionSpec": "run_id logical_node_id lease_id endpoint boot swarm_join",
        "PlannedEffect": "node operation command",
        "LeaseCreated": "lease endpoint",
        "LeaseAbsent": "conclusive",
        "EndpointLookup": "endpoint",
        "BootstrapStarted": "session_id",
        "BootstrapAbsent": "conclusive",
        "BootstrapConvergenceAccepted": "",
        "BootstrapCancelled": "",
        "LeaseDestroyed": "confirmed",
        "EffectError": "reason disposition retry_after",
        "ExecutorResult": "node operation outcome error",
        "OperationSucceeded": "operation outcome",
        "OperationFailed": "operation error",
        "BootstrapObserved": "session_id stage last_stdout_seq last_stderr_seq marker",
        "BootstrapFailed": "session_id reason",
        "SwactorJoined": "session_id swactor_id",
        "BootstrapClosed": "session_id",
        "NodeLost": "reason",
        "UpdateDesired": "shape",
        "NodeObserved": "node attempt observation",
        "Trigger": "",
        "RunPass": "",
        "DeadlineDue": "",
        "SafetyTick": "",
    },
    "decider": {
        "ClusterState": "observed_generation next_attempt_id nodes",
        "ManagedNode": "attempt intent record active_bootstrap pending next_operation_sequence"
        " retry",
        "PendingOperation": "id kind deadline",
        "RetryState": "consecutive_failures next_effect_at restart_at last_error"
        " ambiguous_operation",
        "RetryPolicy": "initial_delay max_delay jitter operation_timeout endpoint_probe_interval"
        " endpoint_timeout join_timeout cancel_timeout stable_after least_delay seed",
        "ReconcilePlan": "actions observed_generation requeue_at",
        "NodeDecision": "action requeue_at",
        "Insert": "attempt desired",
        "BeginDelete": "node expected_attempt",
        "MarkDestroyed": "node expected_attempt",
        "Restart": "node expected_attempt new_attempt desired",
        "Reap": "node expected_attempt",
        "Dispatch": "effect",
    },
}
OTHER_NAMES = {
    "messages": "RunId NodeGroupId RoleId LogicalNodeId ProviderKind ProviderLeaseId SwactorId"
    " NodeAttemptId BootstrapSessionId ShapeError ShapeRefused RunMismatch GenerationRegressed"
    " ContentChanged expand_node_group NodeStage BootstrapStage NodeIntent OperationKind"
    " Disposition Endpoint NodeManagerCommand OperationOutcome NodeObservation",
    "decider": "reconcile reconcile_node observe refusal is_converged ExpandedShape NodeAction",
}
MEMBERS = {
    "NodeStage": "NEW LEASE_REQUESTED LEASE_CREATED ENDPOINT_KNOWN BOOTSTRAP_RUNNING"
    " SWACTOR_JOINED HANDED_OFF DORMANT FAILED DESTROYED",
    "BootstrapStage": "CREATED SSH_CONNECTING SSH_READY STDOUT_STREAMING BOOT_CHECKING"
    " SWACTOR_STARTING WAITING_FOR_SWACTOR_JOIN CONVERGED CLOSED SSH_CONNECT_FAILED"
    " BOOT_CHECK_FAILED START_FAILED SWACTOR_JOIN_FAILED STREAM_ERROR CANCELLED",
    "NodeIntent": "ACTIVE DELETING",
    "Disposition": "DEFINITE AMBIGUOUS ATTEMPT_ENDING",
}


def _modules(package: ModuleType) -> list[ModuleType]:
    names = [
        found.name for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ]
    return [package, *map(importlib.import_module, names)]


def _structs() -> list[type[Struct]]:
    """Every Struct that `messages` and `decider` define."""
    found = {
        value
        for package in PACKAGES
        for module in _modules(package)
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Struct)
        and value.__module__ == module.__name__
    }
    return sorted(found, key=lambda struct: (struct.__module__, struct.__name__))


def _unions() -> dict[str, tuple[type[Struct], ...]]:
    """Every union of Structs that a module names."""
    found = {}
    for package in PACKAGES:
        for module in _modules(package):
            for name, value in vars(module).items():
                members = get_args(value) if isinstance(value, UnionType) else ()
                if members and all(
                    isinstance(member, type) and issubclass(member, Struct) for member in members
                ):
                    found[name] = members
    return found


def _hints(struct: type[Struct]) -> dict[str, Any]:
    hints = get_type_hints(struct)
    return {name: hints[name] for name in struct.__struct_fields__}


STRUCTS = _structs()
UNIONS = _unions()
# A row of the decision table holds functions; it is code, and never crosses a mailbox.
ON_THE_WIRE = [
    struct
    for struct in STRUCTS
    if not any("Callable" in str(hint) for hint in _hints(struct).values())
]


def _name(thing: object) -> str:
    return str(getattr(thing, "__name__", thing))


PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**64 - 1),  # what one JSON number carries exactly
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=12),
    NoneType: st.none(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    timedelta: st.timedeltas(timedelta(days=-3_650), timedelta(days=3_650)),
}
# Where a type refuses values of its own accord, what it takes.
POSITIVE = st.timedeltas(timedelta(milliseconds=1), timedelta(days=3_650))
WITHIN_BOUNDS: dict[type[Struct], dict[str, st.SearchStrategy[Any]]] = {
    RetryPolicy: {
        "jitter": st.floats(0, 1),
        **{name: POSITIVE for name, hint in _hints(RetryPolicy).items() if hint is timedelta},
    },
}


def _values(hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - a type annotation is any object
    """Values of an annotation; one that is not foreseen here fails the test that asks."""
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, NewType):
        return _values(hint.__supertype__)
    arguments = get_args(hint)
    if get_origin(hint) in {Union, UnionType}:
        return st.one_of([_values(argument) for argument in arguments])
    if get_origin(hint) is tuple and arguments[-1] is Ellipsis:
        return st.lists(_values(arguments[0]), max_size=2).map(tuple)
    if get_origin(hint) is tuple:
        return st.tuples(*map(_values, arguments))
    if get_origin(hint) is dict:
        return st.dictionaries(*map(_values, arguments), max_size=2)
    if issubclass(hint, StrEnum):
        return st.sampled_from(hint)
    assert issubclass(hint, Struct), f"teach this test to make values of {hint}"
    bounds = WITHIN_BOUNDS.get(hint, {})
    fields = {name: bounds.get(name, _values(field)) for name, field in _hints(hint).items()}
    return st.builds(hint, **fields)


few = settings(
    max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("struct", STRUCTS, ids=_name)
def test_every_struct_is_a_frozen_value_that_the_collector_skips(struct: type[Struct]) -> None:
    assert struct.__struct_config__.frozen, "purity holds by construction (design §3)"
    assert not struct.__struct_config__.gc, "a state of many nodes must not slow the collector"
    assert struct.__doc__, "a public type says what it means"


@pytest.mark.parametrize("name", sorted(UNIONS))
def test_every_union_is_closed_and_tells_its_members_apart(name: str) -> None:
    tags = [member.__struct_config__.tag for member in UNIONS[name]]
    assert None not in tags
    assert len(set(tags)) == len(tags)


def test_the_unions_of_the_design_are_found() -> None:
    expected = {"Endpoint", "NodeManagerCommand", "OperationOutcome", "NodeObservation"}
    assert expected | {"DriverMessage", "NodeAction"} <= set(UNIONS)


@pytest.mark.parametrize("struct", ON_THE_WIRE, ids=_name)
@few
@given(data=st.data())
def test_every_value_survives_the_wire(struct: type[Struct], data: st.DataObject) -> None:
    value = data.draw(_values(struct))
    assert msgspec.json.decode(msgspec.json.encode(value), type=struct) == value


@pytest.mark.parametrize(
    "union",
    [DriverMessage, Endpoint, NodeManagerCommand, NodeObservation, OperationOutcome, NodeAction],
    ids=["message", "endpoint", "command", "observation", "outcome", "action"],
)
@few
@given(data=st.data())
def test_a_member_of_a_union_comes_back_as_itself(
    union: Any,  # noqa: ANN401 - a union type is a value here
    data: st.DataObject,
) -> None:
    value = data.draw(_values(union))
    back = msgspec.json.decode(msgspec.json.encode(value), type=union)
    assert (type(back), back) == (type(value), value)


def test_what_a_replay_needs_is_on_the_wire() -> None:
    needed = {ClusterState, ManagedNode, PendingOperation, ReconcilePlan, RetryPolicy, RetryState}
    assert needed <= set(ON_THE_WIRE)


@pytest.mark.parametrize(
    ("package", "name", "fields"),
    [
        (package, name, fields)
        for package, structs in FIELDS.items()
        for name, fields in structs.items()
    ],
)
def test_the_designs_fields_stand_first_and_in_order(package: str, name: str, fields: str) -> None:
    # given the struct by its public name
    struct = getattr(importlib.import_module(f"cluster_reconciler.{package}"), name)
    listed = tuple(fields.split())

    # then it begins with the fields of the design, and a field of ours has a default
    assert struct.__struct_fields__[: len(listed)] == listed
    optional = len(struct.__struct_defaults__)
    assert len(struct.__struct_fields__) - optional <= len(listed)


@pytest.mark.parametrize("package", PACKAGES, ids=_name)
def test_every_promised_name_is_public(package: ModuleType) -> None:
    short = package.__name__.rpartition(".")[2]
    promised = {*FIELDS[short], *OTHER_NAMES[short].split()}
    assert promised - set(package.__all__) == set()
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


@pytest.mark.parametrize("name", MEMBERS)
def test_enumerations_are_upper_case_in_code_and_snake_case_on_the_wire(name: str) -> None:
    enumeration = getattr(cluster_reconciler.messages, name)
    members = MEMBERS[name].split()
    assert [member.name for member in enumeration] == members
    assert [member.value for member in enumeration] == [member.lower() for member in members]


def test_identities_are_plain_on_the_wire_and_operations_are_ordered() -> None:
    early, late = OperationId(1, 9), OperationId(2, 0)  # type: ignore[arg-type]  # plain on purpose
    assert early < late
    assert msgspec.json.encode(late) == b'{"attempt":2,"sequence":0}'
