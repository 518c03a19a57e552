"""What a bootstrap session is given, and what is heard of it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cluster_reconciler.executors import MemoryProvider, Stream, SwarmTicket
from cluster_reconciler.executors.carrier import Carrier
from cluster_reconciler.executors.checked_provider import CallFailed, CheckedProvider
from cluster_reconciler.executors.session_context import Listener, SessionIds
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootSpec,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapSessionSpec,
    BootstrapStage,
    CreateLease,
    Disposition,
    EffectError,
    LocalEndpoint,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    NodeGroupId,
    NodeLost,
    NodeObserved,
    ProviderKind,
    ProviderLeaseId,
    RoleId,
    RunId,
    StartBootstrap,
    SwarmJoinSpec,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
RUN, NODE = RunId(7), LogicalNodeId("g-0")
IDENTITY = AttemptIdentity(RUN, NODE, NodeAttemptId(1))
MEMORY = ProviderKind("memory")


class Node:
    """An attempt with a lease; what its session says is written down."""

    def __init__(self) -> None:
        self.provider = MemoryProvider(auto_join=False, now=lambda: T0)
        self.observed: list[NodeObserved] = []
        self.lines: list[tuple[Stream, int, str]] = []
        self.over = False
        self.dropped: list[str] = []
        listener = Listener(
            observed=self.observed.append,
            output=lambda identity, stream, number, line: self.lines.append((stream, number, line)),
            ticket=lambda identity: SwarmTicket("127.0.0.1:1", "swarm-token"),
            is_over=lambda: self.over,
            dropped=lambda identity, text: self.dropped.append(text),
        )
        checked = CheckedProvider(self.provider, MEMORY, IDENTITY)
        self.carrier = Carrier(IDENTITY, checked, timedelta(0), lambda: T0, SessionIds(), listener)
        spec = LogicalNodeSpec(RUN, NODE, NodeGroupId("g"), RoleId("worker"), MEMORY)
        self.carrier.carry_out(CreateLease(spec))

    def start(self, env: dict[str, str] | None = None, join: SwarmJoinSpec | None = None) -> None:
        session = BootstrapSessionSpec(
            RUN,
            NODE,
            ProviderLeaseId("memory-7-g-0-1"),
            LocalEndpoint("here"),
            BootSpec(env=env or {}),
            join or SwarmJoinSpec(),
        )
        self.carrier.carry_out(StartBootstrap(session))
        self.observed.clear()

    def refused(
        self, env: dict[str, str] | None = None, join: SwarmJoinSpec | None = None
    ) -> EffectError:
        with pytest.raises(CallFailed) as failed:
            self.start(env, join)
        return failed.value.error

    @property
    def news(self) -> list[object]:
        return [observed.observation for observed in self.observed]


@pytest.fixture
def node() -> Node:
    return Node()


def test_references_are_resolved_and_literals_passed(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("A_KEY", "from the environment")
    (tmp_path / "key").write_text("from the file\n")
    node.start({"A": "env:A_KEY", "B": f"file:{tmp_path / 'key'}", "C": "literal"})
    context = node.provider.world.sessions[0].context
    assert dict(context.env) == {
        "A": "from the environment",
        "B": "from the file",
        "C": "literal",
    }
    assert "from the" not in repr(context.env)


def test_a_missing_reference_is_a_definite_failure_and_nothing_is_started(node: Node) -> None:
    error = node.refused({"A": "env:SURELY_NOT_SET"})
    assert error.disposition is Disposition.DEFINITE
    assert "boot.env A = env:SURELY_NOT_SET" in error.reason
    assert node.provider.world.story() == ["create_lease"]


def test_the_shape_may_name_another_swarm_and_the_secret_to_join_it_with(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOIN_TOKEN", "their-token")
    node.start(join=SwarmJoinSpec("10.0.0.1:99", "env:JOIN_TOKEN", NODE))
    ticket = node.provider.world.sessions[0].context.ticket
    assert (ticket.address, ticket.token) == ("10.0.0.1:99", "their-token")


def test_a_join_token_that_is_no_reference_is_refused_and_not_shown(node: Node) -> None:
    error = node.refused(join=SwarmJoinSpec("", "the-token-itself"))
    assert "must name a secret" in error.reason
    assert "the-token-itself" not in error.reason


def test_an_exception_that_quotes_the_environment_does_not_show_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "the-secret")
    node.provider.script.start().fail(RuntimeError("exec A=the-secret TOKEN=swarm-token failed"))
    error = node.refused({"A": "env:A_KEY"})
    assert error.reason == (
        "provider memory, start_bootstrap: RuntimeError: exec A=*** TOKEN=*** failed"
    )


def test_what_a_session_says_is_passed_on_with_its_secrets_masked(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "the-secret")
    node.start({"A": "env:A_KEY"})
    context = node.provider.world.sessions[0].context
    stage = BootstrapStage.BOOT_CHECKING
    context.report(BootstrapObserved(context.session_id, stage, marker="with the-secret"))
    context.report(BootstrapFailed(context.session_id, "the-secret was wrong"))
    context.lost("last line: the-secret")
    context.output(Stream.STDERR, 1, "using the-secret")
    assert node.news == [
        BootstrapObserved(context.session_id, stage, marker="with ***"),
        BootstrapFailed(context.session_id, "*** was wrong"),
        NodeLost("last line: ***"),
    ]
    assert node.lines == [(Stream.STDERR, 1, "using ***")]


def test_bad_reports_are_dropped_and_raise_nothing_into_the_provider(node: Node) -> None:
    node.start()
    context = node.provider.world.sessions[0].context
    context.report("joined")  # type: ignore[arg-type]
    context.report(BootstrapFailed(context.session_id, None))  # type: ignore[arg-type]
    context.report(BootstrapFailed(BootstrapSessionId(1), "of another session"))
    context.output("stdlog", 1, "x")  # type: ignore[arg-type]
    context.output(Stream.STDOUT, None, b"x")  # type: ignore[arg-type]
    assert (node.news, node.lines) == ([], [])


def test_a_dropped_line_says_what_its_stream_number_and_text_may_be(node: Node) -> None:
    node.start()
    context = node.provider.world.sessions[0].context
    context.output("stdot", 1, "x")  # type: ignore[arg-type]
    context.output(Stream.STDOUT, "1", "x")  # type: ignore[arg-type]
    context.output("stdout", 1, "x")  # type: ignore[arg-type]
    context.output(None, 1, "x")  # type: ignore[arg-type]
    context.output(Stream.STDOUT, 1, b"x")  # type: ignore[arg-type]

    # The third of what was dropped is not told: a chatterbox fills no disk.
    assert [text.partition("): ")[2] for text in node.dropped] == [
        "expected its stream to be Stream ('stdout' or 'stderr'), found 'stdot'",
        "expected its number to be int, found str",
        "expected its line to be str, found bytes",
    ]
    assert node.lines == [(Stream.STDOUT, 1, "x")]


def test_a_loss_is_never_dropped_for_its_wording(node: Node) -> None:
    node.start()
    node.provider.world.sessions[0].context.lost(None)  # type: ignore[arg-type]
    assert [type(news) for news in node.news] == [NodeLost]


def test_nobody_hears_of_an_attempt_that_is_over(node: Node) -> None:
    node.start()
    node.over = True
    context = node.provider.world.sessions[0].context
    context.report(BootstrapFailed(context.session_id, "late"))
    context.lost("late")
    context.output(Stream.STDOUT, 1, "late")
    assert (node.news, node.lines) == ([], [])


def test_session_ids_rise_within_an_attempt_and_never_meet() -> None:
    ids, large = SessionIds(), NodeAttemptId(1 << 60)
    handed_out = [ids.next(NodeAttemptId(a), n) for a in (1, 2, 3) for n in (0, 1)]
    handed_out += [ids.next(large, n) for n in (0, 1)]
    assert len(set(handed_out)) == len(handed_out)
    assert all(0 < number < 1 << 53 for number in handed_out)
    assert ids.next(large, 2) > handed_out[-1]
