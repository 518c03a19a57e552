"""What the live view shows for a status, a time and a size, as text; and how it gets there."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from cluster_reconciler.actors.cli.live_cells import Span, Tone, cut, span_text
from cluster_reconciler.actors.cli.live_model import Memory, Moment, Size, live_lines, remembered
from cluster_reconciler.actors.cli.live_painter import PaintedLine, Painter
from cluster_reconciler.actors.status import ClusterStatus, NodeStatus, StatusCounts
from cluster_reconciler.messages import (
    LogicalNodeId,
    NodeAttemptId,
    NodeGroupId,
    NodeIntent,
    NodeStage,
    ProviderKind,
    RunId,
)

BAR_OFF = "\u2591"
LONG = "a-long-group-name-worker-007"
T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def ready(name: str, attempt: int = 1) -> NodeStatus:
    return NodeStatus(
        LogicalNodeId(name), NodeGroupId(name.rpartition("-")[0]), ProviderKind("process"), True,
        NodeAttemptId(attempt), NodeStage.DORMANT, NodeIntent.ACTIVE, True, None, None, T0,
        "lease-1", 5, 0, None, None,
    )  # fmt: skip


def starting(name: str, attempt: int = 1) -> NodeStatus:
    return replace(
        ready(name, attempt), ready=False, stage=NodeStage.BOOTSTRAP_RUNNING,
        waits_for="the node to join the swarm (bootstrap: boot checking)",
        until=T0 + timedelta(minutes=10),
    )  # fmt: skip


def failing(name: str, attempt: int = 1) -> NodeStatus:
    return replace(starting(name, attempt), last_error="no disk is left")


def leaving(name: str) -> NodeStatus:
    return replace(
        ready(name), ready=False, desired=False, intent=NodeIntent.DELETING,
        waits_for="the destroy of its lease", until=T0 + timedelta(minutes=2),
    )  # fmt: skip


def status(*nodes: NodeStatus, warnings: tuple[str, ...] = ()) -> ClusterStatus:
    wanted = sum(node.desired for node in nodes)
    done = sum(node.ready for node in nodes)
    counts = StatusCounts(wanted, done, wanted - done, 0, 0, 0, len(nodes) - wanted)
    return ClusterStatus(T0, RunId(7), 1, 1, done == len(nodes), counts, nodes, None, warnings)


def shown(
    now: ClusterStatus,
    columns: int = 80,
    lines: int = 24,
    *,
    after_s: int = 12,
    unicode: bool = False,
) -> list[str]:
    memory = remembered(Memory(), now)
    at = replace(now, at=T0 + timedelta(seconds=after_s))
    moment = Moment(at, memory, at.at, Size(columns, lines), unicode)
    return ["".join(span.text for span in line) for line in live_lines(moment)]


def painted(text: str) -> PaintedLine:
    return PaintedLine(text, cell_len(text))


class TestRows:
    def test_a_small_cluster_is_shown_whole(self) -> None:
        nodes = (ready("web-0"), starting("web-1", 12), failing("worker-0", 3))

        assert shown(status(*nodes)) == [
            "   0:12 ######--------------  1 of 3 ready  2 starting  generation 1",
            "  NODE      STAGE             ATTEMPT   AGE UNTIL  WAITS FOR",
            "web: 1 of 2 ready",
            "  web-0     ready                   1   12s",
            "  web-1     bootstrap running      12   12s 9m48s  node to join the swarm (boo.",
            "worker: 0 of 1 ready",
            "  worker-0  bootstrap running       3   12s 9m48s  node to join the swarm (boo.",
            "    no disk is left",
        ]

    def test_a_wide_terminal_shows_what_it_waits_for_whole(self) -> None:
        told = shown(status(starting("web-0")), columns=200, unicode=True)

        assert told[0] == f"   0:12 {BAR_OFF * 24}  0 of 1 ready  1 starting  generation 1"
        assert told[3].endswith("9m48s  node to join the swarm (boot checking)")

    @pytest.mark.parametrize(
        ("columns", "heading"),
        [
            (80, "  NODE   STAGE             ATTEMPT   AGE UNTIL  WAITS FOR"),
            (72, "  NODE   STAGE             ATTEMPT UNTIL  WAITS FOR"),
            (60, "  NODE   STAGE             UNTIL  WAITS FOR"),
            (45, "  NODE  UNTIL  STAGE OR WAIT"),
            (20, "  NODE  UNTIL  STA."),
        ],
    )
    def test_a_narrow_terminal_has_fewer_columns(self, columns: int, heading: str) -> None:
        assert shown(status(starting("web-0")), columns=columns)[1] == heading

    @pytest.mark.parametrize("columns", [1, 2, 10, 40, 79, 80, 200])
    @pytest.mark.parametrize("lines", [1, 2, 5, 10, 24, 60])
    @pytest.mark.parametrize("count", [0, 1, 5, 300])
    def test_no_line_wraps_and_some_are_left_for_what_stands_above(
        self, columns: int, lines: int, count: int
    ) -> None:
        kinds = (ready, starting, failing, leaving)
        nodes = (kinds[i % 4](f"group{i % 7}-\u6f22{i}") for i in range(count))
        warnings = ("a warning " * 9, "another", "a third")

        told = shown(status(*nodes, warnings=warnings), columns, lines, unicode=True)

        assert len(told) <= max(1, lines - 1)
        assert max(painted(line).cells for line in told) < columns

    def test_a_text_from_outside_is_harmless(self) -> None:
        evil = replace(failing("web-0"), last_error="one\n\x1b[2Jtwo", waits_for="\x07bell")

        assert shown(status(evil))[3:] == [
            "  web-0  bootstrap running       1   12s 9m48s  \\x07bell",
            "    one | \\x1b[2Jtwo",
        ]

    def test_a_status_that_is_old_says_so(self) -> None:
        now = status(ready("web-0"))
        moment = Moment(now, remembered(Memory(), now), T0 + timedelta(seconds=9), Size(80, 24))

        assert "this is 9s old" in "".join(span.text for span in live_lines(moment)[0])

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (-1, "0s"), (99, "99s"), (100, "1m40s"), (599, "9m59s"), (600, "10m"), (3599, "59m"),
            (3600, "1h00m"), (35_999, "9h59m"), (36_000, "10h"), (359_999, "99h"),
            (360_000, "4d"), (86_400 * 9999, "9999d"),
        ],
    )  # fmt: skip
    def test_a_span_fits_its_column(self, seconds: int, text: str) -> None:
        assert span_text(timedelta(seconds=seconds)) == text

    @pytest.mark.parametrize(
        ("columns", "row"),
        [
            (200, f"  {LONG}  backing off             1   12s 9m48s  restart after a failure"),
            (80, "  .oup-name-worker-007  backing off       9m48s  restart after a failure"),
            (40, "  .orker-007 9m48s  restart after a fa."),
        ],
    )  # fmt: skip
    def test_what_a_node_waits_for_and_its_error_can_be_read_at_every_width(
        self, columns: int, row: str
    ) -> None:
        waiting = replace(
            failing(LONG), stage=NodeStage.DESTROYED, waits_for="its restart after a failure"
        )

        assert shown(status(waiting), columns=columns)[3:] == [row, "    no disk is left"]

    def test_where_not_every_error_has_room_those_that_are_well_make_place(self) -> None:
        nodes = [ready(f"web-{i}") for i in range(14)]
        nodes[5], nodes[9] = failing("web-5"), failing("web-9")

        assert [line.split()[0] for line in shown(status(*nodes))[3:]] == [
            "web-5", "no", "web-9", "no",
        ]  # fmt: skip


class TestFolding:
    def test_nodes_at_rest_fold_into_the_line_of_their_group(self) -> None:
        web = [ready(f"web-{i}") for i in range(100)]
        worker = [ready(f"worker-{i}") for i in range(200)]
        worker[7], worker[9] = failing("worker-7"), starting("worker-9")

        assert shown(status(*web, *worker)) == [
            "   0:12 ###################-  298 of 300 ready  2 starting  generation 1",
            "  NODE        STAGE             ATTEMPT   AGE UNTIL  WAITS FOR",
            "web: 100 of 100 ready",
            "worker: 198 of 200 ready",
            "  worker-7    bootstrap running       1   12s 9m48s  node to join the swarm (b.",
            "    no disk is left",
            "  worker-9    bootstrap running       1   12s 9m48s  node to join the swarm (b.",
        ]

    def test_those_at_work_for_longest_are_shown_the_failing_ones_before_them(self) -> None:
        early = [starting(f"web-{i}") for i in range(50, 100)]
        late = [starting(f"web-{i}") for i in range(50)]
        first = remembered(Memory(), status(*early))
        now = status(*late[:49], failing("web-49"), *early)
        memory = remembered(first, now)

        told = live_lines(Moment(now, memory, T0, Size(80, 24)))

        assert ["".join(span.text for span in line).split()[0] for line in told[3:]] == [
            "web-49", "no", "web-50", "web-51", "web-52", "web-53", "web-54", "web-55", "web-56",
            "web-57", "web-58", "web-59", "web-60", "and",
        ]  # fmt: skip
        assert "".join(span.text for span in told[-1]) == "  and 88 nodes more at work"

    def test_what_is_shown_stays_until_it_is_at_rest(self) -> None:
        nodes = [starting(f"web-{i}") for i in range(100)]
        before = remembered(Memory(), status(*nodes))
        nodes[3] = ready("web-3")
        after = remembered(before, status(*nodes))

        assert after.busy == tuple(f"web-{i}" for i in range(100) if i != 3)

    def test_groups_fold_as_well(self) -> None:
        nodes = [ready(f"g{g}-{i}") for g in range(50) for i in range(4)]
        nodes[9] = starting("g2-1")

        assert shown(status(*nodes)) == [
            "   0:12 ###################-  199 of 200 ready  1 starting  generation 1",
            "  NODE   STAGE             ATTEMPT   AGE UNTIL  WAITS FOR",
            "g2: 3 of 4 ready",
            "  g2-1   bootstrap running       1   12s 9m48s  node to join the swarm (boot c.",
            "49 other groups: 196 of 196 ready",
        ]

    def test_a_drain_counts_what_is_gone_and_says_how_to_force(self) -> None:
        first = remembered(Memory(), status(*(ready(f"web-{i}") for i in range(3))))
        now = status(leaving("web-0"), leaving("web-2"))

        hint = "Ctrl-C again ends at once, may leave machines"
        moment = Moment(now, remembered(first, now), T0, Size(80, 24), unicode=False, hint=hint)

        told = live_lines(moment)
        unasked = live_lines(replace(moment, hint=None))

        assert ["".join(span.text for span in line) for line in told] == [
            "   0:00 ######--------------  1 of 3 gone  2 leaving  generation 1",
            "draining, 2 nodes to go; Ctrl-C again ends at once, may leave machines",
            "  NODE   STAGE             ATTEMPT   AGE UNTIL  WAITS FOR",
            "web: 2 leaving",
            "  web-0  deleting                1    0s 2m00s  destroy of its lease",
            "  web-2  deleting                1    0s 2m00s  destroy of its lease",
        ]
        assert unasked == [told[0], *told[2:]]


class TestCutting:
    def test_a_wide_character_is_not_halved(self) -> None:
        line = (Span("ab"), Span("\u6f22\u5b57\u6f22", Tone.BAD))

        assert cut(line, 6, unicode=True) == (Span("ab"), Span("\u6f22 \u2026", Tone.BAD))


class TestPainter:
    def test_what_has_not_changed_is_not_written(self) -> None:
        painter = Painter()
        painter.paint([painted("one"), painted("two"), painted("three")], 80)

        again = painter.paint([painted("one"), painted("two"), painted("three")], 80)
        one = painter.paint([painted("one"), painted("2"), painted("three")], 80)

        assert (again, one) == ("", "\r\x1b[3A\n\x1b[K2\n\n\x1b[J")

    def test_lines_above_push_the_view_down(self) -> None:
        painter = Painter()
        painter.paint([painted("view")], 80)

        assert painter.paint([painted("view")], 80, "told\n") == (
            "\r\x1b[1A\x1b[Ktold\x1b[K\n\x1b[Kview\n\x1b[J"
        )

    def test_a_narrower_terminal_has_broken_the_lines(self) -> None:
        painter = Painter()
        painter.paint([painted("x" * 70), painted("y" * 30)], 80)

        assert painter.erase(30) == ("\r\x1b[K\r\x1b[4A" + "\x1b[K\n" * 4 + "\x1b[4A")

    def test_what_is_erased_or_forgotten_is_not_erased_again(self) -> None:
        painter = Painter()
        painter.paint([painted("view")], 80)
        painter.erase(80)
        assert painter.erase(80, "told\n") == "told\n"

        painter.paint([painted("view")], 80)
        painter.forget()
        assert painter.paint([painted("view")], 80) == "\r\x1b[Kview\n\x1b[J"
