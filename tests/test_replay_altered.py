"""A log that is not as it was written is told at the first message that differs, and so is one
whose run decided otherwise.

Both layers are looked at by themselves: `sealed` gives a changed log checksums that fit, so that
only the comparison of the replay can see it; what changes nothing there only a checksum can see.
"""

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster_reconciler.actors.cli.replay_document import ReplayReport
from cluster_reconciler.actors.stepping_words import group, shape
from cluster_reconciler.messages import Trigger
from tests.replay_kit import fresh_seed, replay, report, sealed
from tests.trace_kit import POLICY, Recording

Fields = dict[str, Any]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two nodes; one create is refused, both become ready, one is lost."""
    run = Recording(tmp_path / "run.jsonl", shape(group(count=2)))
    first, second = run.begin()
    run.clock.advance(timedelta(seconds=1))
    run.fail(second, "sold out")
    run.settle([first])
    run.settle(run.wait(5))
    run.tell(Trigger())
    run.lose(first, "its power failed")
    return run.close()


def lines_of(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines(keepends=True)


def first_of(log: Path, holds: Callable[[Fields], object]) -> int:
    """The number of the first line of a message for which this holds, the header being line 1."""
    for number, line in enumerate(lines_of(log)[1:], 2):
        if holds(msgspec.json.decode(line)):
            return number
    raise AssertionError("no such line")


def changed(log: Path, number: int, change: Callable[[Fields], object]) -> ReplayReport:
    """With this change of one line, sealed again: what the replay itself sees."""
    lines = lines_of(log)
    fields = msgspec.json.decode(lines[number - 1])
    change(fields)
    lines[number - 1] = msgspec.json.encode(fields)
    log.write_bytes(sealed(lines))
    found = report(log)
    assert found.altered_line is None
    return found


def test_as_it_was_written_it_is_equal(log: Path) -> None:
    found = report(log)
    assert (found.exit_code, found.equal, found.messages) == (0, True, len(lines_of(log)) - 1)
    log.write_bytes(sealed(lines_of(log)))
    assert report(log).equal


# -- what the checksums see ----------------------------------------------------------------------


def test_every_byte_that_is_another_one_is_told_at_its_line(log: Path) -> None:
    # Given a log, and a change of one byte in each of its lines, at places that chance draws
    dice, lines = random.Random(fresh_seed(__file__, "every_byte")), lines_of(log)
    for number, line in enumerate(lines, 1):
        for place in {0, len(line) - 3, *(dice.randrange(len(line) - 1) for _ in range(6))}:
            other = bytes([(line[place] + dice.randint(1, 90)) % 256])
            if other in b"\n\r":
                continue
            broken = line[:place] + other + line[place + 1 :]
            log.write_bytes(b"".join([*lines[: number - 1], broken, *lines[number:]]))

            # Then it is told: by that line's checksum, or since it cannot be read at all
            found = report(log)
            about = f"line {number}, byte {place}, {other!r}: {found}"
            assert not found.equal, about
            if found.error is None:
                told = {found.altered_line, found.difference and found.difference.line}
                assert number in told, about


@pytest.mark.parametrize("what", ["taken out", "doubled", "swapped"])
def test_a_line_that_is_elsewhere_is_told_also_where_it_changes_nothing(
    log: Path, what: str
) -> None:
    # Given the pass that a trigger led to, which decided nothing
    number = first_of(log, lambda line: line["message"]["type"] == "Trigger")
    lines = lines_of(log)
    at = number - 1
    log.write_bytes(
        b"".join(
            {
                "taken out": [*lines[:at], *lines[at + 1 :]],
                "doubled": [*lines[: at + 1], *lines[at:]],
                "swapped": [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]],
            }[what]
        )
    )

    # Then the line that does not follow is named, and every message is equal all the same
    found = report(log)
    place = number + 1 if what == "doubled" else number
    assert (found.exit_code, found.equal, found.altered_line) == (1, False, place)
    assert found.difference is None
    assert found.advice is not None
    assert f"line {place} was changed after it was written" in found.advice
    said = replay(log)
    assert said.code == 1
    assert f"ALTERED: line {place} does not follow the lines before it" in said.out


@pytest.mark.parametrize(
    ("found", "instead"),
    [(b'"seed":11', b'"seed":12'), (b'"initial_delay":"PT1S"', b'"initial_delay":"PT2S"')],
)
def test_a_header_that_was_changed_is_told(log: Path, found: bytes, instead: bytes) -> None:
    content = log.read_bytes()
    assert content.count(found) >= 1
    log.write_bytes(content.replace(found, instead))
    told = report(log)
    assert (told.exit_code, told.altered_line) == (1, 1)
    assert told.advice is not None
    assert told.advice.startswith("line 1 was changed after it was written")


# -- what the replay sees ------------------------------------------------------------------------


def test_another_answer_of_the_world_is_told_with_node_and_field(log: Path) -> None:
    number = first_of(log, lambda line: "sold out" in str(line["message"]))

    def change(line: Fields) -> None:
        line["message"]["error"]["disposition"] = "ambiguous"

    found = changed(log, number, change).difference
    assert found is not None
    assert (found.line, found.message, found.node) == (number, "ExecutorResult", "g-1")
    assert "g-1 differs in what the trace keeps only a checksum of" in found.reason


def test_another_time_is_told_with_both_moments(log: Path) -> None:
    number = first_of(log, lambda line: "sold out" in str(line["message"]))

    def change(line: Fields) -> None:
        line["at"] = "2026-01-02T03:04:05Z"

    found = changed(log, number, change).difference
    assert found is not None
    assert (found.line, found.node, found.field, found.expected, found.found) == (
        number, "g-1", "retry.next_effect_at",
        "2026-01-02T03:04:07+00:00", "2026-01-02T03:04:06+00:00",
    )  # fmt: skip
    assert found.reason.endswith(
        "g-1: retry.next_effect_at: the run had 2026-01-02T03:04:07+00:00, "
        "the replay has 2026-01-02T03:04:06+00:00"
    )


def test_another_lease_is_told_with_both_names(log: Path) -> None:
    number = first_of(log, lambda line: "lease-1" in str(line["message"]))

    def change(line: Fields) -> None:
        line["message"]["outcome"]["lease"]["lease_id"] = "lease-9\x1b"

    found = changed(log, number, change).difference
    assert found is not None
    assert (found.line, found.node, found.field, found.expected, found.found) == (
        number, "g-0", "record.lease.lease_id", "lease-1", "lease-9\x1b",
    )  # fmt: skip
    assert "\x1b" not in replay(log).out


def submits(line: Fields) -> bool:
    return any("effect" in answer for answer in line.get("answers", ()))


def test_another_answer_of_the_executor_is_told(log: Path) -> None:
    number = first_of(log, submits)

    def change(line: Fields) -> None:
        line["answers"][0]["raised"] = "the queue is full"

    found = changed(log, number, change).difference
    assert found is not None
    assert (found.line, found.node, found.field) == (number, "g-0", "pending.id.sequence")
    assert (found.expected, found.found) == ("1", "0")


def test_an_effect_that_is_not_the_run_s_is_told(log: Path) -> None:
    number = first_of(log, submits)

    def change(line: Fields) -> None:
        line["answers"][1]["effect"] ^= 1

    found = changed(log, number, change).difference
    assert found is not None
    assert (found.line, found.node, found.field, found.found) == (
        number, "g-1", "effects", "op(2,1) create_lease",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("actions_sum", 1, "plan.actions"),
        ("actions", {"Insert": 2, "Reap": 1}, "plan.actions"),
        ("requeue_at", "2026-01-02T03:04:05Z", "plan.requeue_at"),
        ("wake_at", "2026-01-02T03:04:05Z", "plan.wake_at"),
        ("observed_generation", 9, "plan.observed_generation"),
        ("held_back", 2, "plan.held_back"),
        ("held_back_sum", 2, "plan.held_back"),
        ("allocator_exhausted", True, "plan.allocator_exhausted"),
    ],
)
def test_every_part_of_a_plan_is_compared(log: Path, name: str, value: object, field: str) -> None:
    number = first_of(log, lambda line: "Insert" in line.get("plan", {}).get("actions", ()))
    found = changed(log, number, lambda line: line["plan"].update({name: value})).difference
    assert found is not None
    assert (found.line, found.message, found.field) == (number, "RunPass", field)


def test_a_state_that_is_not_the_run_s_is_told_at_the_message_that_made_it(log: Path) -> None:
    number = first_of(log, lambda line: line.get("nodes"))
    found = changed(log, number, lambda line: line.update(digest="00000000")).difference
    assert found is not None
    assert found.line == number


def test_a_raise_that_only_one_of_the_two_had_is_told(log: Path) -> None:
    number = first_of(log, lambda line: line["message"]["type"] == "RunPass")
    found = changed(log, number, lambda line: line.update(raised="KeyError: 'g-7'")).difference
    assert found is not None
    assert (found.line, found.field, found.expected, found.found) == (
        number, "raised", "raised KeyError: 'g-7'", "returned",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("policy", "jitter"), 0.9, "retry.next_effect_at"),
        (("policy", "operation_timeout"), "PT1S", "pending.deadline"),
        (("shape", "generation"), 5, ""),
        (("first_attempt",), 7, ""),
    ],
)
def test_another_beginning_is_told_where_it_first_matters(
    log: Path, path: tuple[str, ...], value: object, field: str
) -> None:
    def change(header: Fields) -> None:
        for key in path[:-1]:
            header = header[key]
        header[path[-1]] = value

    found = changed(log, 1, change)
    assert found.difference is not None
    assert found.exit_code == 1
    if field:
        assert found.difference.field == field


def test_another_seed_of_chance_is_told_where_it_first_matters(tmp_path: Path) -> None:
    # Given a run whose delays are drawn
    policy = msgspec.structs.replace(POLICY, jitter=0.5)
    run = Recording(tmp_path / "run.jsonl", shape(), policy)
    [create] = run.begin()
    run.fail(create, "sold out")
    log = run.close()

    # When another seed stands in the header
    def change(header: Fields) -> None:
        header["policy"]["seed"] = header["seed"] = 12

    found = changed(log, 1, change).difference

    # Then the first delay that was drawn differs
    assert found is not None
    assert (found.message, found.node, found.field) == (
        "ExecutorResult", "g-0", "retry.next_effect_at",
    )  # fmt: skip


def test_what_to_do_depends_on_who_wrote_it(log: Path) -> None:
    number = first_of(log, lambda line: line.get("nodes"))
    lines = lines_of(log)
    header = msgspec.json.decode(lines[0])
    header["versions"]["cluster-reconciler"] = "0.0.9"
    ours = changed(log, number, lambda line: line.update(digest="00000000"))
    lines = lines_of(log)
    lines[0] = msgspec.json.encode(header)
    log.write_bytes(sealed(lines))
    other = report(log)
    assert ours.advice is not None
    assert ours.advice.startswith("the same program decided otherwise on the same messages")
    assert other.advice is not None
    assert other.advice.startswith("it was written by cluster-reconciler 0.0.9, this is ")


def test_a_difference_is_shown_with_what_led_to_it_and_the_node_s_story(log: Path) -> None:
    number = first_of(log, lambda line: "sold out" in str(line["message"]))

    def change(line: Fields) -> None:
        line["at"] = "2026-01-02T03:04:05Z"

    found = changed(log, number, change)
    said = replay(log)
    assert (said.code, said.err) == (1, "")
    lines = said.out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("DIFFERS"))
    assert lines[at].startswith(f"DIFFERS at line {number}, message ")
    assert [line.split(":")[0].strip() for line in lines[at + 1 : at + 5]] == [
        "node", "field", "in the run", "in the replay",
    ]  # fmt: skip
    assert "what led to it:" in lines
    assert "the story of g-1:" in lines
    assert [entry.sequence for entry in found.before][-1] == found.difference.sequence  # type: ignore[union-attr]
    assert {entry.message for entry in found.story} >= {"RunPass", "ExecutorResult"}
