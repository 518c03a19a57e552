"""The arguments of the command line, their help texts and their limits.

Nothing is opened or started here.
"""

import argparse
from datetime import timedelta
from pathlib import Path

from cluster_reconciler.actors.cli.bench_arguments import BENCH, add_bench
from cluster_reconciler.actors.cli.completion import SHELLS, NoCompletion, completion_script
from cluster_reconciler.actors.cli.durations import parse_duration
from cluster_reconciler.actors.cli.usage import PROGRAM, Kind, Parser, TextAsked

DRAIN_TIMEOUT = timedelta(minutes=2)
ONCE_TIMEOUT = timedelta(minutes=10)

_UNWRITTEN = """\
  1    stdout could not be written
"""
_READER = """\
  141  the reader of stdout went away
"""

_UP = f"""\
Bring the cluster of a shape file up, keep it so, and take it down again.

Without --once it stays in the foreground, prints a line for each change, and
drains on Ctrl-C (or SIGTERM, SIGHUP).  A second signal ends it within two
seconds and names what may be left.

examples:
  {PROGRAM} up examples/local.toml
  {PROGRAM} up examples/local.toml --watch
  {PROGRAM} up examples/local.toml --once --timeout 1m
  {PROGRAM} up examples/local.toml --once --json | python3 -m json.tool
  {PROGRAM} up examples/local.toml --json --trace run.jsonl -v

exit codes:
  0    done, and drained cleanly
  1    leases are left after the drain, the driver died, or stdout could not be
       written
  2    wrong usage, an invalid shape, or the cluster could not be started
  4    not converged within --timeout (drained)
  130, 143, 129   drained after SIGINT, SIGTERM, SIGHUP
  141  drained, because the reader of stdout went away
"""

_VALIDATE = f"""\
Read shape files and report every fault of each at once, with file, line and
place.  Nothing is started.

examples:
  {PROGRAM} validate examples/local.toml
  {PROGRAM} validate new.toml --against old.toml
  {PROGRAM} validate --json shapes/*.yaml

exit codes:
  0    every file is valid
{_UNWRITTEN}\
  2    wrong usage, or some file is not valid (with --strict: or gets a warning)
{_READER}"""


_PLAN = f"""\
Say what it would do to go from one shape to another: which nodes are kept,
added, removed, and replaced (and because of which field), in the order in
which it would happen.  Nothing is started.

examples:
  {PROGRAM} plan new.toml
  {PROGRAM} plan new.toml --from old.toml
  {PROGRAM} plan new.toml --from old.toml --exit-code --json

exit codes:
  0    done
{_UNWRITTEN}\
  2    wrong usage, or a file has faults
  3    the plan has changes (only with --exit-code)
{_READER}"""

_TRACE = f"""\
Read a file that `up --trace` has written: one line for each message of the
driver's mailbox, in the order in which they were handled, with what each one
led to.

examples:
  {PROGRAM} trace run.jsonl --node worker-1
  {PROGRAM} trace run.jsonl --attempt 4
  {PROGRAM} trace run.jsonl --operation 'op(4,1)'
  {PROGRAM} trace run.jsonl --summary
  {PROGRAM} trace run.jsonl --follow

exit codes:
  0    done, also when nothing matches, and when --follow ends by Ctrl-C
{_UNWRITTEN}\
  2    wrong usage, or the file is no trace that can be read
  130  Ctrl-C without --follow
{_READER}"""


_REPLAY = f"""\
Feed the messages of a log, written by `up --trace`, to a fresh driver, with
the same times and the same answers, and say whether every state, plan and
effect is the one of the run, or name the first message that differs.  Nothing
is started.

examples:
  {PROGRAM} replay run.jsonl
  {PROGRAM} replay run.jsonl --until 120 --state
  {PROGRAM} replay run.jsonl --node worker-1
  {PROGRAM} replay run.jsonl --json

exit codes:
  0    every message is equal, also of a log whose last line is broken off
  1    a message differs, or the log was altered, or stdout could not be written
  2    wrong usage, or the file is no log that can be read
  130  Ctrl-C
{_READER}"""


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
    strict: bool
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


class ReplayOptions(argparse.Namespace):
    """What `replay` was told."""

    log: Path
    until: int | None
    state: bool
    node: str | None
    json: bool
    no_color: bool


def _time(text: str) -> timedelta:
    try:
        seconds: object = float(text)
    except ValueError:
        seconds = text
    return parse_duration(seconds)


