"""`validate --against`: what a running cluster would refuse, said beforehand (design rule 23)."""

import json
from pathlib import Path

import pytest

from cluster_reconciler.actors.admission import accepted_offer
from cluster_reconciler.actors.cli.faults import Fault
from cluster_reconciler.actors.cli.main import main
from cluster_reconciler.actors.cli.shape_file import LoadedShape, load
from cluster_reconciler.actors.cli.succession import succession_faults
from cluster_reconciler.decider import expand_shape
from cluster_reconciler.messages import ShapeRefused

COUNT_UP = "count it up with every change, or leave it out: then it is counted up by itself"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, run_id: int = 7, generation: int | None = None, count: int = 2) -> LoadedShape:
    line = f"generation: {generation}\n" if generation is not None else ""
    group = f"- {{group_id: w, role: r, count: {count}, provider: process}}\n"
    Path(name).write_text(f"# a shape\nrun_id: {run_id}\n{line}groups:\n{group}")
    loaded = load(name).loaded
    assert loaded is not None
    return loaded


def test_another_run() -> None:
    old, new = write("old.yaml", 7), write("new.yaml", 8)
    assert succession_faults(old, new) == (
        Fault(
            "new.yaml",
            "7, the run of old.yaml",
            "the number 8",
            "run_id",
            2,
            hint="a cluster keeps its run_id for life; another run is another cluster",
            column=1,
            source="run_id: 8",
        ),
    )


def test_a_lower_generation() -> None:
    old, new = write("old.yaml", generation=4), write("new.yaml", generation=3)
    assert succession_faults(old, new) == (
        Fault(
            "new.yaml",
            "an integer of at least 4",
            "the number 3 where old.yaml has 4",
            "generation",
            3,
            hint=COUNT_UP,
            column=1,
            source="generation: 3",
        ),
    )


def test_other_content_of_the_same_generation() -> None:
    # given an old file that names no generation, and so has the first
    old, new = write("old.yaml"), write("new.yaml", generation=1, count=3)
    assert succession_faults(old, new) == (
        Fault(
            "new.yaml",
            "an integer of at least 2 for a shape with other content",
            "the number 1, and old.yaml names none and so has 1 too",
            "generation",
            3,
            hint=COUNT_UP,
            column=1,
            source="generation: 1",
        ),
    )


@pytest.mark.parametrize("run_id", [7, 8])
@pytest.mark.parametrize("generation", [2, 3, 4])
@pytest.mark.parametrize("count", [2, 3])
def test_it_refuses_exactly_what_the_driver_would(run_id: int, generation: int, count: int) -> None:
    # given a file that may differ in run, generation and content
    old, new = write("old.yaml", generation=3), write("new.yaml", run_id, generation, count)
    # when the driver is asked
    try:
        accepted_offer(new.shape, expand_shape(old.shape), None)
        refused = False
    except ShapeRefused:
        refused = True
    # then it gives the same answer
    assert bool(succession_faults(old, new)) == refused


def test_a_file_without_a_generation_may_follow_anything_of_its_run() -> None:
    old = write("old.yaml", generation=9)
    assert succession_faults(old, write("new.yaml", count=3)) == ()


def test_a_successor_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    write("old.yaml", generation=3)
    write("new.yaml", generation=4, count=3)
    assert main(["validate", "new.yaml", "--against", "old.yaml"]) == 0
    assert capsys.readouterr() == ("new.yaml: valid: run 7, 3 nodes in 1 group\n", "")


def test_each_of_several_files_is_judged_and_a_broken_one_keeps_its_own_faults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("old.yaml", generation=3)
    write("lower.yaml", generation=2)
    write("sound.yaml", generation=3)
    Path("broken.yaml").write_text("run_id: 8\n")
    files = ["lower.yaml", "broken.yaml", "sound.yaml"]
    assert main(["validate", *files, "--against", "old.yaml", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert [(each["file"], each["valid"]) for each in document["files"]] == [
        ("lower.yaml", False),
        ("broken.yaml", False),
        ("sound.yaml", True),
    ]
    assert [[fault["path"] for fault in each["faults"]] for each in document["files"]] == [
        ["generation"],
        ["groups"],
        [],
    ]
    assert (document["against"]["file"], document["against"]["valid"]) == ("old.yaml", True)


def test_a_broken_file_to_compare_with_is_invalid_use(capsys: pytest.CaptureFixture[str]) -> None:
    write("new.yaml")
    assert main(["validate", "new.yaml", "--against", "newer.yaml"]) == 2
    assert capsys.readouterr().out == (
        'newer.yaml: expected a file, found nothing there (did you mean "new.yaml"?)\n'
        "new.yaml: valid: run 7, 2 nodes in 1 group\n"
    )
