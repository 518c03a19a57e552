"""Plants one fault into living functions, and says which check has seen it.

A fault is a text of the function's source and what stands there instead.  Everything is put back
at the end; nothing is written to a file.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType

from cluster_reconciler.actors.stepping import InvariantBroken

Function = Callable[..., object]


@contextmanager
def planted(function: Function, text: str, instead: str) -> Iterator[None]:
    """The function with the one place of its source changed.  Raises AssertionError when the text
    does not stand there exactly once: the fault has to be written anew."""
    assert isinstance(function, FunctionType), f"expected a function, found {function}"
    source = textwrap.dedent(inspect.getsource(function))
    found = source.count(text)
    assert found == 1, f"{function.__qualname__}: expected {text!r} once, found it {found} times"
    module = compile(source.replace(text, instead), function.__code__.co_filename, "exec")
    changed = next(
        const
        for const in module.co_consts
        if isinstance(const, CodeType) and const.co_name == function.__name__
    )
    with _becoming(function, changed):
        yield


@contextmanager
def switched_off(checks: tuple[Function, ...]) -> Iterator[None]:
    """These checks find nothing."""
    with ExitStack() as stack:
        for check in checks:
            assert isinstance(check, FunctionType), f"expected a function, found {check}"
            stack.enter_context(_becoming(check, _finds_nothing.__code__))
        yield


def _finds_nothing(*_values: object, **_options: object) -> None:
    """In a check's place."""


@contextmanager
def _becoming(function: FunctionType, code: CodeType) -> Iterator[None]:
    before = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = before


def seen_by(scenario: Callable[[], object]) -> str | None:
    """The function whose assertion ended the scenario, as `module.function`; None: none did.  What
    a broken invariant is wrapped in does not count."""
    seen: BaseException | None = None
    try:
        scenario()
    except AssertionError as error:
        seen = error.__cause__ if isinstance(error, InvariantBroken) else error
    if seen is None:
        return None
    trace = seen.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None, f"no trace of {seen!r}"
    module = str(trace.tb_frame.f_globals["__name__"]).rpartition(".")[2]
    return f"{module}.{trace.tb_frame.f_code.co_name}"
