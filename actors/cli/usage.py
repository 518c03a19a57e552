"""A command line that is wrong: found by the parser, and said so that it can be put right.

One fault at a time, since what follows a wrong word can be meant in many ways.  Nothing is opened,
started or written here.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Generic, NoReturn, TypeVar

from msgspec import Struct

from cluster_reconciler.actors.cli.exit_codes import INVALID
from cluster_reconciler.actors.cli.faults import nearest, printable

PROGRAM = "cluster-reconciler"

_SHOWN_MAX = 60
"""Characters of a wrong word that are shown."""

_ONE_OF_TWO = re.compile(r"not allowed with argument (?P<other>\S+)")
_NO_VALUE = re.compile(r"ignored explicit argument (?P<found>.*)", re.DOTALL)

T = TypeVar("T")


class UsageFault(Struct, frozen=True, tag_field="type", tag="usage"):
    """The one document of any verb with --json whose command line is wrong: nothing was done.
    Its shape is a promise, as those of `reports`."""

    error: str
    """What is wrong, then what was expected."""
    help: str
    """The command that tells more."""
    verb: str | None = None
    """None: there is none, or no known one."""
    nearest: str | None = None
    """The known verb, option or choice that was probably meant."""
    exit_code: int = INVALID

    def __str__(self) -> str:
        return f"{self.error}\n`{self.help}` tells more"


class WrongUsage(Exception):
    """The command line cannot be understood; nothing was done."""

    def __init__(self, fault: UsageFault) -> None:
        super().__init__(fault.error)
        self.fault = fault


class TextAsked(Exception):
    """`--help`, `--version` or `--completion`: the text is all that is wanted."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Refused(argparse.ArgumentTypeError):
    """A value that an option does not take."""

    def __init__(self, message: str, near: str | None) -> None:
        super().__init__(message)
        self.near = near


class Kind(Generic[T]):
    """What an option takes: `expected` in words, and how to read it."""

    def __init__(
        self, expected: str, read: Callable[[str], T], choices: Sequence[str] = ()
    ) -> None:
        """`read` raises ValueError, with the reason if there is more to say than `expected`.
        `choices`: all that it takes, if that is a few words; who mistypes one is told which."""
        self.expected = expected
        self._read = read
        self._choices = choices

    def __call__(self, text: str) -> T:
        """Called by the parser; raises its error."""
        try:
            return self._read(text)
        except ValueError as error:
            why = f" ({error})" if str(error) else ""
            near = nearest(text, self._choices)
            raise _Refused(
                f"expected {self.expected}, found {shown(text)}{why}{_meant(near)}", near
            ) from None


