"""What the command line answers to words that it cannot understand, and to a question for a text.

To the character: the first line says what is wrong, the next what was expected, the last where more
is told.  That each is a document with `--json` is F28's.
"""

import re

import msgspec
import pytest

from cluster_reconciler.actors.cli.main import main
from cluster_reconciler.actors.cli.usage import UsageFault

VERBS = "up, validate, plan, trace, replay or bench"
OF_PROGRAM = f"--help, --version or --completion, or a verb ({VERBS})"
OF_VALIDATE = "--help, --json, --against or --strict"
OF_TRACE = "--help, --node, --attempt, --operation, --follow, --summary, --json or --no-color"
TIME = "a time such as 500ms, 90s, 10m or 1h"
MEASURES = "pass, plan, event, converge, actors, repairs, memory, trace"
SHELLS = "bash, zsh, fish, tcsh, powershell"

WRONG = [
    ("", f"VERB is missing|expected one of the verbs {VERBS}"),
    ("pln", f"unknown verb 'pln': did you mean 'plan'?|expected one of the verbs {VERBS}"),
    ("help", f"unknown verb 'help'|expected one of the verbs {VERBS}"),
    ("\x1b[31m", f"unknown verb '\\x1b[31m'|expected one of the verbs {VERBS}"),
    ("x" * 99, f"unknown verb '{'x' * 57}...'|expected one of the verbs {VERBS}"),
    ("-- plan", f"unknown verb '--'|expected one of the verbs {VERBS}"),
    ("--vresion", f"unknown option '--vresion': did you mean '--version'?|expected {OF_PROGRAM}"),
    (
        "--follow trace a",
        f"option '--follow' before the verb|expected a verb first ({VERBS}), then its options",
    ),
    ("--version=3", "--version: expected no value, found '3'"),
    ("--completion", f"--completion: expected one of the shells {SHELLS}, found nothing"),
    (
        "--completion bahs",
        f"--completion: expected one of the shells {SHELLS}, found 'bahs': did you mean 'bash'?",
    ),
    ("--completion cmd", f"--completion: expected one of the shells {SHELLS}, found 'cmd'"),
    ("validate", "validate: FILE is missing|expected a shape in TOML, YAML or JSON"),
    ("up --once", "up: FILE is missing|expected the shape, in TOML, YAML or JSON"),
    ("plan", "plan: NEW is missing|expected the shape to come, in TOML, YAML or JSON"),
    ("trace", "trace: LOG is missing|expected the name of a file for the trace"),
    (
        "trace --sumary",
        f"unknown option '--sumary' of trace: did you mean '--summary'?|expected {OF_TRACE}",
    ),
    ("trace a -x", f"unknown option '-x' of trace|expected {OF_TRACE}"),
    (
        "trace a b",
        "trace: one word too many, 'b'|expected cluster-reconciler trace LOG, and options",
    ),
    (
        "bench 1000",
        "bench: one word too many, '1000'|expected cluster-reconciler bench, and options",
    ),
    (
        "bench --only pas",
        f"bench --only: expected one of the measures {MEASURES}, found 'pas': did you mean 'pass'?",
    ),
    ("bench --only 1000", f"bench --only: expected one of the measures {MEASURES}, found '1000'"),
    (
        "validate a --aginst=b",
        f"unknown option '--aginst' of validate: did you mean '--against'?|expected {OF_VALIDATE}",
    ),
    ("up a --timeout soon", f"up --timeout: expected {TIME}, found 'soon' (not a duration)"),
    ("up a --timeout 5d", f"up --timeout: expected {TIME}, found '5d' (not a duration)"),
    ("up a --timeout -5", f"up --timeout: expected {TIME}, found '-5' (it is negative)"),
    ("up a --timeout", f"up --timeout: expected {TIME}, found nothing"),
    ("up a --drain-timeout nan", f"up --drain-timeout: expected {TIME}, found 'nan' (not a finite"),
    ("up a --once=3", "up --once: expected no value, found '3'"),
    ("up a -q -v", "up -v/--verbose with -q/--quiet: expected one of the two"),
    ("up a --trace=", "up --trace: expected the name of a file for the trace, found ''"),
    ("up a --log=", "up --log: expected the name of a file for the log, found ''"),
    ("plan a --from", "plan --from: expected the name of a shape file, found nothing"),
    ("trace a --node=", "trace --node: expected the name of a node, such as worker-1, found ''"),
    *(
        (
            f"trace a --attempt {found}",
            f"trace --attempt: expected an attempt number, whole and 1 or more, found '{found}'",
        )
        for found in ("x", "0", "-1", "1.5", "1_0", "\u0663", "9" * 21)
    ),
    (
        "trace a --operation 3",
        "trace --operation: expected an operation such as op(3,1) or 3,1, found '3'",
    ),
]


