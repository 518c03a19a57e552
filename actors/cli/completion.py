"""The script by which a shell completes verbs, options and files on its own (the extra
`completion`).

Static: the shell that has read it starts nothing of ours while somebody types, where a program that
is asked at each key would have to be started each time, for half a second.  `shtab` is imported
only to write the script.

In bash the script completes no file: it leaves that to readline, which alone knows how a name is
quoted.  So bash offers every file, where the other shells offer the shape files.
"""

import argparse

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
SHAPE_FILES = ("*.toml", "*.yaml", "*.yml", "*.json")

_SHAPES = frozenset({"file", "files", "against", "new", "old"})
"""The arguments, by their names within the program, that name a shape file."""

_FILES = frozenset({"log", "trace"})

_BASH_FILES = "\ncomplete -o bashdefault -o default -F {function} {program}"
"""The last line for bash: where the script has nothing to offer, readline completes a file."""


class NoCompletion(Exception):
    """The package that writes the script is not installed."""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for one of `SHELLS`.  Raises NoCompletion."""
    try:
        import shtab  # noqa: PLC0415  # no other command has to wait for it, or to have it
    except ModuleNotFoundError as error:
        raise NoCompletion from error
    if shell == "bash":
        name = parser.prog.replace("-", "_")
        script = shtab.complete(parser, shell, root_prefix=name).rstrip("\n")
        return script + _BASH_FILES.format(function=f"_shtab_{name}", program=parser.prog)
    shapes = shtab.glob(*SHAPE_FILES)
    for action in _actions(parser):
        if action.dest in _SHAPES:
            action.complete = shapes  # type: ignore[attr-defined]  # shtab's way to be told
        elif action.dest in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return shtab.complete(parser, shell).removesuffix("\n")


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Of the parser and of all its verbs."""
    found = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            found += [of_verb for verb in action.choices.values() for of_verb in _actions(verb)]
    return found
