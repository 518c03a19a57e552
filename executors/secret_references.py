"""References to secrets (`env:NAME`, `file:PATH`): where they are read, and how they stay hidden.

Only executors resolve them, when a bootstrap starts.  A value that came from a reference stands in
no message, log, error or repr; errors name the reference, never the value.
"""

import math
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE_BYTES_MAX = 64 * 1024
"""A larger file is taken for a mistyped path, not for a secret."""

MASK = "***"
MASKED_LENGTH_MIN = 4
"""Shorter values would make every text unreadable, and hide nothing."""


class ReferenceUnresolved(Exception):
    """A reference leads to no value; `reason` names the reference and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class HiddenValues(dict[str, str]):
    """A map whose repr shows its keys only."""

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key!r}: {MASK}' for key in self)}}}"

    __str__ = __repr__


def is_reference(value: str) -> bool:
    """Whether the value names a secret instead of being one."""
    return value.startswith(("env:", "file:"))


def may_resolve(reference: str) -> bool:
    """Whether a reference names a variable or a path at all, on whatever machine."""
    kind, _, name = reference.partition(":")
    return bool(name) and "\0" not in name and not (kind == "env" and "=" in name)


def resolve(value: str, environ: Mapping[str, str] | None = None) -> str:
    """What a reference leads to; a literal is its own value.  One line end at the end of a file is
    not part of the secret.  `environ`: None for the process's own.

    Raises:
        ReferenceUnresolved: the variable is not set, or the file cannot be read.
    """
    if value.startswith("env:"):
        found = _from_environment(value, os.environ if environ is None else environ)
    elif value.startswith("file:"):
        found = _from_file(value)
    else:
        return value
    if "\0" in found:
        raise ReferenceUnresolved(f"{value}: its value holds a NUL character, no variable can")
    return found


def resolve_env(env: Mapping[str, str], environ: Mapping[str, str] | None = None) -> HiddenValues:
    """`BootSpec.env` with its references resolved.

    Raises:
        ReferenceUnresolved: naming every reference that leads nowhere.
    """
    values, faults = HiddenValues(), []
    for name, value in env.items():
        try:
            values[name] = resolve(value, environ)
        except ReferenceUnresolved as unresolved:
            faults.append(f"boot.env {name} = {unresolved.reason}")
    if faults:
        raise ReferenceUnresolved("; ".join(faults))
    return values


def parts_to_hide(secrets: Iterable[str]) -> frozenset[str]:
    """What of the secrets may stand in a line: each as a whole, and each line of one that has
    several; a key in a file is printed line by line."""
    parts = {part for secret in secrets for part in (secret, *secret.splitlines())}
    return frozenset(part for part in parts if len(part) >= MASKED_LENGTH_MIN)


def mask(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets that stand in it."""
    for part in sorted(parts_to_hide(secrets), key=len, reverse=True):
        text = text.replace(part, MASK)
    return text


def _from_environment(reference: str, environ: Mapping[str, str]) -> str:
    name = reference.removeprefix("env:")
    if not name or "=" in name or "\0" in name:
        raise ReferenceUnresolved(f"{reference!r}: expected env:NAME with the name of a variable")
    found = environ.get(name)
    if found is None:
        raise ReferenceUnresolved(
            f"{reference}: the variable {name} is not set where the reconciler runs; set it there"
        )
    return found


def _from_file(reference: str) -> str:
    path = reference.removeprefix("file:")
    if not path:
        raise ReferenceUnresolved(f"{reference!r}: expected file:PATH with the path of a file")
    try:
        # Not blocking: opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(Path(path).expanduser(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ReferenceUnresolved(f"{reference}: expected a regular file")
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise ReferenceUnresolved(f"{reference}: larger than {FILE_BYTES_MAX} bytes")
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        # Its text would quote the bytes.
        raise ReferenceUnresolved(f"{reference}: is not UTF-8 text") from None
    except OSError as error:
        raise ReferenceUnresolved(f"{reference}: cannot be read: {error.strerror}") from None
    except (ValueError, RuntimeError) as error:
        raise ReferenceUnresolved(f"{reference}: is no usable path: {error}") from None


_TELLING_NAME = re.compile(
    r"pass(word|wd|phrase)|(^|_)(pass|pw)$|_pwd$|(^|_)sig(nature)?$|secret|token|api_?key|access_?key|private_?key|credential|_key$"
    r"|(^|_)auth$|authorization|cookie",
    re.IGNORECASE,
)
_TELLING_VALUE = re.compile(
    r"""-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY
    |\b[a-z][a-z0-9+.-]{0,30}+://[^/\s:@]*+:[^/\s@]++@      # a password in an address
    |^(sk|pk|rk)[-_](live|test|proj|ant|or)?[-_]?[A-Za-z0-9_-]{16,}
    |^gh[pousr]_[A-Za-z0-9]{20,}|^github_pat_[A-Za-z0-9_]{20,}|^glpat-[A-Za-z0-9_-]{16,}
    |^(AKIA|ASIA)[A-Z0-9]{16}$|^AIza[A-Za-z0-9_-]{30,}|^xox[abeoprs]-[A-Za-z0-9-]{10,}
    |^(hf|npm|dop_v1|pypi|nvapi|tskey)[-_][A-Za-z0-9_-]{16,}|^SG\.[A-Za-z0-9_-]{16,}\.
    |^eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.     # a JSON web token
    """,
    re.VERBOSE,
)
_HARMLESS_VALUE = re.compile(
    r"""^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$   # a UUID
    |^(sha256:)?[0-9a-f]{40}$|^sha(256|512):          # a commit, a digest
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ONE_TOKEN = re.compile(r"^[A-Za-z0-9+/=_\-]{20,}$")
_ENTROPY_MIN = 3.5
"""Bits a character.  Words and paths of that length stay below it, random hexadecimal at 32 digits
comes close to 4, base64 above."""


def looks_like_secret(literal: str, name: str = "") -> bool:
    """Whether a literal `env` value should rather be a reference: for a warning, not a verdict.
    `name`: the variable's, which tells a password that no pattern can."""
    if not literal or is_reference(literal):
        return False
    if _TELLING_VALUE.search(literal):
        return True
    if name and _TELLING_NAME.search(name.replace("-", "_")):
        return not literal.isdigit() and literal.lower() not in ("true", "false", "none", "null")
    if _HARMLESS_VALUE.search(literal) or not _ONE_TOKEN.search(literal):
        return False
    mixed = any(c.isdigit() for c in literal) and any(c.isalpha() for c in literal)
    return mixed and not _is_path(literal) and _entropy(literal) >= _ENTROPY_MIN


def _is_path(literal: str) -> bool:
    """Parts of ordinary length between slashes or dashes: base64 has long parts."""
    return max(len(part) for part in re.split(r"[/\-_=]", literal)) < 16


def _entropy(text: str) -> float:
    shares = [text.count(character) / len(text) for character in set(text)]
    return -sum(share * math.log2(share) for share in shares)
