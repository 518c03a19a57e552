"""Reports as JSON text that any parser takes."""

import msgspec


def as_json(report: msgspec.Struct) -> str:
    """One line.  A file name that is no Unicode is shown escaped."""
    try:
        return msgspec.json.encode(report).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_cleaned(msgspec.to_builtins(report))).decode()


def _cleaned(value: object) -> object:
    """Surrogates stand for the bytes of file names that are not UTF-8."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value
