"""Real sessions of `up --watch` in a terminal, shown as a person sees them.

    python -m tests.terminal_sessions                           # 5 and 300 nodes, two sizes each
    python -m tests.terminal_sessions --nodes 5 --size 80x24

Each brings real nodes up, kills one, edits the file wrongly and then rightly, and presses Ctrl-C
once; a second one, whose nodes do not want to end, is left by Ctrl-C twice, and a third cleans up
after it.  Prints every screen, checks what must be on it, and exits with 1 when something is not.
Needs tmux; works in a temporary folder and leaves nothing behind.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cluster_reconciler.executors.providers.process.run_lock import RunHeld, lock_run
from cluster_reconciler.messages import RunId
from tests.proofs import expect, marked
from tests.terminal_kit import Terminal

SIZES = ("80x24", "200x60")
STUBBORN = "trap '' TERM INT; while :; do sleep 1; done"
SHAPE = """\
run_id = 1

[[groups]]
group_id = "worker"
role = "worker"
count = {count}
provider = "process"

[groups.boot]
start_swactor_command = "{command}"

[swarm]
grace = "20s"
"""
SECONDS_TO_START = 120
"""Three hundred nodes on two busy cores."""


class Session:
    """One terminal, one shape file, one state directory."""

    def __init__(self, folder: Path, nodes: int, columns: int, lines: int) -> None:
        self._folder = folder
        self._nodes = nodes
        self._title = f"{nodes} nodes, {columns}x{lines}"
        self.places = folder / "state" / "cluster-reconciler"
        self.write(nodes, "exec sleep 1000")
        self.terminal = Terminal(folder, columns, lines)
        program = Path(sys.executable).parent / "cluster-reconciler"
        self.terminal.type(f"export XDG_STATE_HOME={self.places.parent}; alias cr={program}; clear")

    def write(self, count: int | str, command: str) -> None:
        """Another content, at once, as an editor does it."""
        new = self._folder / "shape.toml.new"
        new.write_text(SHAPE.format(count=count, command=command))
        new.rename(self._folder / "shape.toml")

    def type(self, command: str) -> None:
        self.terminal.type(f"clear; {command}")

    def show(self, what: str, *texts: str) -> list[str]:
        """Wait until all of the texts are seen, and print the screen."""
        deadline = time.monotonic() + SECONDS_TO_START
        while True:
            rows = self.terminal.rows()
            whole = "".join(rows)
            if all(text.replace(" ", "") in whole.replace(" ", "") for text in texts):
                break
            if time.monotonic() > deadline:
                print("\n".join(rows))
                expect(False, f"{self._title}: {what}: {texts} are seen")
            time.sleep(0.05)
        print(f"\n---- {self._title}: {what}")
        print("\n".join(rows), flush=True)
        expect(True, f"{what}: {', '.join(texts)}")
        return rows

    def kill(self, node: str) -> None:
        """`kill -9` of a node's command."""
        (place,) = self.places.glob(f"run-1/{node}-*/processes.json")
        os.kill(json.loads(place.read_text())["command"][0], signal.SIGKILL)

    def end(self) -> None:
        """The terminal goes away, and what still runs in it drains."""
        self.terminal.end()
        deadline = time.monotonic() + SECONDS_TO_START
        while True:
            try:
                lock_run(self.places, RunId(1)).close()
                return
            except RunHeld:
                expect(time.monotonic() < deadline, "what runs in the terminal ends with it")
                time.sleep(0.05)


def a_life(session: Session, nodes: int) -> None:
    """Up, a node killed, a wrong and a right edit, Ctrl-C."""
    all_ready = f"{nodes} of {nodes} ready"
    session.type("cr up shape.toml --watch; echo exit $?")
    session.show("up", all_ready, "generation 1")

    session.kill("worker-1")
    session.show("a node is killed", "worker-1 failed", "SIGKILL")
    session.show("it is back", all_ready, f"worker-1 ready (attempt {nodes + 1})")

    session.write('"4"', "exec sleep 1000")
    session.show("a wrong edit", "groups[0].count", "not used; nothing changes")

    session.write(nodes + 1, "exec sleep 1000")
    ready = f"{nodes + 1} of {nodes + 1} ready"
    session.show("a right edit", "generation 2", "1 added, 0 removed", ready)

    session.terminal.press("C-c")
    session.show("Ctrl-C", "drained: nothing is left", "exit 130")
    expect(session.terminal.cursor_is_visible(), "the cursor is visible")
    expect(marked(session.places) == [], "no process of a node lives")


def a_forced_end(session: Session, nodes: int) -> None:
    """Ctrl-C twice while the nodes do not want to end, and what the next start makes of it."""
    session.write(nodes, STUBBORN)
    session.type("cr up shape.toml; echo exit $?")
    session.show("up, of nodes that ignore SIGTERM", f"{nodes} of {nodes} ready")
    session.terminal.press("C-c")
    session.show("the first Ctrl-C", "draining, waits for")
    session.terminal.press("C-c")
    began = time.monotonic()
    rows = session.show("the second Ctrl-C", "the next `up` of this run names them", "exit 1")
    expect("exit 1" in rows, "leases that may be left are no success")
    expect(time.monotonic() - began < 2.5, f"it ends in {time.monotonic() - began:.2f} s")

    session.type("cr up shape.toml --once -q; echo exit $?")
    session.show("the next start", "exit 0")
    expect(marked(session.places) == [], "no process of a node lives")


def run(nodes: int, size: str) -> None:
    columns, lines = (int(number) for number in size.split("x"))
    with tempfile.TemporaryDirectory() as place:
        session = Session(Path(place), nodes, columns, lines)
        parts: tuple[Callable[[Session, int], None], ...] = (a_life, a_forced_end)
        try:
            for part in parts:
                part(session, nodes)
        finally:
            session.end()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.terminal_sessions", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append")
    parser.add_argument("--size", action="append", help="such as 80x24")
    options = parser.parse_args()
    for nodes in options.nodes or (5, 300):
        for size in options.size or SIZES:
            run(nodes, size)


if __name__ == "__main__":
    main()
