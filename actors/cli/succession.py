"""Whether one shape file may follow another: what a running cluster would refuse (design rule 23).

Says it with file, line and place before anything runs.  The running driver judges for itself.
"""

from cluster_reconciler.actors.cli.faults import Fault, described, printable
from cluster_reconciler.actors.cli.read_file import read_document
from cluster_reconciler.actors.cli.shape_diff import same_content
from cluster_reconciler.actors.cli.shape_file import LoadedShape

_COUNT_UP = "count it up with every change, or leave it out: then it is counted up by itself"


def succession_faults(old: LoadedShape, new: LoadedShape) -> tuple[Fault, ...]:
    """Why `new` may not follow `old`; empty: it may.  As the driver does, it asks for the run
    first, and does not compare generations of different runs."""
    before, after = old.shape, new.shape
    if after.run_id != before.run_id:
        expected = f"{before.run_id}, the run of {printable(old.file)}"
        hint = "a cluster keeps its run_id for life; another run is another cluster"
        return (_fault(new, "run_id", expected, described(after.run_id), hint),)
    if not new.generation_given:
        return ()
    has = "has" if old.generation_given else "names none and so has"
    theirs = f"{printable(old.file)} {has} {before.generation}"
    same = same_content(before, after)
    least = before.generation if same else before.generation + 1
    if after.generation >= least:
        return ()
    expected = f"an integer of at least {least}"
    found = f"{described(after.generation)} where {theirs}"
    if after.generation == before.generation:
        expected += " for a shape with other content"
        found = f"{described(after.generation)}, and {theirs} too"
    return (_fault(new, "generation", expected, found, _COUNT_UP),)


def _fault(new: LoadedShape, key: str, expected: str, found: str, hint: str) -> Fault:
    """The file is read again for its lines alone: what was loaded of it does not keep them."""
    document = read_document(new.file)
    document.fault((key,), expected, found, hint=hint)
    return document.faults[-1]
