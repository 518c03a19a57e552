"""The names that a package gives, each imported when it is first asked for (PEP 562).

Who only reads a file must not wait for actors and threads.  What is imported stays in the package,
so that this is asked once for each name; it knows no package and starts nothing.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that gives the names in `homes`, by their modules.

    Hidden from type checkers, which would else take every name for one of the package's: they are
    to see plain imports under `TYPE_CHECKING`.
    """
    where = {name: home for home, names in homes.items() for name in names}

    def getattribute(name: str) -> object:
        module = sys.modules[package]
        if name not in where:
            told = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(told, name=name, obj=module)
        value: object = getattr(import_module(where[name]), name)
        setattr(module, name, value)
        return value

    def directory() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return getattribute, directory
