"""`python -m tests.search one`, or `two --faults 2 --states 3000000`: prints what was found."""

import argparse
import sys

from loguru import logger

from tests.search.place import Setting, one_node, two_nodes
from tests.search.search import Broken, Found, Search
from tests.search.story import story


def main() -> int:
    """The search that the command line asks for; 1 when something does not hold."""
    logger.disable("cluster_reconciler")
    parser = argparse.ArgumentParser(prog="python -m tests.search")
    parser.add_argument("what", choices=("one", "two"))
    parser.add_argument("--faults", type=int, default=None)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--states", type=int, default=3_000_000)
    arguments = parser.parse_args()
    setting = one_node() if arguments.what == "one" else two_nodes(2, arguments.in_flight)
    if arguments.faults is not None:
        setting = Setting(setting.shapes, arguments.faults)
    search = Search(setting, states_max=arguments.states)

    def progress(found: Found) -> None:
        print(
            f"  {found.states} states, {found.transitions} transitions, {found.seconds:.0f} s",
            file=sys.stderr,
        )

    try:
        found = search.run(progress)
    except Broken as broken:
        print(broken.reason)
        print("\n".join(story(setting, broken.path)))
        return 1
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
