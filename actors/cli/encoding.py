"""Reports as JSON text that any parser takes, and that does nothing to a terminal that shows it."""

import msgspec


def as_json(report: msgspec.Struct) -> str:
    """One line, in which everything is escaped that a terminal would not simply show: a parser
    reads the same text.  A file name that is no Unicode is shown escaped."""
    try:
        text = msgspec.json.encode(report).decode()
    except UnicodeEncodeError:
        text = msgspec.json.encode(_cleaned(msgspec.to_builtins(report))).decode()
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    """Outside of strings JSON holds nothing that would need it."""
    pairs = character.encode("utf-16-be")
    return "".join(f"\\u{pairs[i]:02x}{pairs[i + 1]:02x}" for i in range(0, len(pairs), 2))


def _cleaned(value: object) -> object:
    """Surrogates stand for the bytes of file names that are not UTF-8."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value
