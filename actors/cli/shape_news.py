"""How `up --watch` tells what became of an edit: prose for people, a `ShapeLine` for programs.

Says what it is given; compares and decides nothing.
"""

from datetime import UTC, datetime

from msgspec import Struct

from cluster_reconciler.actors.cli.arguments import UpOptions
from cluster_reconciler.actors.cli.durations import format_duration
from cluster_reconciler.actors.cli.faults import Caution, Fault, printable, told
from cluster_reconciler.actors.cli.shape_change import PlanSummary, ShapeChange
from cluster_reconciler.actors.cli.up_screen import UpScreen
from cluster_reconciler.actors.cli.words import WAITS_NAMED_MAX, one_line
from cluster_reconciler.actors.status import ClusterStatus, state_of


class ShapeLine(Struct, frozen=True, tag_field="type", tag="shape"):
    """A line of `up --watch --json`: what became of one change of the file."""

    at: datetime
    file: str
    generation: int
    """The one that is in force after it."""
    accepted: bool
    """The file's content is in force, but for what stands in `needs_restart`."""
    reason: str | None = None
    """Why it is not; the faults say it when there are any."""
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Caution, ...] = ()
    plan: PlanSummary | None = None
    """What becomes of the nodes; None: nothing was accepted."""
    takes_effect: tuple[str, ...] = ()
    """Settings that have changed."""
    needs_restart: tuple[str, ...] = ()
    """Settings that change with the next start."""


class ShapeNews:
    """Of one file.  On the main thread."""

    def __init__(self, options: UpOptions, screen: UpScreen, cautions: tuple[Caution, ...]) -> None:
        """`cautions`: those that have been told already."""
        self._file = options.file
        self._screen = screen
        self._told = {(caution.path, caution.text) for caution in cautions}

    def faults(self, faults: tuple[Fault, ...], generation: int) -> None:
        """The file is wrong, or gone; `generation` goes on."""
        self._screen.warn(
            "\n".join(
                [
                    *told(faults, sources=self._screen.errors_are_read),
                    self._unchanged("not used", generation),
                ]
            )
        )
        self._line(generation, accepted=False, faults=faults)

    def refused(self, reason: str, generation: int) -> None:
        """The file is right in itself, and cannot follow what runs."""
        self._screen.warn(self._unchanged(f"refused, {printable(reason)}", generation))
        self._line(generation, accepted=False, reason=reason)

    def plan(self, change: ShapeChange, cautions: tuple[Caution, ...]) -> None:
        """What is about to be asked for."""
        for caution in cautions:
            if (caution.path, caution.text) not in self._told:
                self._screen.warn(str(caution))
        if change.changes:
            self._screen.say("\n".join(self._plan(change)))
        else:
            self._screen.say(f"{self._name}: nothing to do, generation {change.generation} is that")
        if change.needs_restart:
            lines = [f"  {text}" for text in change.needs_restart]
            head = f"{self._name}: only a new start of `up` brings into force:"
            self._screen.warn("\n".join([head, *lines]))

    def accepted(self, change: ShapeChange, cautions: tuple[Caution, ...]) -> None:
        """It is in force, or was already."""
        self._told.update((caution.path, caution.text) for caution in cautions)
        self._line(
            change.generation,
            accepted=True,
            warnings=cautions,
            plan=change.plan,
            takes_effect=change.takes_effect,
            needs_restart=change.needs_restart,
        )

    def still_waiting(self, status: ClusterStatus) -> None:
        """An edit shortens no wait: who waits for its restart begins by the new shape after it."""
        lines = [
            f"  {one_line(node.node)} begins anew in {format_duration(node.until - status.at)}, "
            "the wait after its earlier failure"
            for node in status.nodes
            if state_of(node) == "backing off"
            if node.until is not None and node.until > status.at
        ]
        if more := len(lines) - WAITS_NAMED_MAX:
            lines[WAITS_NAMED_MAX:] = [f"  and {more} more"] * (more > 0)
        if lines:
            self._screen.say("\n".join(lines))

    @property
    def _name(self) -> str:
        return printable(self._file)

    def _plan(self, change: ShapeChange) -> list[str]:
        if change.shape is None:
            head = f"{self._name}: the shape stays, generation {change.generation}"
        else:
            head = f"{self._name}: generation {change.generation}, {change.plan}"
        return [head, *(f"  {line}" for line in (*change.plan.groups, *change.takes_effect))]

    def _unchanged(self, what: str, generation: int) -> str:
        return f"{self._name}: {what}; nothing changes, generation {generation} goes on"

    def _line(self, generation: int, **said: object) -> None:
        line = ShapeLine(datetime.now(UTC), self._file, generation, **said)  # type: ignore[arg-type]
        self._screen.line(line)
