"""The rules of a shape file that no type can say: names that must be known, unique or in step.

Works on the plain tree, so that it can judge the sound parts of a file whose other parts have
faults of type: every fault at once.
"""

import re
from collections.abc import Iterator
from datetime import timedelta

from cluster_reconciler.actors.cli.document import UNKNOWN, Document
from cluster_reconciler.actors.cli.durations import format_duration, parse_duration
from cluster_reconciler.actors.cli.faults import (
    Caution,
    Path,
    described,
    format_path,
    nearest,
    quoted,
)
from cluster_reconciler.actors.cli.file_cautions import (
    cautions_of,
    cautions_of_quotes,
    cautions_of_settings,
)
from cluster_reconciler.actors.cli.file_structs import SwarmEntry
from cluster_reconciler.actors.cli.provider_kinds import KINDS
from cluster_reconciler.actors.swarm_address import SwarmListenError, parse_address
from cluster_reconciler.executors.provider import ProviderError
from cluster_reconciler.executors.providers.process.node_spec import join_after_of
from cluster_reconciler.executors.secret_references import is_reference, may_resolve
from cluster_reconciler.messages import NODES_MAX

_SWARM = SwarmEntry()
AN_ADDRESS = 'host:port with a port from 0 to 65535, such as "127.0.0.1:0"'
A_PLAIN_NAME = "a name without spaces and slashes"
A_REFERENCE = 'a reference to a secret: "env:NAME" or "file:PATH"'
_NAMES_NOTHING = "the name of a variable, or the path of a file, is missing or cannot be one"
_ANY = ""
"""Among the names of providers: there may be others, which the text does not let us see."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def judge(document: Document, cautions: list[Caution]) -> None:
    """Note every breach of these rules, and what is allowed but probably not meant.  A value with a
    fault gets no caution: it will be another one."""
    tree = document.tree
    if not isinstance(tree, dict):
        return
    found: list[Caution] = []
    names = _provider_names(document, tree)
    _judge_groups(document, tree, names, found)
    _judge_limits(document, tree, names)
    _judge_swarm(document, tree, found)
    _judge_least_delay(document, tree)
    found.extend(cautions_of_settings(document, tree))
    found.extend(cautions_of_quotes(document))
    faulty = {fault.path for fault in document.faults}
    cautions.extend(caution for caution in found if caution.path not in faulty)


def _tables(tree: dict[str, object], key: str) -> Iterator[tuple[str, dict[str, object]]]:
    entries = tree.get(key)
    if isinstance(entries, dict):
        yield from ((name, entry) for name, entry in entries.items() if isinstance(entry, dict))


def _groups(tree: dict[str, object]) -> Iterator[tuple[Path, dict[str, object]]]:
    groups = tree.get("groups")
    if isinstance(groups, list):
        yield from (
            (("groups", i), group) for i, group in enumerate(groups) if isinstance(group, dict)
        )


def _provider_names(document: Document, tree: dict[str, object]) -> list[str]:
    """The names that a group may use; the entries of [providers] are judged on the way."""
    names = list(KINDS)
    providers = tree.get("providers")
    if not document.complete or providers is UNKNOWN:
        names.append(_ANY)
    elif isinstance(providers, dict):
        # Also those with faults: whoever names them has none.
        names.extend(name for name in providers if name not in names)
    directories: dict[str, str] = {}
    for name, entry in _tables(tree, "providers"):
        if not _is_plain_name(name):
            # It becomes the name of a directory.
            document.fault(("providers", name), A_PLAIN_NAME, quoted(name))
        kind = entry.get("kind", name)
        if isinstance(kind, str) and kind and kind not in KINDS:
            known = f"a known kind of provider ({', '.join(KINDS)})"
            hint = None if "kind" in entry else f'give it a kind: kind = "{next(iter(KINDS))}"'
            place = ("providers", name, "kind") if "kind" in entry else ("providers", name)
            document.fault(place, known, quoted(kind), nearest(kind, KINDS), hint)
        directory = entry.get("state_dir")
        if isinstance(directory, str) and directory in directories:
            found = f"{quoted(directory)}, which is also that of {quoted(directories[directory])}"
            document.fault(("providers", name, "state_dir"), "a directory of its own", found)
        elif isinstance(directory, str):
            directories[directory] = name
    return names


def _judge_groups(
    document: Document, tree: dict[str, object], names: list[str], cautions: list[Caution]
) -> None:
    seen: dict[str, Path] = {}
    total = 0
    for path, group in _groups(tree):
        _judge_group_id(document, path, group.get("group_id"), seen)
        provider = group.get("provider")
        if isinstance(provider, str) and provider:
            _judge_provider(document, (*path, "provider"), provider, names)
        run_id, of_file = group.get("run_id"), tree.get("run_id")
        if run_id not in (None, of_file) and UNKNOWN not in (run_id, of_file):
            place = (*path, "run_id")
            document.fault(place, "the run_id of the file", described(run_id), hint="leave it out")
        count = group.get("count")
        total += count if isinstance(count, int) and 0 <= count <= NODES_MAX else 0
        _judge_env(document, path, group.get("boot"))
        _judge_token(document, path, group.get("swarm_join"))
        _judge_options(document, path, group.get("shape"))
        cautions.extend(cautions_of(document, path, group))
    if total > NODES_MAX:
        document.fault(("groups",), f"at most {NODES_MAX} nodes together", f"{total}")


def _judge_provider(document: Document, place: Path, provider: str, names: list[str]) -> None:
    if provider in names or _ANY in names:
        return
    near = nearest(provider, names)
    expected = f"a known provider ({', '.join(names)})"
    hint = None
    if near is None:
        hint = f'another name for one is given with [providers.NAME] kind = "{KINDS[0]}"'
    document.fault(place, expected, quoted(provider), near, hint)


def _judge_group_id(
    document: Document, path: Path, group_id: object, seen: dict[str, Path]
) -> None:
    if not isinstance(group_id, str) or not group_id:
        return
    place = (*path, "group_id")
    if not _is_plain_name(group_id):
        document.fault(place, A_PLAIN_NAME, quoted(group_id))
    if group_id in seen:
        line = document.line_of(seen[group_id])
        first = f"{format_path(seen[group_id])}{f' on line {line}' if line is not None else ''}"
        found = f"{quoted(group_id)}, which is also the name of {first}"
        document.fault(place, "a name of its own", found, hint="rename one")
    seen.setdefault(group_id, path)


def _is_plain_name(name: str) -> bool:
    return name.isprintable() and not re.search(r"[\s/]", name) and name not in {".", ".."}


def _judge_env(document: Document, path: Path, boot: object) -> None:
    env = boot.get("env") if isinstance(boot, dict) else None
    if not isinstance(env, dict):
        return
    for name in env:
        if not _VARIABLE.fullmatch(name):
            expected = "the name of a variable (letters, digits and _, no digit first)"
            near = re.sub(r"[^A-Za-z0-9_]", "_", name)
            known = [near] if _VARIABLE.fullmatch(near) and near not in env else []
            place = (*path, "boot", "env", name)
            document.fault(place, expected, quoted(name), nearest(name, known))
    for name, value in env.items():
        _judge_reference(document, (*path, "boot", "env", name), value)


def _judge_reference(document: Document, place: Path, value: object) -> None:
    if isinstance(value, str) and is_reference(value) and not may_resolve(value):
        document.fault(place, A_REFERENCE, quoted(value), hint=_NAMES_NOTHING)


def _judge_token(document: Document, path: Path, join: object) -> None:
    token = join.get("join_token_ref") if isinstance(join, dict) else None
    if isinstance(token, str) and token and not is_reference(token):
        # Not quoted: it may be the token itself.
        place = (*path, "swarm_join", "join_token_ref")
        found = "a string that names none"
        document.fault(place, A_REFERENCE, found)
    _judge_reference(document, (*path, "swarm_join", "join_token_ref"), token)


def _judge_options(document: Document, path: Path, shape: object) -> None:
    options = shape.get("options") if isinstance(shape, dict) else None
    found = options.get("join_after") if isinstance(options, dict) else None
    if not isinstance(found, str):
        return
    try:
        join_after_of({"join_after": found}, timedelta(0))
    except ProviderError:
        place = (*path, "shape", "options", "join_after")
        document.fault(place, 'a time below a day, such as "500ms" or "2s"', described(found))


def _judge_limits(document: Document, tree: dict[str, object], names: list[str]) -> None:
    limits = tree.get("limits")
    for name in limits if isinstance(limits, dict) else ():
        _judge_provider(document, ("limits", name), name, names)


def _judge_swarm(document: Document, tree: dict[str, object], cautions: list[Caution]) -> None:
    swarm = tree.get("swarm")
    if not isinstance(swarm, dict):
        return
    listen = swarm.get("listen")
    if isinstance(listen, str):
        try:
            _caution_listen(document, listen, cautions)
        except (SwarmListenError, ValueError):
            hint = "an IPv6 address stands in brackets" if listen.count(":") > 1 else None
            if listen.isascii() and listen.isdigit():
                hint = f'for this machine alone write "127.0.0.1:{listen[:5]}"'
            document.fault(("swarm", "listen"), AN_ADDRESS, described(listen), hint=hint)
    heartbeat = _duration(swarm.get("heartbeat", _SWARM.heartbeat.total_seconds()))
    grace = _duration(swarm.get("grace", _SWARM.grace.total_seconds()))
    if heartbeat is not None and not heartbeat:
        document.fault(("swarm", "heartbeat"), "a duration greater than 0", "0")
    elif not document.complete and not {"heartbeat", "grace"} <= swarm.keys():
        return
    elif heartbeat is not None and grace is not None and grace <= heartbeat:
        expected = f"a duration greater than the heartbeat ({format_duration(heartbeat)})"
        document.fault(("swarm", "grace"), expected, format_duration(grace))


def _caution_listen(document: Document, listen: str, cautions: list[Caution]) -> None:
    host, _ = parse_address(listen)
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return
    text = "other machines can reach this address; nodes prove themselves by token, unencrypted"
    cautions.append(document.caution(("swarm", "listen"), text))


def _judge_least_delay(document: Document, tree: dict[str, object]) -> None:
    retry = tree.get("retry")
    least = retry.get("least_delay") if isinstance(retry, dict) else None
    if least is not None and _duration(least) == timedelta(0):
        document.fault(("retry", "least_delay"), "a duration greater than 0", described(least))


def _duration(value: object) -> timedelta | None:
    """None: not a duration, which the check of types reports."""
    try:
        return parse_duration(value)
    except ValueError:
        return None