class Parser(argparse.ArgumentParser):
    """The parser of the program, or of one verb: raises `WrongUsage` and `TextAsked`, never exits,
    prints nothing."""

    @property
    def verb(self) -> str | None:
        """None: it is the parser of the program."""
        return self.prog.removeprefix(PROGRAM).strip() or None

    def parse_known_args(  # type: ignore[override]  # what is unknown is a fault already here
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the base class, with the faults worded where the options are known."""
        assert args is not None, "the words are always handed over"
        self._check(list(args))
        try:
            found, rest = super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            raise self._wrong_argument(error) from None
        for word in rest:
            raise self._unknown_option(word) if _is_option(word) else self._too_many(word)
        return found, []

    def print_help(self, file: object = None) -> NoReturn:  # noqa: ARG002  # it goes to stdout
        """Called by --help."""
        raise TextAsked(self.format_help().removesuffix("\n"))

    def error(self, message: str) -> NoReturn:
        """Called when what is required is not there; the message ends with its name."""
        name = message.rpartition(": ")[2]
        raise self._missing(name)

    def _check(self, words: list[str]) -> None:
        """What tells more than what else is missing: misspelt options, and the verb."""
        verbs = self._verbs()
        takes_value = False
        for word in words:
            known = self._option_string_actions.get(word)
            if word == "--":
                if verbs:
                    raise self._unknown_verb(word)
                return
            if known is not None:
                takes_value = known.nargs is None
            elif self._is_unknown(word):
                raise self._unknown_option(word)
            elif verbs and not takes_value and not word.startswith("-"):
                if word not in verbs:
                    raise self._unknown_verb(word)
                return  # What follows is the verb's own.
            else:
                takes_value = False

    def _is_unknown(self, word: str) -> bool:
        name = word.partition("=")[0]
        if not _is_option(word) or " " in name:
            return False
        if not word.startswith("--"):
            name = word[:2]  # Several letters may stand together.
        return name not in self._option_string_actions

    def _verbs(self) -> "dict[str, Parser]":
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return dict(action.choices)
        return {}

    def _wrong_argument(self, error: argparse.ArgumentError) -> WrongUsage:
        name, message = error.argument_name or "", error.message
        place = " ".join(part for part in (self.verb, name) if part)
        if other := _ONE_OF_TWO.fullmatch(message):
            return self._wrong(f"{place} with {other['other']}: expected one of the two")
        if value := _NO_VALUE.fullmatch(message):
            return self._wrong(
                f"{place}: expected no value, found {printable(value['found'][:_SHOWN_MAX])}"
            )
        if message.startswith("expected ") and ", found " not in message:
            return self._wrong(f"{place}: expected {self._expected(name)}, found nothing")
        # The parser makes its own error of the one that `Kind` raises.
        near = error.__context__.near if isinstance(error.__context__, _Refused) else None
        return self._wrong(f"{place}: {printable(message)}", near=near)

    def _expected(self, name: str) -> str:
        for action in self._actions:
            if name in ("/".join(action.option_strings), action.metavar):
                kind = action.type
                return kind.expected if isinstance(kind, Kind) else action.help or "a value"
        return "a value"

    def _missing(self, name: str) -> WrongUsage:
        verbs = self._verbs()
        what = f"one of the verbs {_either(verbs)}" if verbs else self._expected(name)
        place = f"{self.verb}: " if self.verb is not None else ""
        return self._wrong(f"{place}{name} is missing", what)

    def _unknown_verb(self, word: str) -> WrongUsage:
        verbs = self._verbs()
        near = nearest(word, verbs)
        expected = f"one of the verbs {_either(verbs)}"
        return self._wrong(f"unknown verb {shown(word)}{_meant(near)}", expected, near)

    def _unknown_option(self, word: str) -> WrongUsage:
        name = word.partition("=")[0]
        verbs = self._verbs()
        if any(name in verb._option_string_actions for verb in verbs.values()):
            return self._wrong(
                f"option {shown(name)} before the verb",
                f"a verb first ({_either(verbs)}), then its options",
            )
        near = nearest(name, self._option_string_actions)
        known = [action.option_strings[-1] for action in self._actions if action.option_strings]
        of_verb = f" of {self.verb}" if self.verb is not None else ""
        expected = _either(known) + (f", or a verb ({_either(verbs)})" if verbs else "")
        return self._wrong(f"unknown option {shown(name)}{of_verb}{_meant(near)}", expected, near)

    def _too_many(self, word: str) -> WrongUsage:
        names = (str(action.metavar) for action in self._actions if not action.option_strings)
        return self._wrong(
            f"{self.verb}: one word too many, {shown(word)}",
            f"{' '.join((self.prog, *names))}, and options",
        )

    def _wrong(self, what: str, expected: str | None = None, near: str | None = None) -> WrongUsage:
        error = what if expected is None else f"{what}\nexpected {expected}"
        return WrongUsage(UsageFault(error, f"{self.prog} --help", self.verb, near))


def shown(text: str) -> str:
    """A word of the command line in quotes, harmless on a terminal, and not too long."""
    return repr(text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "...")


def asks_for_json(words: Iterable[str]) -> bool:
    """Whether --json is among the options, also of a command line that is wrong otherwise."""
    return "--json" in takewhile(lambda word: word != "--", words)


def _is_option(word: str) -> bool:
    return word.startswith("-") and not re.fullmatch(r"-|-\d+|-\d*\.\d+", word)


def _either(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def _meant(near: str | None) -> str:
    return f": did you mean {near!r}?" if near is not None else ""
