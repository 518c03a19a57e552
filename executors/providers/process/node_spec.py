"""What a node is told: the one line that its shim reads from the control pipe.

It holds secrets, so it goes through that pipe only.  Nothing is started or written here.
"""

import json
import os
import re
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

from cluster_reconciler.executors.provider import BootstrapContext, ProviderError
from cluster_reconciler.executors.providers.process.processes import LEASE_VARIABLE
from cluster_reconciler.executors.secret_references import parts_to_hide
from cluster_reconciler.executors.secret_words import secrets_of
from cluster_reconciler.messages import BootSpec

DAY_S = 86_400
_JOIN_AFTER = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>|ms|s|m|h)")
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TMPDIR", "TZ")
"""Of this process's environment a command gets these, and nothing else: no secret leaks by it."""


def node_spec(
    boot: BootSpec,
    context: BootstrapContext,
    path: Path,
    join_after: timedelta,
    verify_timeout: timedelta,
) -> dict[str, Any]:
    """What the node's own files read.  A command finds who it is in its environment."""
    identity, ticket = context.identity, context.ticket
    command = boot.start_swactor_command.strip()
    arguments = "".join(f" {shlex.quote(word)}" for word in boot.args)
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    own = {
        "CLUSTER_RECONCILER_RUN": str(identity.run_id),
        "CLUSTER_RECONCILER_NODE": identity.node,
        "CLUSTER_RECONCILER_ATTEMPT": str(identity.attempt),
    }
    return {
        "lease_dir": str(path),
        "directory": str(path / "work"),
        "verify_commands": boot.verify_commands,
        "start_command": f"{command}{arguments}" if command else "",
        "stdout_sources": [_below(path, name) for name in boot.stdout_sources],
        "stderr_sources": [_below(path, name) for name in boot.stderr_sources],
        "env": {**inherited, **own, **context.env, LEASE_VARIABLE: str(path)},
        "secrets": _secrets(boot, context),
        "join_after": join_after.total_seconds(),
        "verify_timeout": verify_timeout.total_seconds(),
        "swarm": {
            "address": ticket.address,
            "heartbeat_s": ticket.heartbeat.total_seconds(),
            "hello": {
                "run_id": identity.run_id,
                "node": identity.node,
                "attempt": identity.attempt,
                "session_id": context.session_id,
                "swactor_id": f"{identity.node}/{identity.attempt}",
                "token": ticket.token,
            },
        },
    }


def encoded(spec: dict[str, Any]) -> bytes:
    """The spec as one line.  What a machine's own environment holds goes through as it is, though
    it be no UTF-8.  Raises UnicodeError for what no environment or command line can hold."""
    for text in (spec["start_command"], *spec["verify_commands"], *spec["env"].keys()):
        os.fsencode(text)
    for value in spec["env"].values():
        os.fsencode(value)
    return json.dumps(spec).encode("ascii")


def _secrets(boot: BootSpec, context: BootstrapContext) -> list[str]:
    """What must not stand in anything that the node says."""
    return sorted(parts_to_hide((*secrets_of(boot, context.env), context.ticket.token)))


def join_after_of(options: dict[str, str], default: timedelta) -> timedelta:
    """How long a node's command must have run before it joins; raises ProviderError."""
    found = options.get("join_after")
    if found is None:
        return default
    matched = _JOIN_AFTER.fullmatch(found)
    seconds = float(matched["number"]) * _UNITS[matched["unit"]] if matched is not None else -1.0
    if not 0 <= seconds < DAY_S:
        raise ProviderError(
            'shape.options.join_after must be a time below a day, such as "500ms", "2s" or '
            f'"1.5" (seconds), found {found!r}'
        )
    return timedelta(seconds=seconds)


def _below(path: Path, name: str) -> str:
    """A source file; a relative name is one of the working directory."""
    return str(path / "work" / name)
