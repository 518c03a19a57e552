"""The bounds of the live view: what is counted, what is told from which size or age on, and how a
full picture shares out its lines."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from cluster_reconciler.actors.cli.live_cells import Line, Tone, at_rest
from cluster_reconciler.actors.cli.live_model import Memory, Moment, Size, live_lines, remembered
from cluster_reconciler.actors.status import ClusterStatus, NodeStatus
from cluster_reconciler.messages import NodeAttemptId
from tests.test_cli_live_model import T0, failing, leaving, ready, shown, starting, status

BAR = 1
"""The place of the bar's done part in the first line."""


def picture(*seen: ClusterStatus, after: timedelta = timedelta(0)) -> list[Line]:
    """What a terminal of 80 x 24 shows, so long after the last of the statuses."""
    memory = Memory()
    for each in seen:
        memory = remembered(memory, each)
    return live_lines(Moment(seen[-1], memory, seen[-1].at + after, Size(80, 24), unicode=False))


def text(line: Line) -> str:
    return "".join(span.text for span in line)


def first_words(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines]


def webs(count: int) -> list[NodeStatus]:
    return [ready(f"web-{i}") for i in range(count)]


class TestProgress:
    def test_a_drain_counts_from_the_nodes_that_were_wanted_last(self) -> None:
        # given five nodes, of which two are given up before the drain
        told = picture(status(*webs(5)), status(*webs(3)), status(leaving("web-0")))

        assert text(told[0]) == "   0:00 #############-------  2 of 3 gone  1 leaving  generation 1"

    def test_a_drain_counts_the_nodes_that_were_leaving_when_it_began(self) -> None:
        told = picture(status(*webs(2), leaving("web-2")), status(leaving("web-0")))

        assert text(told[0]) == "   0:00 #############-------  2 of 3 gone  1 leaving  generation 1"

    @pytest.mark.parametrize(
        ("last", "tone"),
        [
            (status(*webs(2)), Tone.GOOD),
            (status(ready("web-0"), starting("web-1")), Tone.BUSY),
            (status(leaving("web-1")), Tone.BUSY),
            (status(), Tone.BUSY),
        ],
        ids=["all ready", "one starts", "one leaves", "all gone"],
    )
    def test_only_a_cluster_that_is_all_ready_is_green(
        self, last: ClusterStatus, tone: Tone
    ) -> None:
        assert picture(status(*webs(2)), last)[0][BAR].tone is tone

    def test_a_bar_is_full_only_when_all_is_done(self) -> None:
        almost = picture(status(*webs(299), starting("web-299")))

        assert text(almost[0][BAR : BAR + 2]) == "#" * 19 + "-"

    def test_the_clock_begins_with_a_whole_second(self) -> None:
        late = replace(status(*webs(1)), at=T0 + timedelta(seconds=0.9))

        assert text(picture(late, after=timedelta(seconds=0.1))[0]).startswith("   0:01 ")

    @pytest.mark.parametrize(
        ("age_s", "said"), [(4.999, ""), (5, "  this is 5s old"), (6, "  this is 6s old")]
    )
    def test_from_five_seconds_on_a_status_is_old(self, age_s: float, said: str) -> None:
        line = text(picture(status(*webs(1)), after=timedelta(seconds=age_s))[0])

        assert line.partition("generation 1")[2] == said


