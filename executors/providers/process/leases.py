"""Leases as directories: identity, logs, listing, and what is kept after the end.

A directory holds the lease's identity (`identity.json`, written before anything runs), the node's
working directory, its logs and its process numbers.  Nothing here starts or ends a process.
"""

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from loguru import logger
from msgspec import Struct

from cluster_reconciler.executors.node.machine import own_pid
from cluster_reconciler.executors.providers.process.files import (
    has_content,
    mounts_below,
    read_regular_file,
    remove_tree,
)
from cluster_reconciler.executors.providers.process.processes import (
    ProcessIdentity,
    identify,
)
from cluster_reconciler.executors.providers.process.run_lock import RunLock, lock_run
from cluster_reconciler.executors.providers.process.spawning import SHIM_LOG
from cluster_reconciler.messages import AttemptIdentity, RunId

ENDED_MAX = 100
"""So many ended leases' logs are kept; the oldest go."""

ENDED_DAYS_MAX = 7
"""And for so long."""

KEPT = ("stdout.log", "stdout.log.1", "stderr.log", "stderr.log.1", SHIM_LOG)

SLUG_MAX = 60


class LeaseRecord(Struct, frozen=True):
    """What `identity.json` holds."""

    identity: AttemptIdentity
    owner: ProcessIdentity
    """The reconciler process that made it; no process of the node outlives that one."""
    created_at: datetime
    options: dict[str, str] = {}
    instance: str = ""
    """The provider object that made it: one process may have had several."""


class LeaseDirectories:
    """All leases below one state directory."""

    def __init__(self, state_dir: Path, instance: str = "") -> None:
        self.state_dir = state_dir
        self.ended_dir = state_dir / "ended"
        self._instance = instance

    def path(self, identity: AttemptIdentity) -> Path:
        """Where the attempt's lease lives; any node id makes a safe, distinct name."""
        digest = hashlib.sha256(identity.node.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        slug = re.sub(r"[^A-Za-z0-9_.-]", "_", identity.node)[:SLUG_MAX].strip(".") or "node"
        return self._run(identity.run_id) / f"{slug}-{digest}-{identity.attempt}"

    def _run(self, run_id: RunId) -> Path:
        return self.state_dir / f"run-{run_id}"

    def create(self, identity: AttemptIdentity, options: dict[str, str]) -> Path:
        """The lease's directory; the same one however often it is asked for."""
        path = self.path(identity)
        if self.read(path) is not None:
            return path
        self.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        for directory in (path.parent, path, path / "work"):
            # One by one: what `parents=True` makes is open to everybody.
            directory.mkdir(exist_ok=True, mode=0o700)
        owner = identify(own_pid())
        assert owner is not None, "this process is not alive"
        record = LeaseRecord(identity, owner, datetime.now(UTC), options, self._instance)
        data = msgspec.json.encode(record)
        temporary = path / f"identity.json.{os.getpid()}"
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path / "identity.json")
        return path

    def read(self, path: Path) -> LeaseRecord | None:
        """The lease that lives there; None: there is none, or none that was completed."""
        try:
            return msgspec.json.decode(read_regular_file(path / "identity.json"), type=LeaseRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def listing(self, run_id: RunId) -> list[tuple[Path, LeaseRecord]]:
        """Every lease of the run, whoever made it."""
        try:
            entries = sorted(self._run(run_id).iterdir())
        except FileNotFoundError:
            return []
        found = ((path, self.read(path)) for path in entries if path.is_dir())
        return [(path, record) for path, record in found if record is not None]

    def runs(self) -> Iterator[RunId]:
        """Every run that has a directory here."""
        for path in sorted(self.state_dir.glob("run-*")):
            if path.is_dir() and path.name[4:].isdecimal():
                yield RunId(int(path.name[4:]))

    def remove(self, path: Path) -> None:
        """End the lease: its logs are kept for a while, the rest goes.  Raises OSError while the
        lease is still there; logs that cannot be kept are no reason."""
        try:
            self._keep_logs(path)
        except OSError as error:
            logger.warning("the logs of {} cannot be kept: {}", path, error)
        if mounted := mounts_below(path):
            raise OSError(f"{mounted[0]} is mounted below it: unmount that first")
        # The identity goes first: what is half removed is no lease any more.
        with contextlib.suppress(FileNotFoundError):
            (path / "identity.json").unlink()
        if not remove_tree(path):
            logger.warning("{}: its node is gone, but not all of its files can be removed", path)
        with contextlib.suppress(OSError):
            path.parent.rmdir()  # The run's directory, when this was its last lease.
        self._prune()

    def _keep_logs(self, path: Path) -> None:
        kept = self.ended_dir / f"{path.parent.name}-{path.name}"
        self.ended_dir.mkdir(exist_ok=True, mode=0o700)
        kept.mkdir(exist_ok=True, mode=0o700)
        for name in KEPT:
            with contextlib.suppress(FileNotFoundError):
                if has_content(path / name):
                    (path / name).replace(kept / name)
        if not any(kept.iterdir()):
            kept.rmdir()  # It never said anything.

    def _prune(self) -> None:
        with contextlib.suppress(OSError):
            kept = sorted(self.ended_dir.iterdir(), key=lambda path: path.stat().st_mtime)
            oldest = time.time() - ENDED_DAYS_MAX * 86_400
            for place, path in enumerate(kept):
                if place < len(kept) - ENDED_MAX or path.stat().st_mtime < oldest:
                    remove_tree(path)

    def lock(self, run_id: RunId) -> RunLock:
        """Take the run for this process; raises RunHeld, which names the holder, or OSError."""
        self.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = lock_run(self.state_dir, run_id)
        try:
            self._sweep(run_id)
        except BaseException:
            lock.close()
            raise
        return lock

    def _sweep(self, run_id: RunId) -> None:
        """Remove what a process that was killed left half made or half removed: nothing runs in
        it, no listing shows it, and its name may come again.  For the holder of the lock."""
        with contextlib.suppress(OSError):
            for path in tuple(self._run(run_id).iterdir()):
                if path.is_dir() and not os.path.lexists(path / "identity.json"):
                    remove_tree(path)
