"""The command: which search, how far, and what was found, printed.

    python -m tests.search one
    python -m tests.search two --faults 2 --in-flight 1 --states 3000000

Exit code 1 when something does not hold: the shortest path to it is told, with the command that
plays it again.
"""

import argparse
import sys
from collections.abc import Sequence

from loguru import logger

from tests.search.place import Setting, one_node, two_nodes
from tests.search.search import Broken, Found, Search
from tests.search.story import story
from tests.search.ways import check_fairness, check_ways_home

FAIRNESS_ASKED = 250
"""At how many places, at most, it is asked whether the second node gets its turn."""


def main(words: Sequence[str] | None = None) -> int:
    """Search as asked; 0: everything holds, 1: something does not."""
    options = _parser().parse_args(words)
    logger.disable("cluster_reconciler")  # Executors die by the thousand here.
    try:
        return _search(options)
    finally:
        logger.enable("cluster_reconciler")


def _search(options: argparse.Namespace) -> int:
    setting = _setting(options)
    if options.replay is not None:
        path = tuple(int(number) for number in options.replay.split(",") if number)
        print("\n".join(story(setting, path)))
        return 0
    search = Search(setting, states_max=options.states, check_every=options.check_every)
    try:
        search.run(_progress)
        check_ways_home(search)
        if options.what == "two":
            check_fairness(search, FAIRNESS_ASKED)
    except Broken as broken:
        print(f"BROKEN: {broken.reason}")
        print("The shortest way there from the empty cluster:")
        print("\n".join(story(setting, broken.path, way=broken.way)))
        numbers = ",".join(str(number) for number in broken.path)
        print(f"Again: {_command(options)} --replay {numbers or ','}")
        return 1
    print(f"{_command(options)}\n{report(search.found)}")
    return 0


def report(found: Found) -> str:
    """What was found, in lines."""
    bound = "closed: every move of every place was taken"
    if not found.closed:
        bound = f"NOT closed: --states was reached, {found.left} places are not followed further"
    lines = [
        f"{found.states} states, {found.transitions} transitions, depth {found.depth}; {bound}",
        (
            f"{found.seconds:.0f} s, {found.cpu_seconds:.0f} s of CPU, "
            f"{found.states / max(found.cpu_seconds, 0.001):.0f} states and "
            f"{found.transitions / max(found.cpu_seconds, 0.001):.0f} transitions a second of CPU, "
            f"peak memory {found.peak_mb:.0f} MB"
        ),
        (
            f"a way home from {found.ways_home} places, at most {found.longest_way_home} moves "
            f"long; {found.homes} places are home"
        ),
        f"{found.compared}; what was kept was right after {found.kept_right} steps",
        f"places with something left of an attempt that is over: {found.leftovers}",
    ]
    if found.circles:
        lines.append(
            f"circles of friendly moves that were walked with their times: {found.circles}"
        )
    if found.fair:
        lines.append(
            f"the second node gets its turn while the first one hangs: {found.fair} places"
        )
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("one", "two"), help="how many nodes")
    parser.add_argument(
        "--faults",
        type=int,
        help="how many faults, delays and changes of shape there may be (one: any number; two: 2)",
    )
    parser.add_argument("--in-flight", type=int, default=1, help="two: the provider's limit")
    parser.add_argument(
        "--states", type=int, default=3_000_000, help="no more places than about so"
    )
    parser.add_argument(
        "--check-every", type=int, default=1, help="invariants at one of so many moves"
    )
    parser.add_argument(
        "--order-only", action="store_true", help="tell deadlines by their order alone"
    )
    parser.add_argument("--replay", help="the numbers of the moves of a path, to be told")
    return parser


def _setting(options: argparse.Namespace) -> Setting:
    if options.what == "one":
        faults = -1 if options.faults is None else options.faults
        return one_node(faults, order_only=options.order_only)
    faults = 2 if options.faults is None else options.faults
    return two_nodes(faults, options.in_flight, order_only=options.order_only)


def _command(options: argparse.Namespace) -> str:
    words = [f"python -m tests.search {options.what}"]
    if options.faults is not None:
        words.append(f"--faults {options.faults}")
    if options.what == "two":
        words.append(f"--in-flight {options.in_flight}")
    if options.order_only:
        words.append("--order-only")
    return " ".join(words)


def _progress(found: Found) -> None:
    print(
        f"  {found.states} states, {found.transitions} transitions, "
        f"{found.left} places ahead, {found.seconds:.0f} s",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
