"""Attempts by the thousand whose bootstrap fails, and what must not grow meanwhile (F22).

The production driver and executors, stepped; timers as the runtime has them, their one deadline far
ahead and replaced at every step.  The provider remembers nothing, so that what grows is ours.  It
starts no process and the executors no thread: real ones are counted by the tests of F22 in
`test_process_bounds.py` and `test_executor_threads.py`.
"""

import gc
import os
import sys
import threading
from datetime import timedelta
from pathlib import Path

from msgspec import Struct

from cluster_reconciler.actors.clock import ManualClock
from cluster_reconciler.actors.events import EventKind
from cluster_reconciler.actors.mailbox import Ring
from cluster_reconciler.actors.spawning import SteppingSpawner
from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import T0, group, shape
from cluster_reconciler.actors.system import ActorSystem
from cluster_reconciler.actors.timers import ThreadTimers
from cluster_reconciler.decider import RetryPolicy, later
from cluster_reconciler.executors import Executors, SwarmTicket
from cluster_reconciler.executors.provider import BootstrapContext, ProviderError
from cluster_reconciler.executors.providers.memory import MemoryProvider
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionSpec,
    DestroyHandle,
    LeaseCreated,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeSpec,
    ProviderKind,
    ProviderLeaseId,
)


class Level(Struct, frozen=True):
    """What must not grow."""

    threads: int
    files: int
    children: int
    """Those that have ended and were not waited for, too."""
    timers: int
    """Entries of the timers, the stale ones too."""
    blocks: int
    """Blocks of memory that the interpreter has given out."""
    rss_kib: int


class Forgetful(MemoryProvider):
    """Makes a machine, cannot boot it, ends it, and remembers nothing of it."""

    def create_lease(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> LeaseCreated:
        lease = ProviderLeaseId(f"lease-{identity.attempt}")
        return LeaseCreated(LeaseFacts(ProviderKind("memory"), lease), LocalEndpoint("here"))

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        raise ProviderError("exit code 3")

    def destroy_lease(self, identity: AttemptIdentity, handle: DestroyHandle) -> bool:
        return True


class FailingForLong:
    """`nodes` nodes that fail, again and again."""

    def __init__(self, nodes: int = 4) -> None:
        self.attempts = 0
        self._clock = ManualClock(T0)
        self._timers = ThreadTimers(ManualClock(T0), "timers of the leak test")
        self._spawner = SteppingSpawner(
            ActorSystem("failing-for-long", self._clock, ticks=lambda: 0.0), "fifo"
        )
        self._spawner.ring = Ring(RING_ENTRIES)
        wanted = shape(group(count=nodes))
        executors = Executors(
            wanted.run_id,
            (Forgetful(now=self._clock.now),),
            self._spawner,
            self._tell,
            self._clock.now,
            lambda _identity: SwarmTicket("127.0.0.1:1", "a token of no swarm"),
        )
        self.cluster = SteppingCluster(
            wanted, retry=RetryPolicy(seed=22), executor=executors, check_invariants=False
        )

    def run(self, attempts: int) -> None:
        """Until so many attempts have failed in all."""
        while self.attempts < attempts:
            self.cluster.drive()
            while self._spawner.pump():
                self.cluster.drive()
            due = self.cluster.due_at
            assert due is not None, "a failing node waits for something"
            # The runtime has one timer; at every pass it is put off, or brought forward.
            for hours in (1, 24 * 365):
                far = later(due, timedelta(hours=hours))
                self._timers.schedule("deadline", far, lambda: None)
            self.cluster.advance(max(due - self.cluster.now, timedelta(0)))
            self._clock.set(self.cluster.now)
            failed = [e for e in self.cluster.events if e.kind is EventKind.FAILED]
            self.attempts += len(failed)
            self.cluster.forget_events()

    def _tell(self, message: object) -> None:
        self.cluster.tell(message)

    def level(self) -> Level:
        """What there is now."""
        gc.collect()
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return Level(
            threads=threading.active_count(),
            files=len(os.listdir("/proc/self/fd")),
            children=len(children.split()),
            timers=len(self._timers._schedule.heap),
            blocks=sys.getallocatedblocks(),
            rss_kib=int(pages) * 4,
        )

    def close(self) -> None:
        """The timers' thread ends."""
        assert self._timers.close(timedelta(seconds=10)), "the timers' thread does not end"


RING_ENTRIES = 1_000
WARM_UP = 1_000
"""Attempts after which the mailbox's ring, bounded and the largest thing here, has filled up: it is
a tenth of the production one."""


def grown(first: Level, last: Level) -> list[str]:
    """What is not at its level any more, in words; to be compared from `WARM_UP` on."""
    most = Level(
        threads=first.threads,
        files=first.files,
        children=first.children,
        timers=max(first.timers, 50),
        blocks=first.blocks + 2_000,
        rss_kib=int(first.rss_kib * 1.15) + 8192,
    )
    return [
        f"{name}: {getattr(first, name)}, then {getattr(last, name)}"
        for name in Level.__struct_fields__
        if getattr(last, name) > getattr(most, name)
    ]
