"""The arguments of the command line, their help texts and their limits.

Nothing is opened or started here.
"""

import argparse
import platform
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cluster_reconciler.actors.cli.durations import parse_duration

PROGRAM = "cluster-reconciler"
DRAIN_TIMEOUT = timedelta(minutes=2)
ONCE_TIMEOUT = timedelta(minutes=10)

_EXIT_CODES = """\
exit codes:
  0    done, and drained cleanly
  1    leases are left after the drain, or the driver died
  2    wrong usage, an invalid shape, or the cluster could not be started
  4    not converged within --timeout (drained)
  130, 143, 129   drained after SIGINT, SIGTERM, SIGHUP
  141  drained, because the reader of stdout went away
"""

_UP = f"""\
Bring the cluster of a shape file up, keep it so, and take it down again.

Without --once it stays in the foreground, prints a line for each change, and drains on Ctrl-C
(or SIGTERM, SIGHUP).  A second signal ends it within two seconds and names what may be left.

examples:
  {PROGRAM} up examples/local.toml
  {PROGRAM} up examples/local.toml --once --timeout 1m
  {PROGRAM} up examples/local.toml --once --json | python3 -m json.tool
  {PROGRAM} up examples/local.toml --json --trace run.jsonl -v
"""

_VALIDATE = f"""\
Read shape files and report every fault of each at once, with file, line and place.  Nothing is
started.

examples:
  {PROGRAM} validate examples/local.toml
  {PROGRAM} validate --json shapes/*.yaml

exit codes:
  0    every file is valid
  2    some file is not
"""


_PLAN = f"""\
Say what it would do to go from one shape to another: which nodes are kept, added, removed, and
replaced (and because of which field), in the order in which it would happen.  Nothing is started.

examples:
  {PROGRAM} plan new.toml --from old.toml
  {PROGRAM} plan new.toml --from old.toml --exit-code --json

exit codes:
  0    done
  2    wrong usage, or a file has faults
  3    the plan has changes (only with --exit-code)
"""

_TRACE = f"""\
Read a file that `up --trace` has written: one line for each message of the driver's mailbox, in the
order in which they were handled, with what each one led to.

examples:
  {PROGRAM} trace run.jsonl --node worker-1
  {PROGRAM} trace run.jsonl --summary
  {PROGRAM} trace run.jsonl --follow

exit codes:
  0    done
  2    wrong usage, or the file is no trace that can be read
"""


class UpOptions(argparse.Namespace):
    """What `up` was told."""

    file: str
    once: bool
    timeout: timedelta | None
    drain_timeout: timedelta
    json: bool
    trace: Path | None
    watch: bool
    log: str | None
    no_color: bool
    quiet: bool
    verbose: int


class ValidateOptions(argparse.Namespace):
    """What `validate` was told."""

    files: list[str]
    against: str | None
    json: bool


class PlanOptions(argparse.Namespace):
    """What `plan` was told."""

    new: str
    old: str | None
    exit_code: bool
    json: bool
    no_color: bool


class TraceOptions(argparse.Namespace):
    """What `trace` was told."""

    log: Path
    node: str | None
    attempt: int | None
    operation: str | None
    follow: bool
    summary: bool
    json: bool
    no_color: bool


def make_parser() -> argparse.ArgumentParser:
    """The parser; `verb` in its result says which options the rest is."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Declare node groups; the machines are made to match, and kept so.",
        epilog=f"{PROGRAM} VERB --help tells more, with examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=version_text())
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    _add_up(_verb(verbs, "up", "bring a cluster up and keep it", _UP, _EXIT_CODES))
    _add_validate(_verb(verbs, "validate", "check shape files", _VALIDATE, None))
    _add_plan(_verb(verbs, "plan", "say what a change of a shape would do", _PLAN, None))
    _add_trace(_verb(verbs, "trace", "read the log of a run's messages", _TRACE, None))
    return parser


def version_text() -> str:
    """The version of this distribution and of its Python."""
    try:
        own = version("cluster-reconciler")
    except PackageNotFoundError:
        own = "(not installed)"
    return f"{PROGRAM} {own} (Python {platform.python_version()})"


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    summary: str,
    description: str,
    epilog: str | None,
) -> argparse.ArgumentParser:
    return verbs.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_up(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="the shape, in TOML, YAML or JSON")
    add("--once", action="store_true", help="converge, print the nodes, drain, and end")
    add(
        "--timeout", type=_timeout, metavar="TIME",
        help="give up when not converged in so long, such as 90s or 10m; "
        "default: 10m with --once, else never",
    )  # fmt: skip
    add(
        "--drain-timeout", type=_timeout, metavar="TIME", default=DRAIN_TIMEOUT,
        help="give up the drain after so long and name what is left; default: 2m",
    )  # fmt: skip
    add("--json", action="store_true", help="data on stdout as JSON: one document with --once, "
        "else one object a line; prose goes to stderr")  # fmt: skip
    add("--watch", action="store_true", help="follow the file: a changed shape is planned and run")
    add("--trace", type=Path, metavar="LOG", help="write every message of the driver to this file")
    add("--log", metavar="FILE", help="write a log to this file as well")
    add(
        "--no-color",
        action="store_true",
        help="no colours; NO_COLOR in the environment does it too",
    )
    talk = parser.add_mutually_exclusive_group()
    talk.add_argument("-q", "--quiet", action="store_true", help="only faults and failures")
    talk.add_argument(
        "-v", "--verbose", action="count", default=0,
        help="also the output of the nodes and the log; -vv, -vvv: more of it",
    )  # fmt: skip


def _add_validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="a shape in TOML, YAML or JSON")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument(
        "--against", metavar="OLD",
        help="also check that the file may follow this shape: same run, generation not lower, "
        "and counted up when the content differs",
    )  # fmt: skip


def _add_plan(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("new", metavar="NEW", help="the shape to come, in TOML, YAML or JSON")
    add("--from", dest="old", metavar="OLD", help="the shape that is; default: nothing is there")
    add("--exit-code", action="store_true", help="exit with 3 when the plan has changes")
    add("--json", action="store_true", help="one JSON document on stdout")
    add("--no-color", action="store_true", help="no colours; NO_COLOR does it too")


def _add_trace(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("log", metavar="LOG", type=Path, help="a file that `up --trace` has written")
    add("--node", metavar="NODE", help="only what concerns this node, such as worker-1")
    add("--attempt", metavar="N", type=int, help="only what concerns this attempt")
    add("--operation", metavar="OP", help="only what concerns this operation, such as op(3,1)")
    add("--follow", action="store_true", help="go on as the file grows, until Ctrl-C")
    add("--summary", action="store_true", help="attempts, time in each stage, retries, slowest")
    add("--json", action="store_true", help="one object a line; one document with --summary")
    add("--no-color", action="store_true", help="no colours; NO_COLOR does it too")


def _timeout(text: str) -> timedelta:
    try:
        seconds: object = float(text)
    except ValueError:
        seconds = text
    try:
        return parse_duration(seconds)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected a time such as 500ms, 90s, 10m or 1h, found {text!r} ({error})"
        ) from None
