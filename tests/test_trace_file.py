"""The trace file: what was handled comes back whole and typed, whatever happened to its end."""

import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from loguru import logger

from cluster_reconciler.actors.mailbox import MailboxRecord, correlate
from cluster_reconciler.actors.trace import (
    TRACE_VERSION,
    OpaqueMessage,
    SubmitAnswer,
    TraceError,
    TraceHeader,
    TraceLine,
    TraceTorn,
    TraceVersionError,
    TraceWriter,
    read_trace,
)
from cluster_reconciler.actors.trace_marks import state_digest
from cluster_reconciler.decider import ClusterState, RetryPolicy
from cluster_reconciler.messages import (
    BootSpec,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapStage,
    ClusterShape,
    DeadlineDue,
    DestroyHandle,
    Disposition,
    EffectError,
    ExecutorResult,
    LeaseCreated,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeId,
    NodeAttemptId,
    NodeGroupId,
    NodeLost,
    NodeObserved,
    OperationFailed,
    OperationId,
    ProviderKind,
    ProviderLeaseId,
    ProviderLimits,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    RunPass,
    SafetyTick,
    Trigger,
    UpdateDesired,
)

NOW = datetime(2026, 1, 1, 12, 30, 1, 234_567, tzinfo=UTC)
NODE = LogicalNodeId("worker-0")
ATTEMPT = NodeAttemptId(2**64 - 1)
OPERATION = OperationId(ATTEMPT, 2)
KIND = ProviderKind("memory")
SHAPE = ClusterShape(
    RunId(7),
    3,
    (RunNodeGroupSpec(RunId(7), NodeGroupId("worker"), RoleId("w"), 2, KIND,
                      boot=BootSpec(env={"KEY": "env:KEY"})),),
    {KIND: ProviderLimits(3)},
)  # fmt: skip
POLICY = RetryPolicy(initial_delay=timedelta(milliseconds=5), seed=11)
DIGEST = "0a1b2c3d"
ERROR = EffectError("no capacity", Disposition.AMBIGUOUS, timedelta(seconds=30))
LEASE = LeaseFacts(
    KIND, ProviderLeaseId("lease-1"), destroy_handle=DestroyHandle(KIND, ProviderLeaseId("lease-1"))
)
MESSAGES: tuple[object, ...] = (
    UpdateDesired(SHAPE),
    NodeObserved(NODE, ATTEMPT, NodeLost("gone")),
    NodeObserved(NODE, ATTEMPT, OperationFailed(OPERATION, ERROR)),
    NodeObserved(
        NODE,
        ATTEMPT,
        BootstrapObserved(BootstrapSessionId(5), BootstrapStage.BOOT_CHECKING, 1, 2, "marker"),
    ),
    ExecutorResult(NODE, OPERATION, LeaseCreated(LEASE, LocalEndpoint("/somewhere"))),
    ExecutorResult(NODE, OPERATION, None, ERROR),
    Trigger(),
    RunPass(),
    DeadlineDue(judged=True),
    SafetyTick(),
)


def record(sequence: int, message: object) -> MailboxRecord:
    return MailboxRecord(
        sequence, NOW, "driver", type(message).__name__, "", *correlate(message), 0, 0.0
    )


def write(path: Path, *messages: object) -> None:
    writer = TraceWriter(path, shape=SHAPE, policy=POLICY, started_at=NOW)
    for sequence, message in enumerate(messages, 1):
        writer.write(record(sequence, message), message)
    writer.close()


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lines.append, level="TRACE")
    yield lines
    logger.remove(sink)


def test_everything_that_was_written_comes_back(tmp_path: Path) -> None:
    # Given a trace with every message of the driver, answers and digests
    path = tmp_path / "trace.jsonl"
    answers = (
        SubmitAnswer(OPERATION),
        SubmitAnswer(OPERATION, raised="the executor is closed"),
        SubmitAnswer(OPERATION, ExecutorResult(NODE, OPERATION, None, ERROR)),
    )
    writer = TraceWriter(path, shape=SHAPE, policy=POLICY, started_at=NOW)
    for sequence, message in enumerate(MESSAGES, 1):
        writer.write(record(sequence, message), message, answers, DIGEST)
    writer.close()
    writer.close()
    writer.write(record(99, Trigger()), Trigger())

    # When it is read
    header, *lines = read_trace(path)

    # Then nothing is missing, and nothing has changed
    assert isinstance(header, TraceHeader)
    assert (header.shape, header.policy, header.seed, header.started_at, header.version) == (
        SHAPE, POLICY, 11, NOW, TRACE_VERSION,
    )  # fmt: skip
    assert header.versions.keys() == {
        "cluster-reconciler", "msgspec", "platform", "pykka", "python",
    }  # fmt: skip
    assert lines == [
        TraceLine(sequence, NOW, "driver", message, answers, DIGEST)  # type: ignore[arg-type]  # each is a DriverMessage
        for sequence, message in enumerate(MESSAGES, 1)
    ]


