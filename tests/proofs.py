"""The longer proofs of the project's promises, on real processes; each prints what it measured.

    python -m tests.proofs kills            # kill -9 and -STOP of single processes of a node
    python -m tests.proofs shapes           # 3 -> 5 -> 2, another boot command, A -> B -> A
    python -m tests.proofs sigkill --rounds 100   # kill -9 of `up` at random moments
    python -m tests.proofs crashes --attempts 2000
    python -m tests.proofs many --nodes 200       # and 2 000 in memory
    python -m tests.proofs leaks            # F22: 100 000 attempts, stepped; about 5 minutes
    python -m tests.proofs log              # F29: 500 nodes fail for a day; half an hour

Every proof works in a temporary folder, ends what it started, and exits with 1 when it fails.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from loguru import logger

from cluster_reconciler.actors import Cluster, EventKind, RetryPolicy
from cluster_reconciler.actors.swarm import SwarmListener
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.executors.providers.process import ProcessProvider
from cluster_reconciler.executors.providers.process.processes import LEASE_VARIABLE
from cluster_reconciler.messages import (
    BootSpec,
    ClusterShape,
    NodeGroupId,
    ProviderKind,
    RoleId,
    RunId,
    RunNodeGroupSpec,
)
from tests.fields_leaks import WARM_UP, FailingForLong, grown
from tests.fields_log import WAYS, FailingNodes

PROCESS, MEMORY = ProviderKind("process"), ProviderKind("memory")
FAST = RetryPolicy(initial_delay=timedelta(milliseconds=100), jitter=0.0)


def shape(
    count: int,
    generation: int = 1,
    *,
    command: str = "exec sleep 1000",
    provider: ProviderKind = PROCESS,
) -> ClusterShape:
    group = RunNodeGroupSpec(
        RunId(1),
        NodeGroupId("n"),
        RoleId("worker"),
        count,
        provider,
        boot=BootSpec(start_swactor_command=command),
    )
    return ClusterShape(RunId(1), generation, (group,))


def leases(cluster: Cluster) -> dict[str, tuple[int | None, str | None]]:
    return {node.node: (node.attempt, node.lease_id) for node in cluster.status().nodes}


def marked(state_dir: Path) -> list[int]:
    """Living processes of any lease below the state directory."""
    mark = f"{LEASE_VARIABLE}={state_dir}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                environment = Path(f"/proc/{entry.name}/environ").read_bytes()
                state = Path(f"/proc/{entry.name}/stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if mark in environment and state not in (b"Z", b"X"):
                found.append(int(entry.name))
    return found


def level() -> dict[str, int]:
    """What must not grow."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    return {
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "children": len(children.split()),
        "rss_kib": int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4,
    }


def expect(claim: bool, what: str) -> None:
    print(("ok    " if claim else "FAILED  ") + what, flush=True)
    if not claim:
        raise SystemExit(1)


# -- single processes of a node ---------------------------------------------------------------


def kills(state_dir: Path, _options: argparse.Namespace) -> None:
    listener = SwarmListener(grace=timedelta(seconds=2))
    with Cluster.start(
        shape(5), providers=[ProcessProvider(state_dir)], retry=FAST, swarm=listener
    ) as cluster:
        cluster.wait_converged(timeout=30)
        for victim, number in (
            ("command", signal.SIGKILL),
            ("agent", signal.SIGSTOP),
            ("agent", signal.SIGKILL),
            ("shim", signal.SIGKILL),
        ):
            before = leases(cluster)
            directory = state_dir / str(before["n-1"][1])
            pids = json.loads((directory / "processes.json").read_text(encoding="utf-8"))
            events = cluster.events()
            began = time.monotonic()
            os.kill(pids[victim][0], number)
            lost = next(e for e in events if e.kind is EventKind.FAILED and e.node == "n-1")
            back = next(e for e in events if e.kind is EventKind.READY and e.node == "n-1")
            seconds = time.monotonic() - began
            after = leases(cluster)
            others = [node for node in before if node != "n-1"]
            print(f"      {lost.text}")
            expect(back.attempt != before["n-1"][0], f"{victim} {number.name}: a new attempt")
            expect(all(after[n] == before[n] for n in others), "the others are not touched")
            expect(seconds < 5 + 2, f"ready again after {seconds:.2f} s")
    expect(marked(state_dir) == [], "no process is left")


