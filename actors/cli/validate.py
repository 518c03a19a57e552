"""`validate`: reads shape files and reports what is wrong with them.  Starts nothing."""

from cluster_reconciler.actors.cli.arguments import ValidateOptions
from cluster_reconciler.actors.cli.encoding import as_json
from cluster_reconciler.actors.cli.exit_codes import DONE, INVALID
from cluster_reconciler.actors.cli.faults import printable
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.reports import FileReport, ValidateReport
from cluster_reconciler.actors.cli.shape_file import Loading, load
from cluster_reconciler.actors.cli.words import counted


def validate(options: ValidateOptions, output: Output) -> int:
    """The exit code: 0 when every file is valid, 2 otherwise."""
    loadings = [load(file) for file in options.files]
    reports = tuple(_report(loading) for loading in loadings)
    valid = all(report.valid for report in reports)
    code = DONE if valid else INVALID
    if options.json:
        output.data(as_json(ValidateReport(valid, code, reports)))
    else:
        for report in reports:
            output.data("\n".join(_lines(report)))
    return code


def _report(loading: Loading) -> FileReport:
    shape = loading.loaded.shape if loading.loaded is not None else None
    return FileReport(
        file=loading.file,
        valid=shape is not None,
        run_id=shape.run_id if shape is not None else None,
        generation=shape.generation if shape is not None else None,
        groups=len(shape.groups) if shape is not None else 0,
        nodes=sum(group.count for group in shape.groups) if shape is not None else 0,
        faults=loading.faults,
        warnings=loading.cautions,
    )


def _lines(report: FileReport) -> list[str]:
    lines = [str(found) for found in (*report.faults, *report.warnings)]
    if report.valid:
        lines.append(
            f"{printable(report.file)}: valid: run {report.run_id}, "
            f"{counted(report.nodes, 'node')} in {counted(report.groups, 'group')}"
        )
    return lines