class TestRoom:
    def test_two_warnings_are_told(self) -> None:
        told = shown(status(ready("web-0"), warnings=("one", "two", "three")))

        assert told[1:] == [
            "  NODE   STAGE             ATTEMPT   AGE UNTIL  WAITS FOR",
            "web: 1 of 1 ready",
            "  web-0  ready                   1   12s",
            "warning: one",
            "warning: two",
        ]

    @pytest.mark.parametrize(("lines", "said"), [(6, False), (7, True)])
    def test_how_to_force_is_told_where_a_table_has_room_as_well(
        self, lines: int, said: bool
    ) -> None:
        now = status(leaving("web-0"))
        moment = Moment(now, remembered(Memory(), now), T0, Size(80, lines), hint="Ctrl-C again")

        told = [text(line) for line in live_lines(moment)]

        assert ("draining, 1 node to go; Ctrl-C again" in told) is said
        assert first_words(told)[-1] == "web-0"

    @pytest.mark.parametrize(
        ("lines", "below"), [(5, []), (6, ["NODE", "web:", "web-0"])], ids=["two left", "three"]
    )
    def test_a_table_takes_three_lines_or_is_not_there(self, lines: int, below: list[str]) -> None:
        assert first_words(shown(status(ready("web-0")), lines=lines)[1:]) == below

    @pytest.mark.parametrize("lines", range(4, 30))
    @pytest.mark.parametrize("groups", [1, 2, 5, 9])
    def test_a_quarter_is_left_for_what_stands_above(self, lines: int, groups: int) -> None:
        nodes = [
            kind(f"g{g}-{i}")
            for g in range(groups)
            for i, kind in enumerate((failing, failing, failing, starting, ready))
        ]

        assert len(shown(status(*nodes), lines=lines)) <= lines - 1 - max(1, lines // 4)

    def test_an_error_has_no_line_where_the_other_groups_need_it(self) -> None:
        # given room for six lines below the heading, and failing nodes in one of five groups
        nodes = [failing(f"g0-{i}") for i in range(3)]
        others = [ready(f"g{g}-0") for g in range(1, 5)]

        assert shown(status(*nodes, *others), lines=11)[2:] == [
            "g0: 0 of 3 ready",
            "  g0-0  bootstrap running       1   12s 9m48s  node to join the swarm (boot ch.",
            "    no disk is left",
            "  g0-1  bootstrap running       1   12s 9m48s  node to join the swarm (boot ch.",
            "4 other groups: 4 of 4 ready",
            "  and 1 node more at work",
        ]

    def test_an_error_has_its_line_before_a_further_node_has_one(self) -> None:
        # given room for five lines below the heading, and four nodes at work of which one fails
        nodes = [failing("web-0"), *(starting(f"web-{i}") for i in (1, 2, 3))]

        assert first_words(shown(status(*nodes), lines=10)[2:]) == [
            "web:", "web-0", "no", "web-1", "and",
        ]  # fmt: skip


class TestNodes:
    def test_a_node_that_leaves_is_not_counted_as_ready(self) -> None:
        going = replace(leaving("web-1"), ready=True)

        assert shown(status(ready("web-0"), starting("web-2"), going))[2] == (
            "web: 1 of 2 ready, 1 leaving"
        )

    def test_nor_among_the_other_groups(self) -> None:
        # given a failing node for each line, and a group that is folded
        nodes = [failing(f"web-{i}") for i in range(9)]
        others = [ready(f"g{g}-0") for g in range(5)]
        going = replace(leaving("g0-1"), ready=True)

        assert "5 other groups: 5 of 6 ready" in shown(status(*nodes, *others, going), lines=11)

    @pytest.mark.parametrize(
        ("node", "rests", "tone"),
        [
            (ready("web-0"), True, Tone.GOOD),
            (replace(ready("web-0"), last_error="no disk is left"), False, Tone.BAD),
            (replace(ready("web-0"), desired=False), False, Tone.BUSY),
            (starting("web-0"), False, Tone.BUSY),
            (failing("web-0"), False, Tone.BAD),
            (replace(leaving("web-0"), last_error="still attached"), False, Tone.BUSY),
        ],
        ids=["ready", "ready, wrong", "ready, leaves", "starts", "fails", "leaves, failed"],
    )
    def test_a_node_is_at_rest_or_at_work_or_wrong(
        self, node: NodeStatus, rests: bool, tone: Tone
    ) -> None:
        line = picture(status(node))[3]

        assert (at_rest(node), [s.tone for s in line if s.tone is not Tone.PLAIN]) == (
            rests,
            [tone],
        )

    @pytest.mark.parametrize(
        ("attempt", "said"),
        [
            (None, "    no disk is left"),
            (2, "    attempt 2: no disk is left"),
            (3, "    no disk is left"),
        ],
    )
    def test_an_error_names_its_attempt_unless_it_is_the_present_one(
        self, attempt: int | None, said: str
    ) -> None:
        of = None if attempt is None else NodeAttemptId(attempt)
        node = replace(failing("web-0", 3), last_error_attempt=of)

        assert shown(status(node))[4] == said