def _named(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text


def _attempt(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX) or int(text) < 1:
        raise ValueError
    return int(text)


def _sequence(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise ValueError
    return int(text)


def _operation(text: str) -> str:
    # The verb's own module, which no other verb waits for.
    from cluster_reconciler.actors.cli.trace_reading import read_operation  # noqa: PLC0415

    try:
        read_operation(text)
    except ValueError:
        raise ValueError from None
    return text


def _shell(text: str) -> str:
    if text not in SHELLS:
        raise ValueError
    return text


_DIGITS_MAX = 20
"""Of an attempt: 2^64 has as many."""

_TIME = Kind("a time such as 500ms, 90s, 10m or 1h", _time)
_SHAPE_FILE = Kind("the name of a shape file", _named)
_LOG_FILE = Kind("the name of a file for the log", _named)
_TRACE_FILE = Kind("the name of a file for the trace", lambda text: Path(_named(text)))
_NODE = Kind("the name of a node, such as worker-1", _named)
_ATTEMPT = Kind("an attempt number, whole and 1 or more", _attempt)
_SEQUENCE = Kind("the number of a message, whole and 0 or more", _sequence)
_OPERATION = Kind("an operation such as op(3,1) or 3,1", _operation)
_SHELL = Kind(f"one of the shells {', '.join(SHELLS)}", _shell, SHELLS)


def make_parser() -> Parser:
    """The parser; `verb` in its result says which options the rest is.  Raises `WrongUsage`, and
    `TextAsked` when a text is all that is wanted."""
    parser = Parser(
        prog=PROGRAM,
        description="Declare node groups; the machines are made to match, and kept so.",
        epilog=f"{PROGRAM} VERB --help tells more, with examples.",
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version, and end")
    parser.add_argument(
        "--completion", action=_Completion, type=_SHELL, metavar="SHELL",
        help=f"print a script that completes what is typed, and end: {', '.join(SHELLS)}",
    )  # fmt: skip
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    _add_up(_verb(verbs, "up", "bring a cluster up and keep it", _UP))
    _add_validate(_verb(verbs, "validate", "check shape files", _VALIDATE))
    _add_plan(_verb(verbs, "plan", "say what a change of a shape would do", _PLAN))
    _add_trace(_verb(verbs, "trace", "read the log of a run's messages", _TRACE))
    _add_replay(_verb(verbs, "replay", "show that a log leads to the same again", _REPLAY))
    add_bench(_verb(verbs, "bench", "measure what it costs on this machine", BENCH))
    return parser


def version_text() -> str:
    """The version of this distribution and of its Python."""
    # Who asks for something else must not wait for these.
    import platform  # noqa: PLC0415
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        own = version("cluster-reconciler")
    except PackageNotFoundError:
        own = "(not installed)"
    return f"{PROGRAM} {own} (Python {platform.python_version()})"


class _Version(argparse.Action):
    def __call__(self, *_: object) -> None:
        raise TextAsked(version_text())


class _Completion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        try:
            raise TextAsked(completion_script(parser, str(rest[1])))
        except NoCompletion:
            raise argparse.ArgumentError(
                self,
                "expected the package shtab, found none; in the clone it comes with "
                "`.venv/bin/pip install -e '.[completion]'`",
            ) from None


def _verb(
    verbs: "argparse._SubParsersAction[Parser]", name: str, summary: str, text: str
) -> Parser:
    description, examples, rest = text.partition("examples:")
    return verbs.add_parser(
        name,
        help=summary,
        description=description,
        epilog=examples + rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )


def _add_up(parser: Parser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="the shape, in TOML, YAML or JSON")
    add("--once", action="store_true", help="converge, print the nodes, drain, and end")
    add(
        "--timeout", type=_TIME, metavar="TIME",
        help="give up when not converged in so long, such as 90s or 10m; "
        "default: 10m with --once, else never",
    )  # fmt: skip
    add(
        "--drain-timeout", type=_TIME, metavar="TIME", default=DRAIN_TIMEOUT,
        help="give up the drain after so long and name what is left; default: 2m",
    )  # fmt: skip
    add("--json", action="store_true", help="data on stdout as JSON: one document with --once, "
        "else one object a line; prose goes to stderr")  # fmt: skip
    add("--watch", action="store_true", help="follow the file: a changed shape is planned and run")
    add(
        "--trace",
        type=_TRACE_FILE,
        metavar="LOG",
        help="write every message of the driver to this file",
    )
    add("--log", type=_LOG_FILE, metavar="FILE", help="write a log to this file as well")
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


def _add_validate(parser: Parser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="a shape in TOML, YAML or JSON")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument(
        "--against", type=_SHAPE_FILE, metavar="OLD",
        help="also check that the file may follow this shape: same run, generation not lower, "
        "and counted up when the content differs",
    )  # fmt: skip
    parser.add_argument(
        "--strict", action="store_true", help="a file that gets a warning is not valid, either"
    )


def _add_plan(parser: Parser) -> None:
    add = parser.add_argument
    add("new", metavar="NEW", help="the shape to come, in TOML, YAML or JSON")
    add(
        "--from", dest="old", type=_SHAPE_FILE, metavar="OLD",
        help="the shape that is; default: nothing is there",
    )  # fmt: skip
    add("--exit-code", action="store_true", help="exit with 3 when the plan has changes")
    add("--json", action="store_true", help="one JSON document on stdout")
    add("--no-color", action="store_true", help="no colours; NO_COLOR does it too")


def _add_trace(parser: Parser) -> None:
    add = parser.add_argument
    add("log", metavar="LOG", type=_TRACE_FILE, help="a file that `up --trace` has written")
    add("--node", type=_NODE, metavar="NODE", help="only what concerns this node, such as worker-1")
    add("--attempt", type=_ATTEMPT, metavar="N", help="only what concerns this attempt")
    add(
        "--operation", type=_OPERATION, metavar="OP",
        help="only what concerns this operation, such as op(3,1) or 3,1",
    )  # fmt: skip
    add("--follow", action="store_true", help="go on as the file grows, until Ctrl-C")
    add("--summary", action="store_true", help="attempts, time in each stage, retries, slowest")
    add("--json", action="store_true", help="one object a line; one document with --summary")
    add("--no-color", action="store_true", help="no colours; NO_COLOR does it too")


def _add_replay(parser: Parser) -> None:
    add = parser.add_argument
    add("log", metavar="LOG", type=_TRACE_FILE, help="a file that `up --trace` has written")
    add(
        "--until", type=_SEQUENCE, metavar="SEQ",
        help="stop after this message (its `sequence` in `trace --json`)",
    )  # fmt: skip
    add("--state", action="store_true", help="print the state at the end, or at --until")
    add("--node", type=_NODE, metavar="NODE", help="the story of this node, such as worker-1")
    add("--json", action="store_true", help="one JSON document on stdout")
    add("--no-color", action="store_true", help="no colours; NO_COLOR does it too")
