"""The arguments of `bench`, with their help text and limits.  Nothing is measured here."""

import argparse

from cluster_reconciler.actors.cli.usage import PROGRAM, Kind, Parser

NODES = (1_000, 10_000, 100_000)
NODES_MAX = 1_000_000
MEASURES = ("pass", "plan", "event", "converge", "actors", "repairs", "memory", "trace")

BENCH = f"""\
Measure what the reconciler costs on this machine, beside what it is to cost.
Replies are there at once, so that nothing else is measured; nothing is leased.

  pass      a full pass over a ready cluster, beside a bare walk over its map
  plan      planning after one event
  event     from a node's loss to its destroy, through the driver's mailbox
  converge  from nothing to ready, in one thread without actors
  actors    the same with real actors, on threads
  repairs   1000 repairs a second on a ready cluster
  memory    bytes a node
  trace     a message that is traced beside one that is not

examples:
  {PROGRAM} bench
  {PROGRAM} bench --nodes 1000 --quick
  {PROGRAM} bench --only pass plan --nodes 1000 100000
  {PROGRAM} bench --only event --nodes 100000 --profile
  {PROGRAM} bench --peers --json

exit codes:
  0    measured, also when some aims are missed
  1    stdout could not be written
  2    wrong usage
  130  Ctrl-C: what was measured until then is printed, but not with --json
  141  the reader of stdout went away
"""


class BenchOptions(argparse.Namespace):
    """What `bench` was told."""

    nodes: list[int]
    only: list[str]
    quick: bool
    peers: bool
    profile: bool
    json: bool
    no_color: bool


def _nodes(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= NODES_MAX:
        raise ValueError
    return int(text)


def _measure(text: str) -> str:
    if text not in MEASURES:
        raise ValueError
    return text


_NODES = Kind(f"a number of nodes, from 1 to {NODES_MAX}", _nodes)
_MEASURE = Kind(f"one of the measures {', '.join(MEASURES)}", _measure, MEASURES)


def add_bench(parser: Parser) -> None:
    """Its options."""
    add = parser.add_argument
    add(
        "--nodes", type=_NODES, metavar="N", nargs="+", default=list(NODES),
        help="for clusters of so many nodes; default: 1000 10000 100000",
    )  # fmt: skip
    add(
        "--only", type=_MEASURE, choices=MEASURES, metavar="MEASURE", nargs="+",
        default=list(MEASURES),
        help="only these measures; default: all",
    )  # fmt: skip
    add("--quick", action="store_true", help="fewer repeats: seconds, and rough figures")
    add(
        "--peers", action="store_true",
        help="also the same work on Ray's autoscaler and Dask's SpecCluster, where installed",
    )  # fmt: skip
    add(
        "--profile", action="store_true",
        help="also where the time of one event goes, with the most nodes",
    )  # fmt: skip
    add("--json", action="store_true", help="one JSON document on stdout")
    add("--no-color", action="store_true", help="no colours; NO_COLOR does it too")
