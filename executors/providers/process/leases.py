"""Leases as directories: identity, logs, listing, and what is kept after the end.

A directory holds the lease's identity (`identity.json`, written before anything runs), the node's
working directory, its logs and its process numbers.  Nothing here starts or ends a process.
"""

import contextlib
import hashlib
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from loguru import logger
from msgspec import Struct

from cluster_reconciler.executors.node.machine import own_pid
from cluster_reconciler.executors.providers.process.files import (
    has_content,
    read_regular_file,
    refuse_mounts,
    regain,
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

PARTS = ("shim", "agent", "command")
"""The processes that a node tells of itself."""


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
        try:
            self._make(path, identity, options)
        except OSError:
            remove_tree(path)  # Half a lease is none, and nobody would ever look for it.
            raise
        return path

    def _make(self, path: Path, identity: AttemptIdentity, options: dict[str, str]) -> None:
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

    def has(self, path: Path) -> bool:
        """Whether anything has the lease's name, also where a node has shut us out."""
        for directory in (self.state_dir, path.parent):
            regain(directory)
        return os.path.lexists(path)

    def read(self, path: Path) -> LeaseRecord | None:
        """The lease that lives there; None: there is none, or none that was completed."""
        if path.is_symlink():
            return None  # It would be another's.
        try:
            text = read_regular_file(path / "identity.json")
            record = msgspec.json.decode(text, type=LeaseRecord)
        except Exception:  # noqa: BLE001 - a node may have written anything there
            return None
        return record if self.path(record.identity) == path else None

    def processes(self, path: Path) -> dict[str, tuple[int, int]]:
        """The pid and start time of each part of the node, as far as it has told them."""
        try:
            text = read_regular_file(path / "processes.json")
            found = msgspec.json.decode(text, type=dict[str, tuple[int, int]])
        except Exception:  # noqa: BLE001 - a node may have written anything there
            return {}
        return {part: found[part] for part in PARTS if part in found}

    def listing(self, run_id: RunId) -> list[tuple[Path, LeaseRecord]]:
        """Every lease of the run, whoever made it."""
        regain(self._run(run_id))
        try:
            entries = sorted(self._run(run_id).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = ((path, self.read(path)) for path in entries)
        return [(path, record) for path, record in found if record is not None]

    def remove(self, path: Path) -> None:
        """End the lease: its logs are kept for a while, the rest goes.  Raises OSError while the
        lease is still there; logs that cannot be kept are no reason."""
        for directory in (path.parent, path):
            regain(directory)
        refuse_mounts(path)
        if path.is_dir() and not path.is_symlink():
            try:
                self._keep_logs(path)
            except OSError as error:
                logger.warning("the logs of {} cannot be kept: {}", path, error)
            # The identity goes first: what is half removed is no lease any more.
            remove_tree(path / "identity.json")
        if not remove_tree(path):
            logger.warning("{}: its node is gone, but not all of its files can be removed", path)
        with contextlib.suppress(OSError):
            path.parent.rmdir()  # The run's directory, when this was its last lease.
        self._prune()

    def _keep_logs(self, path: Path) -> None:
        # With the time: the attempts of a later process may have the same numbers.
        kept = self.ended_dir / f"{path.parent.name}-{path.name}-{_ended_at()}"
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
            ages = [(path.lstat().st_mtime, path) for path in self.ended_dir.iterdir()]
            oldest = time.time() - ENDED_DAYS_MAX * 86_400
            for place, (ended_at, path) in enumerate(sorted(ages)):
                if place < len(ages) - ENDED_MAX or ended_at < oldest:
                    with contextlib.suppress(OSError):  # The others go all the same.
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
        """For the holder of the lock: remove what a killed process left half made or half removed,
        and put aside what a node made of its folder.  Nothing runs in either, no listing shows
        them, and their names may come again."""
        run = self._run(run_id)
        regain(run)
        with contextlib.suppress(OSError):
            if os.path.lexists(run) and (run.is_symlink() or not run.is_dir()):
                self._put_aside(run, run.name)
                return
            for path in tuple(run.iterdir()):
                with contextlib.suppress(OSError):  # The others are looked at all the same.
                    self._sweep_one(path)

    def _sweep_one(self, path: Path) -> None:
        regain(path)
        if self.read(path) is not None:
            return
        if path.is_dir() and not os.path.lexists(path / "identity.json"):
            remove_tree(path)
        else:
            self._put_aside(path, f"{path.parent.name}-{path.name}")

    def _put_aside(self, path: Path, name: str) -> None:
        self.ended_dir.mkdir(exist_ok=True, mode=0o700)
        aside = self.ended_dir / f"{name}-{_ended_at()}"
        path.rename(aside)
        logger.warning("{} is no lease that can be read: put aside as {}", path, aside)


def _ended_at() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
