"""`validate`: reads shape files and reports what is wrong with them.  Starts nothing."""

from cluster_reconciler.actors.cli.arguments import ValidateOptions
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.exit_codes import DONE, INVALID
from cluster_reconciler.actors.cli.faults import printable, told
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.reports import FileReport, ValidateReport
from cluster_reconciler.actors.cli.shape_file import Loading, load
from cluster_reconciler.actors.cli.succession import succession_faults
from cluster_reconciler.actors.cli.words import counted


def validate(options: ValidateOptions, output: Output) -> int:
    """The exit code: 0 when every file is valid (and may follow that of --against), else 2; with
    --strict a file with warnings is not valid."""
    old = load(options.against) if options.against is not None else None
    strict = options.strict
    reports = tuple(_report(load(file), old, strict=strict) for file in options.files)
    against = _report(old, None, strict=False) if old is not None else None
    valid = all(report.valid for report in (*reports, *([against] if against is not None else [])))
    code = DONE if valid else INVALID
    if options.json:
        output.data(as_json(ValidateReport(valid, code, reports, against)))
        return code
    sources = output.stdout_is_terminal
    if against is not None and not against.valid:
        # Whether the files may follow it cannot be said, so its own faults come first.
        output.data("\n".join(_lines(against, sources)))
    for report in reports:
        output.data("\n".join(_lines(report, sources)))
    return code


def _report(loading: Loading, old: Loading | None, *, strict: bool) -> FileReport:
    """`old`: what the file is to follow, too, where that could be loaded.  `strict`: a caution
    makes the file invalid."""
    loaded = loading.loaded
    faults = loading.faults
    if loaded is not None and old is not None and old.loaded is not None:
        faults = (*faults, *succession_faults(old.loaded, loaded))
    shape = loaded.shape if loaded is not None else None
    return FileReport(
        file=loading.file,
        valid=shape is not None and not faults and not (strict and loading.cautions),
        run_id=shape.run_id if shape is not None else None,
        generation=shape.generation if shape is not None else None,
        groups=len(shape.groups) if shape is not None else 0,
        nodes=sum(group.count for group in shape.groups) if shape is not None else 0,
        faults=faults,
        warnings=loading.cautions,
    )


def _lines(report: FileReport, sources: bool) -> list[str]:
    lines = [*told(report.faults, sources=sources), *map(str, report.warnings)]
    if report.valid:
        lines.append(
            f"{printable(report.file)}: valid: run {report.run_id}, "
            f"{counted(report.nodes, 'node')} in {counted(report.groups, 'group')}"
        )
    elif not report.faults:
        warnings = counted(len(report.warnings), "warning")
        lines.append(f"{printable(report.file)}: not valid with --strict: {warnings}")
    return lines
