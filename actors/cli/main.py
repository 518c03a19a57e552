"""The entry point: parses, dispatches to a verb, and lets no traceback out.

Each verb's modules are imported when that verb runs: nobody waits for those of the others.
"""

import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial

from cluster_reconciler.actors.cli.arguments import (
    PlanOptions,
    ReplayOptions,
    TraceOptions,
    UpOptions,
    ValidateOptions,
    make_parser,
)
from cluster_reconciler.actors.cli.bench_arguments import BenchOptions
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.exit_codes import DONE, LEFT_OR_DIED, READER_GONE, after_signal
from cluster_reconciler.actors.cli.output import Output, prepare_streams, stdout_is_closed
from cluster_reconciler.actors.cli.usage import TextAsked, UsageFault, WrongUsage, asks_for_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        verb = make_parser().parse_args(words).verb
        if stdout_is_closed():
            # Before anything is started that nobody could be told of.
            _say("stdout is closed, nothing was done; lead it to a file, or to /dev/null")
            return LEFT_OR_DIED
        return _VERBS[verb](words)
    except TextAsked as asked:
        return _to_a_reader(partial(_show, asked.text), colour=False)
    except WrongUsage as wrong:
        return _wrong_usage(wrong.fault, as_document=asks_for_json(words))
    except KeyboardInterrupt:
        return after_signal(2)
    except Exception as error:  # noqa: BLE001  # the last resort: one line, and what to do
        _say(f"internal error: {type(error).__name__}: {error}; please report it")
        if "-vv" in words or "-vvv" in words:
            _say(traceback.format_exc())
        return LEFT_OR_DIED


def _show(text: str, output: Output) -> int:
    output.data(text)
    return DONE


def _wrong_usage(fault: UsageFault, *, as_document: bool) -> int:
    output = Output(colour=False)
    output.say(str(fault))
    if as_document:
        output.data(as_json(fault))
    return fault.exit_code


def _validate(words: list[str]) -> int:
    from cluster_reconciler.actors.cli.validate import validate  # noqa: PLC0415

    options = make_parser().parse_args(words, ValidateOptions())
    return _to_a_reader(lambda output: validate(options, output), colour=False)


def _plan(words: list[str]) -> int:
    from cluster_reconciler.actors.cli.plan import plan  # noqa: PLC0415

    options = make_parser().parse_args(words, PlanOptions())
    return _to_a_reader(lambda output: plan(options, output), colour=not options.no_color)


def _trace(words: list[str]) -> int:
    from cluster_reconciler.actors.cli.trace import trace  # noqa: PLC0415

    options = make_parser().parse_args(words, TraceOptions())
    return _to_a_reader(lambda output: trace(options, output), colour=not options.no_color)


def _replay(words: list[str]) -> int:
    from cluster_reconciler.actors.cli.replay import replay  # noqa: PLC0415

    options = make_parser().parse_args(words, ReplayOptions())
    return _to_a_reader(lambda output: replay(options, output), colour=not options.no_color)


def _bench(words: list[str]) -> int:
    from cluster_reconciler.actors.cli.bench import bench  # noqa: PLC0415

    options = make_parser().parse_args(words, BenchOptions())
    return _to_a_reader(lambda output: bench(options, output), colour=not options.no_color)


def _to_a_reader(verb: Callable[[Output], int], *, colour: bool) -> int:
    """The verb's exit code, unless nobody could read what it wrote."""
    lost: list[OSError] = []
    output = Output(colour=colour)
    output.lost = lost.append
    code = verb(output)
    if not lost:
        return code
    if isinstance(lost[0], BrokenPipeError):
        return READER_GONE
    output.say(f"stdout takes no more data: {lost[0].strerror}")
    return LEFT_OR_DIED


def _up(words: list[str]) -> int:
    from cluster_reconciler.actors.cli.start_cluster import start_cluster  # noqa: PLC0415
    from cluster_reconciler.actors.cli.up import up  # noqa: PLC0415

    return up(make_parser().parse_args(words, UpOptions()), start_cluster)


_VERBS: dict[str, Callable[[list[str]], int]] = {
    "bench": _bench,
    "plan": _plan,
    "replay": _replay,
    "trace": _trace,
    "up": _up,
    "validate": _validate,
}


def _say(text: str) -> None:
    Output(colour=False).say(text)


if __name__ == "__main__":
    sys.exit(main())