def shapes(state_dir: Path, _options: argparse.Namespace) -> None:
    provider = ProcessProvider(state_dir)
    with Cluster.start(shape(3), providers=[provider], retry=FAST) as cluster:
        cluster.wait_converged(timeout=30)
        three = leases(cluster)
        cluster.update_desired(shape(5, 2))
        cluster.wait_converged(timeout=30)
        five = leases(cluster)
        expect(all(five[n] == three[n] for n in three) and len(five) == 5, "3 -> 5 keeps the three")
        cluster.update_desired(shape(2, 3))
        cluster.wait_converged(timeout=30)
        two = leases(cluster)
        expect(two == {n: three[n] for n in ("n-0", "n-1")}, "5 -> 2 keeps n-0 and n-1")
        cluster.update_desired(shape(2, 4, command="echo version A; exec sleep 2000"))
        cluster.wait_converged(timeout=30)
        other = leases(cluster)
        expect(
            sorted(other) == ["n-0", "n-1"]
            and {a for a, _ in other.values()}.isdisjoint({a for a, _ in two.values()}),
            f"another boot command: new attempts {sorted(a or 0 for a, _ in other.values())}",
        )
        cluster.update_desired(shape(2, 5, command="echo version B; exec sleep 3000"))
        cluster.update_desired(shape(2, 6, command="echo version A; exec sleep 2000"))
        cluster.wait_converged(timeout=30)
        commands = running_commands(state_dir)
        expect(commands == ["sleep 2000"] * 2, f"A -> B -> A: runs {commands}")
    logs = [p.read_text(encoding="utf-8") for p in state_dir.glob("ended/*/stdout.log")]
    expect(
        "version A" in "".join(logs) and "version B" not in "".join(logs), "no B was ever started"
    )
    expect(marked(state_dir) == [], "no process is left")


def running_commands(state_dir: Path) -> list[str]:
    found = []
    for path in state_dir.glob("run-*/*/processes.json"):
        pid = json.loads(path.read_text(encoding="utf-8"))["command"][0]
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        found.append(b" ".join(words).decode())
    return sorted(found)


# -- the reconciler itself ------------------------------------------------------------------------

UP_FILE = """
run_id = 1
[[groups]]
group_id = "n"
role = "worker"
count = 5
provider = "process"
[groups.boot]
start_swactor_command = "(setsid sleep 1000 &); exec sleep {lifetime}"
[retry]
initial_delay = "50ms"
max_delay = "200ms"
[providers.process]
state_dir = "{state_dir}"
"""


