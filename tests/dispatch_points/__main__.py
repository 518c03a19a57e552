"""Every dispatch point, exhaustively: every fault at every point where an effect is dispatched.

    python -m tests.dispatch_points                           # all single faults
    python -m tests.dispatch_points --pairs                   # of faults, in the shortest scenarios
    python -m tests.dispatch_points --pairs --part 3/20       # a twentieth of them
    python -m tests.dispatch_points --scenario late-join      # one scenario
    python -m tests.dispatch_points --case one-node/2/reply-lost    # one case, with its story

Prints a table of scenario, operation and family of fault: cases, those in which the fault found
nothing to strike at, and failures; of single faults what each may cost by the rules and has cost;
then each failed case with the command that replays just it.  It exits with 1 when a case failed,
with 2 when there is no such case.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from loguru import logger

from tests.dispatch_points.cases import FAULTS, PAIRED, case_named, seconds, singles
from tests.dispatch_points.report import (
    Tally,
    none_yet,
    print_costs,
    print_failures,
    print_table,
    tally,
)
from tests.dispatch_points.scenarios import SCENARIOS

STORY_MAX = 60
"""Events of a failed case that are printed."""


def all_singles(scenario: str) -> Tally:
    """One scenario's cases, in a process of a pool."""
    quiet()
    return tally(singles(scenario))


def all_pairs(first: str) -> Tally:
    """All pairs that begin with this case; none where the first fault strikes at nothing, since
    then they are the second one's single cases."""
    quiet()
    case = case_named(first)
    try:
        needs = case.live()
    except Exception:  # noqa: BLE001 - whatever it is, the single case has failed, and says so
        return tally((case,))
    return tally(seconds(case, needs) if needs.struck else ())


def quiet() -> None:
    """Thousands of scripted failures are logged, each with its traceback: slow, and no news."""
    logger.disable("cluster_reconciler")


def part_of(text: str) -> tuple[int, int]:
    """Which of how many parts.  Raises ArgumentTypeError."""
    which, _, parts = text.partition("/")
    if not (which.isdigit() and parts.isdigit() and 1 <= int(which) <= int(parts)):
        raise argparse.ArgumentTypeError(f"expected a part such as 3/20, found {text!r}")
    return int(which), int(parts)


def spread_over(
    workers: int, scenarios: list[str], part: tuple[int, int], *, pairs: bool
) -> Iterator[Tally]:
    """The tallies, as they are ready."""
    work = all_pairs if pairs else all_singles
    pieces = [case.name for name in scenarios for case in singles(name)] if pairs else scenarios
    pieces = pieces[part[0] - 1 :: part[1]]
    if workers == 1:
        yield from map(work, pieces)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(work, pieces)


def replay(name: str) -> int:
    """One case, with its story if it fails; the exit code."""
    try:
        case = case_named(name)
    except ValueError as unknown:
        print(f"{name}: {unknown}", file=sys.stderr)
        return 2
    for plant in case.plants:
        print(f"{plant.fault.name} at dispatch {plant.point.number}: {plant.point.effect}")
    try:
        needs = case.live()
    except Exception as error:  # noqa: BLE001 - whatever it is, the case has failed
        notes: list[str] = getattr(error, "__notes__", [])
        print("\n".join(notes[-STORY_MAX:]))
        print(f"{type(error).__name__}: {error}")
        return 1
    struck = f"{needs.struck} of {len(case.plants)} faults struck"
    print(f"passed; {struck}, {len(needs.points)} dispatches")
    return 0


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.dispatch_points",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pairs", action="store_true", help="two faults in each life")
    parser.add_argument("--scenario", choices=[scenario.name for scenario in SCENARIOS])
    parser.add_argument("--case", help="replay one, as a failure names it")
    parser.add_argument(
        "--part",
        type=part_of,
        default=(1, 1),
        help="the n-th of m parts, as 3/20: of the pairs by "
        "their first fault, else of the scenarios",
    )
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    quiet()
    if arguments.case:
        return replay(arguments.case)
    scenarios = list(PAIRED) if arguments.pairs else [scenario.name for scenario in SCENARIOS]
    if arguments.scenario:
        scenarios = [arguments.scenario]
    begun = time.monotonic()
    told = none_yet()
    for part in spread_over(arguments.workers, scenarios, arguments.part, pairs=arguments.pairs):
        told.add(part)
    print_table(told)
    if not arguments.pairs:
        print_costs(told)
    print_failures(told)
    print(f"\n{told.compared}")
    print(
        f"{told.cases.total()} cases ({told.idle.total()} of them with a fault that found "
        f"nothing to strike at), {len(FAULTS)} faults, {len(scenarios)} scenarios, "
        f"{time.monotonic() - begun:.0f} s; {len(told.failures)} failed"
    )
    return 1 if told.failures else 0


if __name__ == "__main__":
    sys.exit(main())