@pytest.mark.parametrize(("words", "told"), WRONG)
def test_wrong_usage_says_what_is_wrong_and_what_was_expected_and_exits_2(
    capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    code = main(words.split())
    out, errors = capsys.readouterr()

    verb = words.partition(" ")[0]
    helped = (
        f"cluster-reconciler {verb} --help" if verb in EXAMPLES else "cluster-reconciler --help"
    )
    *lines, last = errors.splitlines()
    assert (code, out, "|".join(lines)[: len(told)], last) == (
        2,
        "",
        told,
        f"`{helped}` tells more",
    )


def test_with_json_the_same_is_one_document_wherever_json_stands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    documents = []
    for words in (
        *("--json pln", "pln --json", "plan --json", "trace a --attempt x --json"),
        *("bench --only pas --json", "bench --json --onyl pass"),
    ):
        assert main(words.split()) == 2
        out, errors = capsys.readouterr()
        fault = msgspec.json.decode(out, type=UsageFault)
        assert (out.count("\n"), f"{fault}\n", fault.exit_code) == (1, errors, 2)
        documents.append((fault.verb, fault.nearest, fault.help))

    program = "cluster-reconciler --help"
    assert documents == [
        (None, None, program),
        (None, "plan", program),
        ("plan", None, "cluster-reconciler plan --help"),
        ("trace", None, "cluster-reconciler trace --help"),
        ("bench", "pass", "cluster-reconciler bench --help"),
        ("bench", "--only", "cluster-reconciler bench --help"),
    ]


def test_a_file_that_is_called_json_asks_for_no_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "--exit-code=1", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


# -- help -----------------------------------------------------------------------------------------

EXAMPLES = {
    "up": ("--watch", "--once", "--timeout", "--trace", "-v"),
    "validate": ("--against", "--json"),
    "plan": ("--from", "--exit-code", "--json"),
    "trace": ("--follow", "--summary", "--node", "--attempt", "--operation"),
    "replay": ("--until", "--state", "--node", "--json"),
    "bench": ("--nodes", "--quick", "--only", "--peers", "--profile", "--json"),
}
CODES = {
    "up": "0, 1, 2, 4, 130, 143, 129, 141",
    "validate": "0, 1, 2, 141",
    "plan": "0, 1, 2, 3, 141",
    "trace": "0, 1, 2, 130, 141",
    "replay": "0, 1, 2, 130, 141",
    "bench": "0, 1, 2, 130, 141",
}


@pytest.mark.parametrize("verb", EXAMPLES)
def test_the_help_of_a_verb_has_examples_and_exit_codes_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([verb, "--help"]) == 0
    out, errors = capsys.readouterr()

    examples = out.partition("\nexamples:\n")[2].partition("\n\n")[0].splitlines()
    shown = {option for option in EXAMPLES[verb] for line in examples if option in line.split()}
    codes = re.findall(
        r"^  ((?:\d+(?:, )?)+)  +\w", out.partition("\nexit codes:\n")[2], re.MULTILINE
    )
    assert (errors, [line for line in out.splitlines() if len(line) > 80]) == ("", [])
    assert {line.split()[1] for line in examples} == {verb}
    assert (shown, ", ".join(codes)) == (set(EXAMPLES[verb]), CODES[verb])


def test_the_help_of_the_program_names_every_verb_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    out, errors = capsys.readouterr()

    verbs = re.findall(r"^ {4}(\w+) {2,}", out, re.MULTILINE)
    assert (verbs, errors, max(map(len, out.splitlines())) <= 80) == (list(EXAMPLES), "", True)
