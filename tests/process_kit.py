"""What the tests of real nodes share: a provider with one listener, and what it was told.

Starts nothing by itself, and knows only what /proc and the lease's own files say.  Without pytest:
a test's own reconciler imports it in a process of its own, and must not wait for that.
"""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from cluster_reconciler.actors.swarm import SwarmListener
from cluster_reconciler.executors.node.machine import descendants
from cluster_reconciler.executors.provider import BootstrapContext, Stream
from cluster_reconciler.executors.providers.process import Containment, ProcessProvider
from cluster_reconciler.executors.providers.process.processes import (
    identify,
    processes_of_lease,
)
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootSpec,
    BootstrapFailed,
    BootstrapObserved,
    BootstrapSessionId,
    BootstrapSessionSpec,
    DesiredNodeShape,
    DestroyHandle,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeId,
    LogicalNodeSpec,
    NodeAttemptId,
    NodeGroupId,
    ProviderKind,
    ProviderLeaseId,
    RoleId,
    RunId,
    SessionObservation,
    SwactorId,
    SwarmJoinSpec,
)

DEADLINE_S = 20.0
KIND = ProviderKind("process")

STUBBORN = "(setsid sh -c \"trap '' TERM HUP INT; echo stubborn; sleep 1000\" & ) ; "
"""Begins a command with a double-forked grandchild in a session of its own that ignores TERM."""


def wait_until(holds: Callable[[], object], what: str, seconds: float = DEADLINE_S) -> None:
    """Poll, with a deadline."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)


class Node:
    """One attempt, and everything that was told of it."""

    def __init__(self, name: str, attempt: int, session: int) -> None:
        self.identity = AttemptIdentity(RunId(7), LogicalNodeId(name), NodeAttemptId(attempt))
        self.session_id = BootstrapSessionId(session)
        self.observed: list[SessionObservation] = []
        self.losses: list[str] = []
        self.lines: list[tuple[Stream, int, str]] = []
        self.joined = threading.Event()
        self.left: list[str] = []
        self.lease: LeaseFacts | None = None
        self.directory = Path()

    @property
    def lease_id(self) -> ProviderLeaseId:
        assert self.lease is not None, "it has no lease yet"
        return self.lease.lease_id

    @property
    def stages(self) -> list[str]:
        return [str(seen.stage) for seen in self.observed if isinstance(seen, BootstrapObserved)]

    @property
    def failures(self) -> list[str]:
        return [seen.reason for seen in self.observed if isinstance(seen, BootstrapFailed)]

    @property
    def said(self) -> list[str]:
        return [text for stream, _, text in self.lines if stream is Stream.STDOUT]

    def pids(self) -> dict[str, int]:
        """The node's own processes, by their part."""
        try:
            text = (self.directory / "processes.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        return {name: pid for name, (pid, _) in json.loads(text).items()}

    def processes(self) -> list[int]:
        return processes_of_lease(str(self.directory))

    def wait_joined(self) -> None:
        assert self.joined.wait(DEADLINE_S), f"no join: {self.losses} {self.observed} {self.lines}"

    def wait_said(self, text: str) -> None:
        wait_until(lambda: text in self.said, f"{text!r} in {self.lines}, {self.losses}")

    def wait_lost(self, seconds: float = DEADLINE_S) -> str:
        wait_until(lambda: self.losses, f"a loss; observed {self.observed}", seconds)
        return self.losses[0]

    def wait_gone(self, seconds: float = 2.0) -> None:
        wait_until(lambda: not self.processes(), "no process of the node", seconds)


class Ground:
    """A provider, the swarm's listener, and the nodes that were asked for."""

    def __init__(self, state_dir: Path, containment: Containment, **options: timedelta) -> None:
        self.state_dir = state_dir
        self.swarm = SwarmListener(heartbeat=timedelta(milliseconds=100))
        self.nodes: dict[AttemptIdentity, Node] = {}
        self.swarm.start(self._joined, self._left)
        self.provider = ProcessProvider(
            state_dir,
            containment=containment,
            join_after=options.get("join_after", timedelta(milliseconds=50)),
            verify_timeout=options.get("verify_timeout", timedelta(seconds=10)),
        )
        self._sessions = 0

    def _joined(
        self, identity: AttemptIdentity, session: BootstrapSessionId, swactor: SwactorId
    ) -> None:
        self.nodes[identity].joined.set()

    def _left(self, identity: AttemptIdentity, reason: str) -> None:
        self.nodes[identity].left.append(reason)

    def node(self, name: str = "n-0", attempt: int = 1) -> Node:
        """A node that is known, without a lease yet."""
        self._sessions += 1
        node = Node(name, attempt, self._sessions)
        self.nodes[node.identity] = node
        return node

    def create(self, node: Node, options: dict[str, str] | None = None) -> Node:
        created = self.provider.create_lease(node.identity, spec_of(node, options or {}))
        node.lease = created.lease
        node.directory = self.state_dir / created.lease.lease_id
        return node

    def bootstrap(self, node: Node, boot: BootSpec, env: dict[str, str] | None = None) -> Node:
        self.provider.start_bootstrap(
            session_of(node, boot),
            BootstrapContext(
                node.identity,
                node.session_id,
                dict(boot.env) if env is None else env,
                self.swarm.ticket(node.identity),
                node.observed.append,
                node.losses.append,
                lambda stream, number, text: node.lines.append((stream, number, text)),
            ),
        )
        return node

    def start(
        self,
        command: str = "exec sleep 1000",
        name: str = "n-0",
        attempt: int = 1,
        *,
        verify_commands: tuple[str, ...] = (),
        args: tuple[str, ...] = (),
        stdout_sources: tuple[str, ...] = (),
    ) -> Node:
        """A lease and its bootstrap."""
        node = self.create(self.node(name, attempt))
        boot = BootSpec(
            verify_commands=verify_commands,
            start_swactor_command=command,
            stdout_sources=stdout_sources,
            args=args,
        )
        return self.bootstrap(node, boot)

    @staticmethod
    def boot(command: str, env: dict[str, str]) -> BootSpec:
        return BootSpec(start_swactor_command=command, env=env)

    @staticmethod
    def is_living(pid: int) -> bool:
        return is_living(pid)

    @staticmethod
    def descendants(node: Node) -> list[int]:
        """Everything below the node's shim, marked or not."""
        return descendants(node.pids()["shim"])

    def destroy(self, node: Node) -> bool:
        handle = DestroyHandle(KIND, ProviderLeaseId("whatever it is called"))
        return self.provider.destroy_lease(node.identity, handle)

    def close(self) -> None:
        self.provider.close()
        self.swarm.close(timedelta(seconds=1))
        for node in self.nodes.values():
            for pid in node.processes():  # Only what a failed test has left.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def spec_of(node: Node, options: dict[str, str]) -> LogicalNodeSpec:
    return LogicalNodeSpec(
        node.identity.run_id,
        node.identity.node,
        NodeGroupId("n"),
        RoleId("worker"),
        KIND,
        shape=DesiredNodeShape(options=options),
    )


def session_of(node: Node, boot: BootSpec) -> BootstrapSessionSpec:
    lease = node.lease_id if node.lease is not None else ProviderLeaseId("none")
    return BootstrapSessionSpec(
        node.identity.run_id,
        node.identity.node,
        lease,
        LocalEndpoint(str(node.directory)),
        boot,
        SwarmJoinSpec(),
    )


def is_living(pid: int) -> bool:
    return identify(pid) is not None
