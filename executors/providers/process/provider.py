"""The process provider: real nodes on this machine (design §7).

A lease is a directory, a bootstrap session a shim with its agent and the user's command.  Nodes die
with this process; what they leave is found again by the next one.  Linux only for now: what reads
/proc stands in `processes` and in the node's own files.
"""

import os
import threading
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from cluster_reconciler.executors.durations import duration
from cluster_reconciler.executors.node.machine import own_pid
from cluster_reconciler.executors.provider import (
    BootstrapContext,
    LeaseState,
    ListedLease,
    ProviderError,
)
from cluster_reconciler.executors.providers.process.leases import (
    LeaseDirectories,
    LeaseRecord,
)
from cluster_reconciler.executors.providers.process.node_spec import (
    encoded,
    join_after_of,
    node_spec,
)
from cluster_reconciler.executors.providers.process.processes import (
    boot_id,
    is_alive,
    kill_lease,
    processes_of_lease,
)
from cluster_reconciler.executors.providers.process.reader import Reader
from cluster_reconciler.executors.providers.process.run_lock import RunLock
from cluster_reconciler.executors.providers.process.session import Session
from cluster_reconciler.executors.providers.process.spawning import (
    Containment,
    best_containment,
    start_shim,
)
from cluster_reconciler.messages import (
    AttemptIdentity,
    BootstrapSessionId,
    BootstrapSessionSpec,
    DestroyHandle,
    EndpointLookup,
    LeaseAbsent,
    LeaseCreated,
    LeaseFacts,
    LocalEndpoint,
    LogicalNodeSpec,
    ProviderKind,
    ProviderLeaseId,
    RunId,
    SwactorId,
)

STOP_SECONDS = 2.0
"""Between TERM and KILL."""
END_SECONDS = 0.5
"""For what is told to end at once; then it is killed."""
KILL_SECONDS = 3.0

_open_instances: set[str] = set()
"""The providers of this process that are not closed."""


def default_state_dir() -> Path:
    """Below the user's state directory."""
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():
        # The XDG specification: a path that is not absolute is to be ignored.
        base = Path("~/.local/state").expanduser()
    return base / "cluster-reconciler"


