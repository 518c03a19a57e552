"""`up`: reads the file and its options, then hands over to a session.  Drives nothing itself."""

from pathlib import Path

from msgspec.structs import replace

from cluster_reconciler.actors.cli.arguments import UpOptions
from cluster_reconciler.actors.cli.driven_cluster import StartCluster
from cluster_reconciler.actors.cli.exit_codes import INVALID
from cluster_reconciler.actors.cli.faults import printable, told
from cluster_reconciler.actors.cli.log import configure_log, restore_log
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.reports import UpReport
from cluster_reconciler.actors.cli.shape_file import LoadedShape, Loading, load
from cluster_reconciler.actors.cli.shape_news import ShapeNews
from cluster_reconciler.actors.cli.signals import Signals
from cluster_reconciler.actors.cli.up_following import Following
from cluster_reconciler.actors.cli.up_screen import UpScreen
from cluster_reconciler.actors.cli.up_session import UpSession
from cluster_reconciler.actors.cli.watch import FileWatch, Seen, look_at
from cluster_reconciler.actors.cli.words import counted


def up(options: UpOptions, start: StartCluster) -> int:
    """The exit code.  `start` makes the cluster; tests give another one."""
    output = Output(colour=not options.no_color)
    screen = UpScreen(options, output)
    if options.watch and options.once:
        wrong = "--watch with --once: expected one of the two, since --once ends by itself"
        screen.warn(wrong)
        screen.end(UpReport(options.file, exit_code=INVALID, error=wrong))
        return INVALID
    before = look_at(options.file)
    loading = load(options.file)
    report = UpReport(options.file, faults=loading.faults)
    faults = told(loading.faults, sources=output.stderr_is_terminal)
    for line in (*faults, *map(str, loading.cautions)):
        output.say(line)
    if loading.loaded is None:
        screen.end(replace(report, exit_code=INVALID, error="the shape file has faults"))
        return INVALID
    log = Path(options.log) if options.log is not None else None
    if text := (
        _place_fault("--trace", options.trace)
        or _place_fault("--log", log)
        or _shared_fault(options, log)
    ):
        screen.warn(text)
        screen.end(replace(report, exit_code=INVALID, error=text))
        return INVALID
    try:
        configure_log(output, verbose=options.verbose, quiet=options.quiet, file=options.log)
    except OSError as error:
        text = f"--log {printable(options.log or '')}: cannot be written: {error.strerror}"
        screen.warn(text)
        screen.end(replace(report, exit_code=INVALID, error=text))
        return INVALID
    try:
        following = _following(options, before, loading, screen)
        return _run(options, loading.loaded, start, output, screen, report, following=following)
    finally:
        restore_log()


def _place_fault(option: str, path: Path | None) -> str | None:
    """Told before anything is started."""
    if path is None:
        return None
    name = printable(str(path))
    if path.is_dir():
        return f"{option} {name}: expected a file, found a directory"
    if not path.absolute().parent.is_dir():
        return f"{option} {name}: expected a place for a file, found no such directory"
    return None


def _shared_fault(options: UpOptions, log: Path | None) -> str | None:
    """What is written must not be what is read, nor what else is written."""
    named = (("FILE", Path(options.file)), ("--trace", options.trace), ("--log", log))
    places = [(name, path.resolve()) for name, path in named if path is not None]
    for number, (name, path) in enumerate(places):
        for earlier, other in places[:number]:
            same = path == other or (path.exists() and other.exists() and path.samefile(other))
            if same and path.is_file():
                text = printable(str(path))
                return f"{name} {text}: expected a file of its own, found that of {earlier}"
            if same and not path.exists():
                return f"{name} {printable(str(path))}: expected another file than {earlier} has"
    return None


def _following(
    options: UpOptions, before: Seen, loading: Loading, screen: UpScreen
) -> Following | None:
    """`before`: what the file held just before it was loaded."""
    loaded = loading.loaded
    if not options.watch or loaded is None:
        return None
    # An edit in this very moment must not be taken for what was loaded.
    settled = before if look_at(options.file) == before else None
    watch = FileWatch(options.file, settled)
    return Following(watch, loaded, ShapeNews(options, screen, loading.cautions))


def _run(
    options: UpOptions,
    loaded: LoadedShape,
    start: StartCluster,
    output: Output,
    screen: UpScreen,
    report: UpReport,
    *,
    following: Following | None,
) -> int:
    shape = loaded.shape
    nodes = sum(group.count for group in shape.groups)
    screen.say(
        f"{printable(options.file)}: run {shape.run_id}, generation {shape.generation}: "
        f"{counted(nodes, 'node')} in {counted(len(shape.groups), 'group')}"
    )
    report = replace(report, run_id=shape.run_id, generation=shape.generation)
    session = UpSession(options, loaded, start, screen, report, following=following)
    output.lost = session.reader_gone
    with Signals(session.signal_came, lambda: session.has_answered):
        return session.run()
