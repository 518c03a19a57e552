"""What a shape file may say and probably does not mean: secrets in plain text, references that lead
nowhere here, wishes that the provider does not read, curly quotes.

A caution stops nothing.  Works on the plain tree, as `file_rules` does.
"""

from collections.abc import Iterator

from cluster_reconciler.actors.cli.document import Document
from cluster_reconciler.actors.cli.durations import format_duration, parse_duration
from cluster_reconciler.actors.cli.faults import CURLY, STRAIGHT, Caution, Path, quoted
from cluster_reconciler.actors.cli.file_structs import ID_MAX
from cluster_reconciler.actors.cli.provider_kinds import PROCESS
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors.secret_references import (
    ReferenceUnresolved,
    is_reference,
    resolve,
)
from cluster_reconciler.executors.secret_words import without_secrets, words_without_secrets

_UNREAD_SHAPE = (
    "image",
    "disk_gb",
    "gpu_name",
    "min_gpu_ram_mb",
    "min_down_mbps",
    "min_up_mbps",
    "min_reliability",
    "require_verified",
    "provider_labels",
)
_UNREAD_BOOT = ("ssh_user", "mounts")
_OPTIONS = ("join_after",)
_WRITTEN_OUT = (
    "a secret seems to stand in it, in plain text for all who see this file, a trace or the list "
    'of processes; put it into boot.env as a reference ("env:NAME" or "file:PATH"), and let '
    "the command read that variable"
)
_AT_ZERO = {
    "operation_timeout": "every call to a provider counts as failed at once",
    "endpoint_timeout": "a machine without an address is given up at its first look",
    "join_timeout": "a node that has not joined at once is replaced",
    "cancel_timeout": "a machine is destroyed before what runs on it could end",
}
_NOT_READ = "a process provider does not read this: its nodes are this machine as it is"


def cautions_of(document: Document, path: Path, group: dict[str, object]) -> Iterator[Caution]:
    """Of one group, at `path` in the file, in the order of their lines."""
    found = [
        caution
        for place, value, name in _references(path, group)
        for caution in _of_reference(document, place, value, name)
    ]
    if _kind_of(document.tree, group.get("provider")) == PROCESS:
        found += (document.caution(place, text) for place, text in _unread(path, group))
    found += (document.caution(place, _WRITTEN_OUT) for place in _written_out(path, group))
    yield from sorted(found, key=lambda caution: (caution.line or 0, caution.column or 0))


def _references(path: Path, group: dict[str, object]) -> Iterator[tuple[Path, str, str]]:
    """Every value that may name a secret: its place, itself, and a name for it."""
    env = _table(_table(group, "boot"), "env")
    for name, value in env.items():
        if isinstance(value, str):
            yield (*path, "boot", "env", name), value, name
    token = _table(group, "swarm_join").get("join_token_ref")
    if isinstance(token, str):
        yield (*path, "swarm_join", "join_token_ref"), token, "JOIN_TOKEN"


def _of_reference(document: Document, place: Path, value: str, name: str) -> Iterator[Caution]:
    if is_reference(value):
        try:
            resolve(value)
        except ReferenceUnresolved as unresolved:
            text = f"leads to nothing here and now: {unresolved.reason}"
            yield document.caution(place, text)
    elif without_secrets(value, name if place[-1] == name else "") != value:
        text = (
            "this looks like a secret, and would stand in plain text in this file and in traces; "
            f'name where it is instead: "env:{name}" or "file:PATH"'
        )
        yield document.caution(place, text)


def cautions_of_quotes(document: Document) -> Iterator[Caution]:
    """Of values that YAML takes with their curly quotes, which were hardly meant."""
    told = set()
    for path, written in document.raw.items():
        place = document.lines.get(path), document.columns.get(path)
        if written[:1] in CURLY and place not in told:
            told.add(place)
            text = f"curly quotes are a part of the value here; {STRAIGHT}"
            yield document.caution(path, text)


def cautions_of_settings(document: Document, tree: dict[str, object]) -> Iterator[Caution]:
    """Of what stands outside the groups."""
    if tree.get("generation") == ID_MAX:
        text = "there is no higher generation: no change could follow this shape"
        yield document.caution(("generation",), text)
    yield from _of_first_delay(document, _table(tree, "retry"))
    for key, consequence in _AT_ZERO.items():
        value = _table(tree, "retry").get(key)
        if _is_zero(value):
            text = f'no time at all: {consequence}; a duration such as "30s" gives it some'
            yield document.caution(("retry", key), text)


def _of_first_delay(document: Document, retry: dict[str, object]) -> Iterator[Caution]:
    policy = RetryPolicy()
    try:
        first = parse_duration(retry.get("initial_delay", policy.initial_delay.total_seconds()))
        longest = parse_duration(retry.get("max_delay", policy.max_delay.total_seconds()))
    except ValueError:
        return
    if first > longest:
        key = "initial_delay" if "initial_delay" in retry else "max_delay"
        delays = f"initial_delay ({format_duration(first)}) is longer than max_delay "
        text = f"{delays}({format_duration(longest)}): no wait is longer than max_delay"
        yield document.caution(("retry", key), text)


def _is_zero(value: object) -> bool:
    try:
        return not parse_duration(value)
    except ValueError:
        return False


def _written_out(path: Path, group: dict[str, object]) -> Iterator[Path]:
    """The places outside `env` in which a secret seems to stand."""
    boot, shape = _table(group, "boot"), _table(group, "shape")
    start = boot.get("start_swactor_command")
    if isinstance(start, str) and without_secrets(start) != start:
        yield (*path, "boot", "start_swactor_command")
    for key in ("verify_commands", "args"):
        found = boot.get(key)
        words = [str(word) for word in found] if isinstance(found, list) else []
        # Commands stand each for itself, the args are the words of one.
        shown = words_without_secrets(words) if key == "args" else map(without_secrets, words)
        for number, (word, safe) in enumerate(zip(words, shown, strict=True)):
            if word != safe:
                yield (*path, "boot", key, number)
    for key in ("options", "provider_labels"):
        for name, value in _table(shape, key).items():
            if isinstance(value, str) and without_secrets(value, name) != value:
                yield (*path, "shape", key, name)


def _unread(path: Path, group: dict[str, object]) -> Iterator[tuple[Path, str]]:
    shape, boot = _table(group, "shape"), _table(group, "boot")
    for key in _UNREAD_SHAPE:
        if shape.get(key):
            yield (*path, "shape", key), _NOT_READ
    for key in _table(shape, "options"):
        if key not in _OPTIONS:
            text = f"a process provider knows no option {quoted(key)}, only {', '.join(_OPTIONS)}"
            yield (*path, "shape", "options", key), text
    for key in _UNREAD_BOOT:
        if boot.get(key):
            yield (*path, "boot", key), _NOT_READ


def _kind_of(tree: object, provider: object) -> object:
    """The kind of a group's provider: that of its entry, or its own name."""
    if not isinstance(tree, dict) or not isinstance(provider, str):
        return provider
    return _table(_table(tree, "providers"), provider).get("kind", provider)


def _table(tree: dict[str, object], key: str) -> dict[str, object]:
    value = tree.get(key)
    return value if isinstance(value, dict) else {}