class ProcessProvider:
    """See `executors.provider.Provider` and the module.  Safe for threads."""

    def __init__(
        self,
        state_dir: Path | str | None = None,
        *,
        kind: str = "process",
        join_after: timedelta | float = timedelta(seconds=1),
        verify_timeout: timedelta | float = timedelta(seconds=60),
        containment: Containment | None = None,
    ) -> None:
        """`join_after`: a node joins once its command has run for so long; a node's own
        `shape.options["join_after"]`, in seconds, goes before.  `verify_timeout`: for each verify
        command.  Both are timedeltas or seconds.  `containment`: None: the best."""
        join_after = duration("join_after", join_after)
        verify_timeout = duration("verify_timeout", verify_timeout, above=timedelta(0))
        root = Path(state_dir).expanduser() if state_dir is not None else default_state_dir()
        if not str(root).isprintable():
            # It is part of every lease, and what a lease holds is written and shown.
            raise ProviderError(
                f"the state directory must be a name that can be shown, found {str(root)!r}; "
                "choose another state_dir"
            )
        self._kind = ProviderKind(kind)
        self._instance = uuid.uuid4().hex
        _open_instances.add(self._instance)
        # One spelling of the place, however it is named: it is the mark of a node's processes.
        self._leases = LeaseDirectories(Path(os.path.realpath(root)), self._instance)
        self._join_after = join_after
        self._verify_timeout = verify_timeout
        self._containment = containment
        self._lock = threading.Lock()
        self._sessions: dict[AttemptIdentity, Session] = {}
        """The latest session of each lease that exists."""
        self._reader = Reader()
        self._closed = False

    @property
    def kind(self) -> ProviderKind:
        """See `Provider`."""
        return self._kind

    @property
    def settle_time(self) -> timedelta:
        """A directory shows at once."""
        return timedelta(0)

    @property
    def ended_dir(self) -> Path:
        """Where the logs of ended leases are kept for a while."""
        return self._leases.ended_dir

    # -- leases -----------------------------------------------------------------------------------

    def create_lease(self, identity: AttemptIdentity, spec: LogicalNodeSpec) -> LeaseCreated:
        """A directory of the attempt's own."""
        self._refuse_if_closed()
        join_after_of(spec.shape.options, self._join_after)
        try:
            path = self._leases.create(identity, spec.shape.options)
        except (OSError, UnicodeError) as error:
            raise ProviderError(
                f"{identity}: the node directory cannot be made below {self._leases.state_dir}: "
                f"{error}; make the place writable or choose another state_dir"
            ) from error
        return self._created(path)

    def find_lease(self, identity: AttemptIdentity) -> LeaseCreated | None:
        """See `Provider`."""
        path = self._leases.path(identity)
        return self._created(path) if self._leases.read(path) is not None else None

    def lookup_endpoint(
        self,
        identity: AttemptIdentity,
        lease: LeaseFacts,  # noqa: ARG002 - the identity says it all
    ) -> EndpointLookup | LeaseAbsent:
        """The directory, or that it is gone."""
        found = self.find_lease(identity)
        return LeaseAbsent() if found is None else EndpointLookup(found.endpoint)

    def destroy_lease(
        self,
        identity: AttemptIdentity,
        handle: DestroyHandle,  # noqa: ARG002 - the identity says it all
    ) -> bool:
        """End everything of the node, then its directory."""
        path = self._leases.path(identity)
        with self._lock:
            session = self._sessions.get(identity)
        if session is not None and not self._end(session):
            return False
        if self._leases.has(path):
            record = self._leases.read(path)
            # Of a session that ended in order nothing is left; of another process's lease,
            # something may be.
            if session is None and record is not None and not kill_lease(str(path), KILL_SECONDS):
                return False
            try:
                self._leases.remove(path)
            except OSError as error:
                raise ProviderError(f"the lease {path} cannot be removed: {error}") from error
        with self._lock:
            self._sessions.pop(identity, None)
        return True

    def list_leases(self, run_id: RunId) -> Sequence[ListedLease]:
        """Every directory of the run.  One whose maker is dead, or closed, is dead: nodes go with
        their maker."""
        return [
            ListedLease(
                record.identity,
                self._created(path).lease,
                LeaseState.LIVE if _is_held(record) else LeaseState.DEAD,
                f"{path}, made by process {record.owner.pid} at {record.created_at:%F %T} UTC",
            )
            for path, record in self._leases.listing(run_id)
        ]

    def lock_run(self, run_id: RunId) -> RunLock:
        """Keep other processes away from the run; raises RunHeld or ProviderError."""
        try:
            return self._leases.lock(run_id)
        except OSError as error:
            raise ProviderError(
                f"no lock can be taken below {self._leases.state_dir}: {error}; "
                "make the place writable or choose another state_dir"
            ) from error

    def describe_node(self, identity: AttemptIdentity) -> dict[str, str]:
        """Its folder, where its logs go once it has ended, and its processes, each as (boot, pid,
        start time): the pid alone may be another's tomorrow."""
        path = self._leases.path(identity)
        found = {"logs_when_ended": str(self.ended_dir)}
        if path.is_dir():
            found["directory"] = str(path)
        boot = boot_id()
        for name, (pid, started) in self._leases.processes(path).items():
            found[name] = f"boot {boot}, pid {pid}, started {started}"
        return found

    def _created(self, path: Path) -> LeaseCreated:
        lease = LeaseFacts(self._kind, ProviderLeaseId(f"{path.parent.name}/{path.name}"))
        return LeaseCreated(lease, LocalEndpoint(str(path)))

    # -- sessions ---------------------------------------------------------------------------------

    def start_bootstrap(self, session: BootstrapSessionSpec, context: BootstrapContext) -> None:
        """Start the node's shim and hand it its spec."""
        self._refuse_if_closed()
        path = self._leases.path(context.identity)
        record = self._leases.read(path)
        if record is None:
            raise ProviderError(f"the lease of {context.identity} is gone: there is no {path}")
        self._refuse_a_second(context.identity)
        join_after = join_after_of(record.options, self._join_after)
        node = node_spec(session.boot, context, path, join_after, self._verify_timeout)
        try:
            # Before anything runs.  The error's text alone: its repr holds what is not encodable.
            spec = encoded(node)
        except UnicodeError as error:
            raise ProviderError(
                f"the boot spec or environment of {context.identity} is no text: {error}"
            ) from None
        try:
            shim = start_shim(self._containment_or_best(), str(path))
        except OSError as error:
            raise ProviderError(f"the node's shim cannot be started: {error}") from error
        started = Session(shim, context, str(path))
        with self._lock:
            closed = self._closed
            if not closed:
                self._sessions[context.identity] = started
                self._reader.add(started)
        if closed:  # In this very moment.
            shim.discard()
        self._refuse_if_closed()
        if not shim.write(spec):
            shim.end()  # It is gone, or else would wait for the rest for ever: its end is noticed.

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ProviderError(
                f"the {self._kind} provider is closed: make another one to start nodes"
            )

    def _refuse_a_second(self, identity: AttemptIdentity) -> None:
        """A lease has one session at a time: two would share a directory and a swarm token."""
        with self._lock:
            session = self._sessions.get(identity)
        if session is not None and not session.ended.is_set():
            raise ProviderError(
                f"session {session.context.session_id} of {identity} still runs: cancel it first"
            )

    def find_bootstrap(self, identity: AttemptIdentity) -> BootstrapSessionId | None:
        """See `Provider`; a session of an earlier process has died with it."""
        with self._lock:
            session = self._sessions.get(identity)
        if session is None:
            return None
        session.repeat()
        return session.context.session_id

    def accept_convergence(
        self, identity: AttemptIdentity, session_id: BootstrapSessionId, swactor_id: SwactorId
    ) -> None:
        """Nothing to close: the shim is the node's for good."""

    def cancel_bootstrap(
        self,
        identity: AttemptIdentity,
        session_id: BootstrapSessionId,
    ) -> None:
        """TERM, then KILL, to everything of the node."""
        with self._lock:
            session = self._sessions.get(identity)
        if session is None or session.context.session_id != session_id:
            return  # It is absent.
        if not self._end(session):
            raise ProviderError(
                f"processes of {identity} are still alive: {processes_of_lease(session.directory)}"
            )

    def close(self) -> None:
        """Let go of everything; nodes that still run end at once, as they would with us."""
        with self._lock:
            self._closed = True
            sessions = list(self._sessions.values())
        _open_instances.discard(self._instance)
        for session in sessions:
            session.end_now()
        if not _all_ended(sessions, END_SECONDS):
            for session in sessions:
                session.kill()
            _all_ended(sessions, KILL_SECONDS)
        self._reader.close(1.0)

    def _end(self, session: Session) -> bool:
        """Whether nothing of the node is left."""
        for ask, seconds in (
            (partial(session.ask_to_end, STOP_SECONDS), STOP_SECONDS + 0.5),
            (session.end_now, END_SECONDS),
            (session.kill, KILL_SECONDS),
        ):
            if session.ended.is_set():
                break
            ask()
            session.ended.wait(seconds)
        if session.ended.is_set() and session.clean:
            return True
        return kill_lease(session.directory, KILL_SECONDS)

    def _containment_or_best(self) -> Containment:
        if self._containment is None:
            self._containment = best_containment()
        return self._containment


def _is_held(record: LeaseRecord) -> bool:
    """Whether the provider that made the lease may still have a node on it."""
    if record.owner.pid == own_pid() and record.instance not in _open_instances:
        return False
    return is_alive(record.owner)


def _all_ended(sessions: Sequence[Session], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    return all(session.ended.wait(max(0.0, deadline - time.monotonic())) for session in sessions)