def test_each_line_is_on_its_way_before_the_next_message(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    writer = TraceWriter(path, shape=SHAPE, policy=POLICY, started_at=NOW)

    writer.write(record(1, Trigger()), Trigger())

    # Another reader sees it although nothing was closed: a killed process loses nothing.
    assert len(list(read_trace(path))) == 2
    writer.close()


def test_only_its_owner_may_read_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    write(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_query_stands_as_its_type(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    write(path, {"secret": "hunter2"})

    _, line = read_trace(path)
    assert isinstance(line, TraceLine)
    assert line.message == OpaqueMessage("dict")
    assert b"hunter2" not in path.read_bytes()


def test_what_cannot_be_encoded_stands_as_its_type_and_the_rest_goes_on(
    tmp_path: Path, log: list[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    foreign = NodeObserved(NODE, ATTEMPT, NodeLost(object()))  # type: ignore[arg-type]  # a host's bug

    write(path, foreign, Trigger())

    _, first, second = read_trace(path)
    assert isinstance(first, TraceLine)
    assert isinstance(second, TraceLine)
    assert (first.message, second.message) == (OpaqueMessage("NodeObserved"), Trigger())
    assert "a message cannot be encoded" in "".join(log)


def test_redact_sees_shape_and_messages_first(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    def redact(value: object) -> object:
        if isinstance(value, ClusterShape):
            return msgspec.structs.replace(value, groups=())
        if isinstance(value, UpdateDesired):
            return UpdateDesired(msgspec.structs.replace(value.shape, groups=()))
        raise ValueError("a hook that fails")

    writer = TraceWriter(path, shape=SHAPE, policy=POLICY, started_at=NOW, redact=redact)
    for sequence, message in enumerate((UpdateDesired(SHAPE), Trigger()), 1):
        writer.write(record(sequence, message), message)
    writer.close()

    header, update, trigger = read_trace(path)
    assert isinstance(header, TraceHeader)
    assert header.shape.groups == ()
    assert isinstance(update, TraceLine)
    assert isinstance(trigger, TraceLine)
    assert update.message == UpdateDesired(msgspec.structs.replace(SHAPE, groups=()))
    assert trigger.message == OpaqueMessage("Trigger")


def test_a_full_disk_ends_the_trace_and_not_the_driver(log: list[str]) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this platform has no device that is always full")

    writer = TraceWriter(full, shape=SHAPE, policy=POLICY, started_at=NOW)
    writer.write(record(1, Trigger()), Trigger())
    writer.close()

    ends = [line for line in log if "ends here, it cannot be written" in line]
    assert len(ends) == 1


def test_a_trace_is_read_up_to_where_it_breaks_off_at_any_byte(tmp_path: Path) -> None:
    path, torn = tmp_path / "trace.jsonl", tmp_path / "torn.jsonl"
    write(path, Trigger(), NodeObserved(NODE, ATTEMPT, NodeLost("gone")))
    whole = path.read_bytes()
    complete = list(read_trace(path))

    for length in range(1, len(whole)):
        torn.write_bytes(whole[:length])
        *read, last = read_trace(torn)
        if isinstance(last, TraceTorn):
            assert read == complete[: len(read)]
            assert last.line == len(read) + 1
            assert "breaks off in" in last.reason
        else:  # Only a newline is missing, or nothing.
            assert [*read, last] == complete[: len(read) + 1]


def test_a_line_that_is_broken_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    write(path, Trigger(), Trigger())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"type":"message"}\n' + lines[2])

    with pytest.raises(TraceError, match=r"line 2 cannot be read: .*missing required field"):
        list(read_trace(path))


def test_a_trace_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b'{"type":"header","version":99,"something":"new"}\n')

    with pytest.raises(TraceVersionError, match="format 99, this program reads format 2") as raised:
        list(read_trace(path))

    assert (raised.value.found, raised.value.expected) == (99, TRACE_VERSION)


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"", "it is empty"), (b"hello\n", "its first line is no header"), (b"{}\n", "no header")],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)

    with pytest.raises(TraceError, match=found):
        list(read_trace(path))


def test_digests_are_stable_and_tell_states_apart() -> None:
    found = [
        state_digest(ClusterState(generation, NodeAttemptId(attempt)), names)
        for generation, attempt, names in (
            (0, 1, ()),
            (0, 1, ()),
            (1, 1, ()),
            (0, 2, ()),
            (0, 1, (NODE,)),
        )
    ]
    assert found[0] == found[1]
    assert len(set(found)) == 4
    # The same value in every process and on every machine, or no replay could be compared.
    assert found[0] == "18cd84cd"