def sigkill(state_dir: Path, options: argparse.Namespace) -> None:
    chance = random.Random(options.seed)
    print(f"seed {options.seed}")
    file = state_dir.parent / "up.toml"
    # Nodes come and go: each lives for a second or two.
    file.write_text(UP_FILE.format(lifetime="1.5", state_dir=state_dir), encoding="utf-8")
    slowest, named = 0.0, 0
    for number in range(options.rounds):
        log = state_dir.parent / "up.log"
        with log.open("wb") as errors:
            up = subprocess.Popen(
                [sys.executable, "-m", "cluster_reconciler.actors", "up", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        time.sleep(chance.uniform(0.3, 4.0))
        if up.poll() is not None:
            expect(False, f"round {number}: up ended by itself: {log.read_text(encoding='utf-8')}")
        up.kill()
        up.wait()
        began = time.monotonic()
        while (left := marked(state_dir)) and time.monotonic() - began < 2.0:
            time.sleep(0.02)
        slowest = max(slowest, time.monotonic() - began)
        if left:
            expect(False, f"round {number}: processes {left} outlived the reconciler by 2 s")
        named += "left by an earlier process" in log.read_text(encoding="utf-8")
    expect(
        True, f"{options.rounds} kills: every node was gone, at the latest {slowest:.2f} s later"
    )
    print(f"      {named} starts named what the one before had left")
    done = subprocess.run(
        [sys.executable, "-m", "cluster_reconciler.actors", "up", str(file), "--once"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    print("      " + "\n      ".join(done.stderr.splitlines()[-8:]))
    expect(done.returncode == 0, "the next start goes on: converged and drained")
    expect(not list(state_dir.glob("run-*/*")), "no lease directory is left")


# -- growth ---------------------------------------------------------------------------------------


def crashes(state_dir: Path, options: argparse.Namespace) -> None:
    quick = RetryPolicy(
        initial_delay=timedelta(milliseconds=5), max_delay=timedelta(milliseconds=20), jitter=0.0
    )
    provider = ProcessProvider(state_dir)
    wanted = shape(4, command="exit 3")
    with Cluster.start(wanted, providers=[provider], retry=quick) as cluster:
        events = cluster.events()
        began = time.monotonic()
        failures = 0
        first: dict[str, int] = {}
        while failures < options.attempts:
            event = next(events)
            failures += event.kind is EventKind.FAILED
            if failures == options.attempts // 10 and not first:
                first = level()
        last = level()
        seconds = time.monotonic() - began
    print(f"      {failures} attempts in {seconds:.1f} s, {seconds / failures * 1000:.0f} ms each")
    print(f"      after a tenth {first}\n      at the end   {last}")
    expect(last["threads"] <= first["threads"] + 8, "threads are at their level")
    expect(last["files"] <= first["files"] + 24, "files are at their level")
    expect(last["children"] <= first["children"] + 8, "children are at their level")
    expect(last["rss_kib"] <= first["rss_kib"] * 1.15 + 8192, "memory is at its level")
    expect(marked(state_dir) == [], "no process is left")


def leaks(_state_dir: Path, options: argparse.Namespace) -> None:
    """F22: failing bootstraps, stepped, with the production executors."""
    began = time.monotonic()
    life = FailingForLong()
    levels = []
    for attempts in (WARM_UP, options.leak_attempts):
        life.run(attempts)
        levels.append(life.level())
        print(f"      after {attempts} attempts, {time.monotonic() - began:.0f} s: {levels[-1]}")
    first, last = levels
    expect(grown(first, last) == [], "no growth")
    life.close()


def log(_state_dir: Path, options: argparse.Namespace) -> None:
    """F29: 24 hours of nodes that fail, in one way after another."""
    for way, play in WAYS.items():
        began = time.monotonic()
        life = FailingNodes(play, options.log_nodes, RetryPolicy(seed=29), timedelta(seconds=30))
        life.run(timedelta(hours=24))
        expect(
            life.bytes < 10_000_000 * options.log_nodes // 500,
            f"{options.log_nodes} nodes, 24 h, {way}: {life.failures} failures in {life.lines} "
            f"lines, {life.bytes} bytes ({time.monotonic() - began:.0f} s)",
        )


# -- many -----------------------------------------------------------------------------------------


def many(state_dir: Path, options: argparse.Namespace) -> None:
    def converge(name: str, wanted: ClusterShape, make: Callable[[], Cluster]) -> None:
        cpu = time.process_time()
        began = time.monotonic()
        with make() as cluster:
            cluster.wait_converged(timeout=300)
            seconds = time.monotonic() - began
            own = time.process_time() - cpu
            threads = threading.active_count()
            count = sum(group.count for group in wanted.groups)
            expect(
                True,
                f"{count} nodes {name}: ready after {seconds:.1f} s, {own:.1f} s of CPU in this "
                f"process, {threads} threads then, {level()['files']} files",
            )
            began = time.monotonic()
        print(
            f"      drained in {time.monotonic() - began:.1f} s; {threading.active_count()} threads"
        )

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    try:
        wanted = shape(options.nodes)
        provider = ProcessProvider(state_dir)
        converge("as processes", wanted, lambda: Cluster.start(wanted, providers=[provider]))
        expect(marked(state_dir) == [], "no process is left")
        thousands = shape(2000, provider=MEMORY)
        converge(
            "in memory",
            thousands,
            lambda: Cluster.start(thousands, providers=[MemoryProvider()]),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


PROOFS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "kills": kills,
    "shapes": shapes,
    "sigkill": sigkill,
    "crashes": crashes,
    "many": many,
    "leaks": leaks,
    "log": log,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs", description=__doc__)
    parser.add_argument("proof", choices=[*PROOFS, "all"])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--attempts", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--leak-attempts", type=int, default=100_000)
    parser.add_argument("--log-nodes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    logger.remove()
    logger.add(sys.stderr, level="ERROR")
    for name in PROOFS if options.proof == "all" else [options.proof]:
        print(f"== {name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            PROOFS[name](Path(folder) / "state", options)


if __name__ == "__main__":
    main()
