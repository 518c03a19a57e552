"""The README's decision table and lifecycle diagram, drawn from the code itself.

The table is `decider.ROWS`.  The diagram is what the walk over every state of one node has seen
happen (`decider_walk`): no edge stands in it that the real decider does not take, none is missing.

    python -m tests.lifecycle_documents            # print them
    python -m tests.lifecycle_documents --write    # put them into README.md
"""

import sys
from pathlib import Path

from cluster_reconciler.decider import ROWS
from tests.decider_walk import walk

README = Path(__file__).resolve().parent.parent / "README.md"

_WORDS = {
    "a deadline": "a wait ends",
    "stage cancelled": "BootstrapObserved",
    "stage converged": "BootstrapObserved",
    "stage ssh_connect_failed": "BootstrapObserved",
    "create_lease attempt_ending": "CreateLease failed",
    "lookup_endpoint attempt_ending": "LookupEndpoint failed",
    "lookup_endpoint ambiguous": "a wait ends",
    "lookup_endpoint definite": "a wait ends",
    "start_bootstrap attempt_ending": "StartBootstrap failed",
    "start_bootstrap ambiguous": "a wait ends",
    "start_bootstrap definite": "StartBootstrap failed",
    "bootstrap_convergence_observed attempt_ending": "a wait ends",
    "bootstrap_convergence_observed ambiguous": "a wait ends",
    "bootstrap_convergence_observed definite": "a wait ends",
    "EndpointLookup": "a wait ends",
    "BootstrapAbsent": "a wait ends",
    "BootstrapCancelled": "a wait ends",
    "LeaseDestroyed": "a wait ends",
}
"""How the walk's finer words read in a diagram.  Answers that bring nothing, or are of the wrong
kind, move a stage only by ending a wait that is over."""


def decision_table() -> str:
    """`ROWS` in Markdown, in order."""
    lines = ["| | facts | next action | why |", "|---|---|---|---|"]
    lines += [
        f"| {number} | {row.facts} | {row.action} | {row.why} |"
        for number, row in enumerate(ROWS, start=1)
    ]
    return "\n".join(lines)


def lifecycle() -> str:
    """Every move from stage to stage that can happen, in Mermaid."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for (before, after), causes in sorted(walk().stage_moves.items()):
        words = sorted({_WORDS.get(cause, cause) for cause in causes})
        lines.append(f"    {before} --> {after}: {', '.join(words)}")
    return "\n".join([*lines, "```"])


def filled(text: str) -> str:
    """The text with both documents between their markers; raises ValueError without them."""
    for marker, document in (("decision table", decision_table()), ("lifecycle", lifecycle())):
        begin, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"README.md must hold `{begin}` and `{end}` once each")
        head, rest = text.split(begin)
        text = f"{head}{begin}\n{document}\n{end}{rest.split(end)[1]}"
    return text


def main(arguments: list[str]) -> None:
    """Print the documents, or write them into README.md."""
    if arguments == ["--write"]:
        README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(f"{decision_table()}\n\n{lifecycle()}")


if __name__ == "__main__":
    main(sys.argv[1:])
