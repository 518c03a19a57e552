"""Plain words for a value that is not of its type: what was expected and found, at which field.

A provider's author reads them and knows our classes, not the library that checks them.  It shows no
value, since one may be a secret.  It accepts and refuses nothing: its caller has done that.
"""

import enum
from types import NoneType, UnionType
from typing import NewType, Union, cast, get_args, get_origin

import msgspec


def named(expected: object) -> str:
    """A type as people write it: `LeaseCreated or None`, `int (NodeAttemptId)`."""
    if expected in (None, NoneType):
        return "None"
    if get_origin(expected) in (Union, UnionType):
        return _or([named(member) for member in get_args(expected)])
    if isinstance(expected, NewType):
        return f"{named(expected.__supertype__)} ({expected.__name__})"
    if isinstance(expected, type) and issubclass(expected, enum.StrEnum):
        return f"{expected.__name__} ({_or([repr(str(member)) for member in expected])})"
    name = getattr(expected, "__name__", str(expected))
    return str(name) if not get_args(expected) else str(expected)


def kind_of(value: object) -> str:
    """What a value is: the name of its class."""
    return "None" if value is None else type(value).__name__


def field_fault(value: object) -> str | None:
    """Which field of a Struct is wrong, and how; None: none is by itself."""
    path: list[str] = []
    at: tuple[object, object] | None = None
    while isinstance(value, msgspec.Struct):
        wrong = _wrong_field(value)
        if wrong is None:
            break
        name, expected, value = wrong
        path.append(name)
        at = expected, value
    if at is None:
        return None
    expected, value = at
    return f"its {'.'.join(path)} must be {named(expected)}, found {_misfit(value, expected)}"


def _wrong_field(value: msgspec.Struct) -> tuple[str, object, object] | None:
    for field in msgspec.structs.fields(type(value)):
        held = getattr(value, field.name)
        if not _is_of(held, field.type):
            return field.name, field.type, held
    return None


def _is_of(value: object, expected: object) -> bool:
    """By way of the wire: what cannot be written down is of no type."""
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=cast("type[object]", expected))
    except Exception:  # noqa: BLE001  a value that cannot even be read is of no type
        return False
    return True


def _misfit(value: object, expected: object) -> str:
    """Of the right class and wrong all the same: half characters, a number that is too large."""
    name = kind_of(value)
    if name in (part.split(" (")[0] for part in named(expected).replace(" or ", ", ").split(", ")):
        article = "an" if name[0] in "aeiouAEIOU" else "a"
        return f"{article} {name} that cannot be written"
    return name


def unwritable(value: object, expected: object) -> str:
    """What to say of a value that is no Struct and not of its type."""
    return f"found {_misfit(value, expected)}"


def _or(names: list[str]) -> str:
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
