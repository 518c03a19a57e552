"""Finds and hides what looks like a secret in words that people are shown: commands, lines of a
shape file, and what a node says of its own command.

By sight alone, so it may hide too much.  References are resolved elsewhere.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from cluster_reconciler.executors.secret_references import (
    MASK,
    is_reference,
    looks_like_secret,
)
from cluster_reconciler.messages import BootSpec

_NAME_MAX = 100
"""Characters before a word in which its name is looked for."""
_WORD = re.compile(
    r"""\$[^\s'"]*+|'[^']*+(?:'|\Z)|"(?:\\[\s\S]|[^"\\])*+(?:"|\\?\Z)|&?(?:[^\s'"=,;\[\]{}&]|&(?![\w.-]{1,100}=))++"""
)
"""Here and below no repeat tries again what it has taken: a text of a megabyte takes its time once,
not once for each of its characters."""
_NAME_BEFORE = re.compile(
    r"""(?:([A-Za-z0-9_-]+)\\?['"]?\s*[=:]\s*     # TOKEN=X, "TOKEN": X
    |(?<![\w-])(--?[A-Za-z0-9_-]+)(?:['"]\s*,)?\s*)\\?['"]?$       # --token X; "--token", "X"
    """,
    re.VERBOSE,
)
_LEADS_TO_ONE = re.compile(r"(file|path|dir)$", re.IGNORECASE)
"""`--token-file`: what follows is a path."""
_QUOTES_MAX = 100
"""An escaped quote counts as one within the one before."""
_PART = re.compile(r"""&?(?:[^\s'"=,;\[\]{}\\&]|&(?![\w.-]{1,100}=))++""")
"""As in a word, `&name=` begins the next one of an address's query."""
_OPTION = re.compile(r"--?[A-Za-z0-9_-]+")
_VARIABLE = re.compile(r"\$(?:\(.*|\{?\w+\}?.*)", re.DOTALL)
"""The shell puts the value in."""
_SCHEME = r"(?:bearer|basic|digest|negotiate|token|apikey)"
_SCHEME_ALONE = re.compile(_SCHEME, re.IGNORECASE)
_HEADER = re.compile(
    rf"""(\b(?:authorization|cookie)\\?['"]?\s*[:=]\s*\\?['"]?(?:{_SCHEME}\s+)?)(?!{_SCHEME}\s)[^\s'"\\$][^'"\\]*""",
    re.IGNORECASE,
)
"""`Authorization: Bearer X`, `Cookie: a=X; b=Y`: all up to the quote."""
_BEARER = re.compile(r"""(\bbearer\s+)[^\s'"\\$][^\s'"\\]*""", re.IGNORECASE)
_LOGIN = re.compile(
    r"""((?:^|\s)(?:-u|--user)[\s=]++['"]?[^\s:'"]++:)(?!\d+(?:\s|$))[^\s'"$][^\s'"]*"""
)
"""`curl -u name:X`; two numbers are a user and a group."""
_AT_HOST = re.compile(r"(?<![\w/:@.+-])([\w.+-]++:)(?!\$)([^\s@/:'\"]++)(@(?!sha\d)[\w.-]+)")
"""`name:X@host` without a scheme; a digest of an image is none."""
_CLIENT = r"(?:mysql|mysqldump|mysqladmin|mysqlimport|mysqlsh|mariadb|mariadb-dump|sshpass)"
_CLIENT_ALONE = re.compile(rf"(?:.*/)?{_CLIENT}")
_GLUED = re.compile(
    rf"""((?<![\w-]){_CLIENT}(?=\s)[^|;&\n]{{0,200}}?\s-p\\?['"]?)(?!\$)[^\s'"\\-][^\s'"\\]*"""
)
"""`mysql -pX`; of other commands `-p` tells a port."""
_OPTION_LAST = re.compile(r"""(?<![\w-])(--?[A-Za-z0-9_-]+)['"]?\s*,?\s*\Z""")
_LIST_ENTRY = re.compile(r"(?:-\s+)?")
_PASSWORD = re.compile(r"://[^/\s:@]*+:([^/\s@]++)@")
"""Of an address: a program may well show it alone."""
_LOGIN_OPTIONS = ("-u", "--user")


def secrets_of(boot: BootSpec, env: Mapping[str, str]) -> tuple[str, ...]:
    """What must be hidden of a node: what its references lead to in `env`, its variables with the
    references resolved, and what its shape writes out all the same."""
    named = {
        env[name]
        for name, value in boot.env.items()
        if is_reference(value) or looks_like_secret(value, name)
    }
    return tuple(sorted(named.union(literal_secrets(boot))))


def literal_secrets(boot: BootSpec) -> tuple[str, ...]:
    """What looks like a secret in the commands and arguments of a boot."""
    commands = (*boot.verify_commands, boot.start_swactor_command)
    told = [
        *((command, without_secrets(command)) for command in commands),
        *zip(boot.args, words_without_secrets(boot.args), strict=True),
    ]
    parts = {part for text, shown in told for part in _hidden_parts(text, shown)}
    passwords = {password for part in parts for password in _PASSWORD.findall(part)}
    return tuple(sorted(parts | passwords))


def without_secrets(text: str, name: str = "") -> str:
    """The text with what looks like a secret hidden; a reference names one and is shown.  `name`:
    of the variable or option whose value the text is."""
    named = name and _names_one(name) and not _VARIABLE.fullmatch(text)
    if named and looks_like_secret(text, name.lstrip("-")):
        return MASK
    shown = _HEADER.sub(rf"\1{MASK}", text)
    shown = _BEARER.sub(rf"\1{MASK}", shown)
    shown = _LOGIN.sub(rf"\1{MASK}", shown)
    shown = _GLUED.sub(rf"\1{MASK}", shown)
    shown = _AT_HOST.sub(rf"\1{MASK}\3", shown)
    shown = _words_shown(shown)
    # What still looks like one is one of several words, such as a private key.
    return MASK if looks_like_secret(shown) else shown


def line_without_secrets(line: str, before: str) -> str:
    """The same for a line of a file; the one `before` it may end with `--password`."""
    option = _OPTION_LAST.search(before[-_NAME_MAX:])
    entry = _LIST_ENTRY.match(line)
    if option is None or entry is None:
        return without_secrets(line)
    lead = f"{option[1]} "
    return entry[0] + without_secrets(lead + line[entry.end() :]).removeprefix(lead)


def hidden_as_in(found: str, line: str, shown: str) -> str:
    """What was found on a line, without what the line, as it is `shown`, hides."""
    for part in _hidden_parts(line, shown):
        found = found.replace(part, MASK)
    return without_secrets(found)


@lru_cache(maxsize=64)
def _hidden_parts(line: str, shown: str) -> tuple[str, ...]:
    """The longest first.  Kept, because many faults may stand on one line."""
    hidden = set(_PART.findall(line)) - set(_PART.findall(shown))
    return tuple(sorted(hidden, key=len, reverse=True))


def words_without_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """The same for the words of a command, one by one: `--password` tells what the next one is."""
    shown = [_after(words[number - 1] if number else "", word) for number, word in enumerate(words)]
    client = next((n for n, word in enumerate(words) if _CLIENT_ALONE.fullmatch(word)), len(words))
    for number in range(client + 1, len(words)):
        if words[number].startswith("-p") and words[number] != "-p":
            shown[number] = f"-p{MASK}"
    return tuple(shown)


def _after(before: str, word: str) -> str:
    login, colon, secret = word.partition(":")
    if before in _LOGIN_OPTIONS and colon and not secret.isdigit():
        return f"{login}:{MASK}"
    if _SCHEME_ALONE.fullmatch(before) and word:
        return MASK
    names = _OPTION.fullmatch(before) and not word.startswith("--")
    return without_secrets(word, before if names else "")


def _names_one(name: str) -> bool:
    return not _LEADS_TO_ONE.search(name)


def _words_shown(text: str, depth: int = 0) -> str:
    """`depth`: in how many quotes the text stands; what is in more than a person writes is hidden
    as a whole."""
    if depth > _QUOTES_MAX:
        return MASK
    return _WORD.sub(lambda word: _word_shown(text, word, depth), text)


def _word_shown(text: str, word: "re.Match[str]", depth: int) -> str:
    """A word of a command line; `--password hunter2`, `API_KEY=...`: the one before names it."""
    quote = word[0][0] if word[0][0] in "'\"" else ""
    inner = word[0][1:].removesuffix(quote) if quote else word[0]
    end = quote if word[0].endswith(quote) and len(word[0]) > 1 else ""
    if _VARIABLE.fullmatch(inner) or _SCHEME_ALONE.fullmatch(inner):
        return word[0]
    named = _NAME_BEFORE.search(text[max(word.start() - _NAME_MAX, 0) : word.start()])
    name = (named[1] or named[2]).lstrip("-") if named is not None else ""
    if _OPTION.fullmatch(inner) and inner.startswith("--"):
        name = ""
    if looks_like_secret(inner, name if _names_one(name) else ""):
        return f"{quote}{MASK}{end}"
    return f"{quote}{_words_shown(inner, depth + 1)}{end}" if quote else inner
