"""Which events are worth a line: what one node may fill, and when its old news is news again."""

import pytest

from cluster_reconciler.actors.events import ClusterEvent, EventKind
from cluster_reconciler.actors.log_folding import REPEATED_MAX, STEPS_MAX, VARIETY_MAX, LogFolding
from cluster_reconciler.actors.stepping_words import at
from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId

STABLE_S = 60


@pytest.fixture
def folding() -> LogFolding:
    return LogFolding(at(STABLE_S) - at(0))


def event(kind: EventKind, text: str, seconds: float = 0, node: str | None = "g-0") -> ClusterEvent:
    of = None if node is None else LogicalNodeId(node)
    return ClusterEvent(at(seconds), kind, of, NodeAttemptId(1), text)


def word(number: int) -> str:
    """No digits: those would make it the same."""
    return "x" * (number + 1)


def test_a_step_is_written_once_and_so_many_of_a_node(folding: LogFolding) -> None:
    texts = [word(number) for number in range(STEPS_MAX + 2)]

    written = [folding.line(event(EventKind.STAGE, text)) for text in texts]
    other = folding.line(event(EventKind.STAGE, texts[-1], node="g-1"))

    assert (STEPS_MAX, written, other) == (64, [*texts[:64], None, None], texts[-1])
    assert folding.line(event(EventKind.STAGE, texts[0])) is None


def test_failures_beyond_the_eighth_kind_are_counted_as_one(folding: LogFolding) -> None:
    written = [folding.line(event(EventKind.FAILED, word(number))) for number in range(12)]

    assert (VARIETY_MAX, written) == (
        8,
        [
            *(word(number) for number in range(9)),
            f"{word(9)} (seen 2 times)",
            None,
            f"{word(11)} (seen 4 times)",
        ],
    )
    # and a kind that is known is still told apart, as is another node
    known = folding.line(event(EventKind.FAILED, word(0)))
    others = [folding.line(event(EventKind.FAILED, word(n), node="g-1")) for n in range(9)]
    assert (known, others) == (f"{word(0)} (seen 2 times)", [word(n) for n in range(9)])


@pytest.mark.parametrize(("ready_s", "again"), [(STABLE_S - 1, False), (STABLE_S, True)])
def test_a_node_that_was_ready_for_long_is_news_again(
    folding: LogFolding, ready_s: int, again: bool
) -> None:
    folding.line(event(EventKind.FAILED, "ended"))
    folding.line(event(EventKind.STAGE, "leased"))
    folding.line(event(EventKind.READY, "ready", 10))

    written = [
        folding.line(event(EventKind.FAILED, "ended", 10 + ready_s)),
        folding.line(event(EventKind.STAGE, "leased", 11 + ready_s)),
    ]

    assert written == (["ended", "leased"] if again else ["ended (seen 2 times)", None])


def test_the_time_before_a_failure_does_not_count_as_ready(folding: LogFolding) -> None:
    folding.line(event(EventKind.READY, "ready", 0))
    folding.line(event(EventKind.FAILED, "ended", 1))

    assert folding.line(event(EventKind.FAILED, "ended", 1 + STABLE_S)) == "ended (seen 2 times)"


def test_a_node_that_was_reaped_is_forgotten(folding: LogFolding) -> None:
    folding.line(event(EventKind.FAILED, "ended"))
    reaped = [folding.line(event(EventKind.REAPED, "reaped")) for _ in range(2)]

    assert [*reaped, folding.line(event(EventKind.FAILED, "ended"))] == ["reaped"] * 2 + ["ended"]


@pytest.mark.parametrize("kind", [EventKind.OUTPUT, EventKind.REFUSED])
def test_what_is_below_info_is_never_folded(folding: LogFolding, kind: EventKind) -> None:
    assert [folding.line(event(kind, "same")) for _ in range(3)] == ["same"] * 3


def test_a_cluster_that_turns_to_and_fro_is_folded_for_each_generation(folding: LogFolding) -> None:
    texts = ("generation 10001", "generation 10001", "generation 10001", "generation 10002")

    assert [folding.line(event(EventKind.CONVERGED, text, node=None)) for text in texts] == [
        "generation 10001", "generation 10001 (seen 2 times)", None, "generation 10002",
    ]  # fmt: skip


@pytest.mark.parametrize(("longer", "end"), [(0, ""), (1, "...")])
def test_only_what_is_longer_than_the_limit_is_cut(
    folding: LogFolding, longer: int, end: str
) -> None:
    text = "y" * (REPEATED_MAX + longer)
    folding.line(event(EventKind.FAILED, text))

    assert folding.line(event(EventKind.FAILED, text)) == f"{'y' * 200}{end} (seen 2 times)"
