"""The table of a mutation run, and its survivors with their reasons.

It reads verdicts and runs nothing.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SURVIVORS = Path(__file__).parent / "survivors.md"
LEAST_KILLED = 0.95
NOTICED = ("killed", "timeout", "crashed")
_ROW = re.compile(
    r"^\| (?P<file>[^|]+) \| (?P<place>[^|]+) \| (?P<change>.+) \| (?P<why>[^|]+) \|$"
)


@dataclass(frozen=True)
class Told:
    """A verdict as the worker wrote it."""

    mutant: str
    line: int
    result: str
    test: str = ""
    seconds: float = 0.0

    @property
    def file(self) -> str:
        """The mutated file."""
        return self.mutant.partition(" | ")[0]


def known_survivors(text: str | None = None) -> dict[str, str]:
    """The reason of each survivor that is known, by the mutant's key."""
    found = {}
    for line in (SURVIVORS.read_text() if text is None else text).splitlines():
        row = _ROW.match(line)
        if row is not None and not row["file"].startswith(("file", "---")):
            key = f"{row['file'].strip()} | {row['place'].strip()} | {row['change'].strip()}"
            found[key] = row["why"].strip()
    return found


def table(verdicts: Sequence[Told], known: dict[str, str]) -> list[str]:
    """One line for each file, and one for all of them."""
    heads = "mutants killed timeout survived explained no-tests killed-of-all"
    lines = [f"{'file':32} {heads}"]
    files = list(dict.fromkeys(verdict.file for verdict in verdicts))
    for file in [*files, "all"]:
        own = [v for v in verdicts if file in (v.file, "all")]
        by_result = Counter(v.result for v in own)
        explained = sum(v.result == "survived" and v.mutant in known for v in own)
        lines.append(
            f"{file:32} {len(own):7} {by_result['killed'] + by_result['crashed']:6} "
            f"{by_result['timeout']:7} {by_result['survived']:8} {explained:9} "
            f"{by_result['no tests']:8} {100 * killed_share(own):12.1f} %"
        )
    return lines


def killed_share(verdicts: Sequence[Told]) -> float:
    """How many of the mutants were noticed, from 0 to 1; what loops for ever is noticed."""
    noticed = sum(v.result in NOTICED for v in verdicts)
    return noticed / len(verdicts) if verdicts else 0.0


def unexplained(verdicts: Sequence[Told], known: dict[str, str]) -> list[Told]:
    """The survivors that have no reason in the list."""
    left = ("survived", "no tests")
    return [v for v in verdicts if v.result in left and v.mutant not in known]


def print_report(verdicts: Sequence[Told]) -> bool:
    """Print it all; whether enough are killed and every survivor is explained."""
    known = known_survivors()
    print("\n".join(table(verdicts, known)))
    for verdict in verdicts:
        if verdict.result == "survived" and verdict.mutant in known:
            print(f"explained, line {verdict.line}: {verdict.mutant}: {known[verdict.mutant]}")
    left = unexplained(verdicts, known)
    for verdict in left:
        print(f"SURVIVED, line {verdict.line}: {verdict.mutant}")
    killed = {verdict.mutant for verdict in verdicts if verdict.result == "killed"}
    for mutant in known.keys() & killed:
        print(f"in the list of survivors, and killed: {mutant}")
    return killed_share(verdicts) >= LEAST_KILLED and not left
