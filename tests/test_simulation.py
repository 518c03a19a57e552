"""The simulation on fixed seeds, small: what `python -m tests.simulation` does by the thousand.

Here only that it runs clean, that a seed is one life in every process, and that its parts do what
they say.  What it catches is shown in `test_simulation_catches`.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.chance import Chance
from tests.simulation.command import main
from tests.simulation.faults import every_kind
from tests.simulation.record import digested
from tests.simulation.report import ENOUGH, Totals, replay_command
from tests.simulation.running import Mode, run
from tests.simulation.schedule import draw

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("seed", range(12))
def test_a_life_holds_what_is_claimed_of_it(seed: int, mode: Mode) -> None:
    outcome = run(draw(seed), mode)
    assert outcome.failure is None, f"{outcome.failure}\n{replay_command(outcome, None, None)}"


def test_a_seed_is_one_life_byte_for_byte_in_every_process(repository: Path) -> None:
    command = (sys.executable, "-m", "tests.simulation", "--first", "4", "--seeds", "2", "--digest")
    found = []
    for hash_seed in ("0", "1"):
        told = subprocess.run(
            command,
            cwd=repository,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append([line for line in told.stdout.splitlines() if line.startswith("all traces")])
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_the_fingerprint_of_a_life_tells_another_life_from_it() -> None:
    same = [digested(draw(seed), Mode.SAFETY).digest for seed in (4, 4, 5)]
    assert same[0] == same[1] != same[2]


def test_a_choice_depends_on_its_name_alone() -> None:
    one, other = Chance(7), Chance(7)
    names = [f"choice/{number}" for number in range(50)]
    forwards = {name: one.number(name) for name in names}
    backwards = {name: other.number(name) for name in reversed(names[::2])}
    assert backwards.items() <= forwards.items()
    assert len(set(forwards.values())) == len(names)
    assert forwards != {name: Chance(8).number(name) for name in names}


def test_the_command_stops_when_it_is_interrupted_and_says_what_was_done(repository: Path) -> None:
    command = (sys.executable, "-m", "tests.simulation", "--seeds", "1000000", "--workers", "2")
    running = subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    try:
        assert running.stdout.readline().startswith("seeds 0 to 999999, modes safety, liveness")
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=60)
    finally:
        running.kill()
    assert rest.startswith("interrupted; so far:\nlives: ")
    assert running.returncode == 130


def test_one_command_replays_one_life_exactly(capsys: pytest.CaptureFixture[str]) -> None:
    life = draw(3)
    kept = [move.name for move in life.moves[::2]]
    whole = run(life, Mode.SAFETY)
    faults = list(whole.fired)[::2]
    part = run(life, Mode.SAFETY, moves=kept, faults=faults)
    assert part.moves == len(kept)
    assert set(part.fired) <= set(faults)
    assert main(["--seed", "3", "--mode", "safety", "--keep", ",".join([*kept, *faults])]) == 0
    told = capsys.readouterr().out
    assert f"lives: 1 in safety; {part.moves} moves, {part.messages} messages handled" in told


def test_every_kind_of_fault_that_is_never_seen_is_told() -> None:
    totals = Totals()
    assert totals.missing() == []
    totals.lives.update(dict.fromkeys(Mode, ENOUGH))
    totals.counts.update(dict.fromkeys(every_kind(), 1))
    missing = totals.missing()
    assert missing[0] == "move: Reshape"
    assert all(kind.startswith("move: ") for kind in missing)
