"""The watch of one file, look by look: what is at rest is told once, what still changes waits."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_reconciler.actors.cli.shape_file import Loading
from cluster_reconciler.actors.cli.watch import FileWatch, Seen, look_at
from tests.cli_watch_kit import SHAPE, until, with_count


class Looks:
    """A watch without its thread: every look is made by hand."""

    def __init__(self, file: Path) -> None:
        file.write_text(SHAPE)
        self.file = file
        self.watch = FileWatch(str(file), look_at(str(file)))

    def saw(self, text: str | None = None) -> list[str]:
        """Write, look twice, and say what was told: the counts of a right shape, or the faults."""
        if text is not None:
            self.file.write_text(text)
        told = []
        for _ in range(2):
            self.watch.look()
            if (news := self.watch.take()) is not None:
                told.append(said(news))
        return told


def said(news: Loading) -> str:
    if news.loaded is None:
        return "; ".join(f"{fault.path} {fault.found}".strip() for fault in news.faults)
    return "count " + ", ".join(str(group.count) for group in news.loaded.shape.groups)


WRONG = 'groups[0].count the string "two"'


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    return Looks(tmp_path / "shape.yaml")


def test_nothing_is_told_of_a_file_that_stays(looks: Looks) -> None:
    assert [looks.saw(), looks.saw(SHAPE), looks.saw()] == [[], [], []]


def test_a_new_content_is_told_once_and_only_when_it_rests(looks: Looks) -> None:
    # given a file that is written in two halves
    text = with_count(3)
    looks.file.write_text(text[:20])
    looks.watch.look()
    looks.file.write_text(text)
    looks.watch.look()
    # then nothing is told until two looks have seen the same
    assert looks.watch.take() is None
    looks.watch.look()
    told = looks.watch.take()
    assert told is not None
    assert [said(told), *looks.saw()] == ["count 3"]


def test_a_file_that_is_written_while_it_is_read_waits(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks.file.write_text(with_count(3))
    looks.watch.look()
    seen = [look_at(str(looks.file)), Seen("other")]
    with monkeypatch.context() as patched:
        patched.setattr("cluster_reconciler.actors.cli.watch.look_at", lambda _: seen.pop(0))
        looks.watch.look()
    assert looks.watch.take() is None
    assert looks.saw() == ["count 3"]


def test_each_wrong_content_is_told_once_until_a_right_one_came(looks: Looks) -> None:
    other = with_count(1, "colour: red\n")
    assert [
        looks.saw(with_count("two")),
        looks.saw(),
        looks.saw(other),
        looks.saw(with_count("two")),
        looks.saw(SHAPE),
        looks.saw(with_count("two")),
    ] == [[WRONG], [], ['colour "colour"'], [], ["count 1"], [WRONG]]


def test_an_edit_that_is_taken_back_between_two_looks_is_none(looks: Looks) -> None:
    looks.file.write_text(with_count(3))
    looks.watch.look()
    assert looks.saw(SHAPE) == []


def test_only_the_last_of_two_edits_that_nobody_has_taken_counts(looks: Looks) -> None:
    for count in (3, 4):
        looks.file.write_text(with_count(count))
        looks.watch.look()
        looks.watch.look()
    told = looks.watch.take()
    assert told is not None
    assert (said(told), looks.watch.take()) == ("count 4", None)


def test_a_file_that_goes_is_told_once_and_nothing_when_it_comes_back_as_it_was(
    looks: Looks,
) -> None:
    looks.file.unlink()
    gone = [looks.saw(), looks.saw()]
    back = looks.saw(SHAPE)
    looks.file.unlink()
    assert (gone, back, looks.saw()) == ([["nothing there"], []], [], ["nothing there"])


def test_a_file_that_comes_back_as_another_one_is_an_edit(looks: Looks) -> None:
    looks.file.unlink()
    looks.saw()
    assert looks.saw(with_count(2)) == ["count 2"]


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda path: path.mkdir(), "a directory"),
        (os.mkfifo, "a device, socket or pipe"),
        (lambda path: path.symlink_to(path), "an error: Too many levels of symbolic links"),
    ],
)
def test_what_is_no_file_any_more_is_told_once(
    looks: Looks, make: Callable[[Path], None], found: str
) -> None:
    looks.file.unlink()
    make(looks.file)
    assert [looks.saw(), looks.saw()] == [[found], []]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"x" * 2_000_000, b"\0"])
def test_whatever_the_file_holds_is_a_fault_and_no_crash(looks: Looks, content: bytes) -> None:
    looks.file.write_bytes(content)
    [told] = looks.saw()
    assert (told != "", looks.saw()) == (True, [])


def test_a_replaced_file_and_a_link_that_is_turned_are_edits(looks: Looks, tmp_path: Path) -> None:
    # given a link to the file, as a mounted configuration has
    here, there = tmp_path / "here.yaml", tmp_path / "there.yaml"
    here.write_text(SHAPE)
    there.write_text(with_count(2))
    looks.file.unlink()
    looks.file.symlink_to(here)
    assert looks.saw() == []
    # when the link is turned, and then the file behind it is replaced by an older one
    beside = tmp_path / "beside"
    beside.symlink_to(there)
    os.replace(beside, looks.file)
    turned = looks.saw()
    older = tmp_path / "older.yaml"
    older.write_text(with_count(5))
    os.utime(older, (0, 0))
    os.replace(older, there)
    # then both are seen, whatever the times of the files say
    assert [turned, looks.saw()] == [["count 2"], ["count 5"]]


def test_what_is_forgotten_is_told_again(looks: Looks) -> None:
    first = looks.saw(with_count(3))
    looks.watch.forget()
    assert [first, looks.saw()] == [["count 3"], ["count 3"]]


def test_a_content_that_nobody_knows_is_told(tmp_path: Path) -> None:
    file = tmp_path / "shape.yaml"
    file.write_text(SHAPE)
    watch = FileWatch(str(file), None)
    watch.look()
    watch.look()
    assert watch.take() is not None


def test_the_thread_tells_and_ends(tmp_path: Path) -> None:
    file, told = tmp_path / "shape.yaml", []
    file.write_text(SHAPE)
    watch = FileWatch(str(file), look_at(str(file)), 0.01)
    watch.start(lambda: told.append(watch.take()))
    file.write_text(with_count(3))
    until(lambda: told, "the edit is told")
    watch.stop()
    [news] = told
    assert news is not None
    assert said(news) == "count 3"
