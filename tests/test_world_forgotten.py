"""A cluster that is over is forgotten: nothing that its parts hold of one another keeps it alive.

What the garbage collector does not look at (`gc=False`) must hold nothing that can lead back to it.
"""

import ast
import gc
import weakref
from pathlib import Path

from cluster_reconciler.actors.stepping_world import SteppingWorld
from tests.decider_words import POLICY, group, shape


def test_a_world_that_nobody_holds_any_more_is_gone() -> None:
    # given a cluster with a node that runs, whose session the provider holds
    world = SteppingWorld(shape(group(count=2)), retry=POLICY)
    world.run(5)
    assert world.cluster.converged
    parts: list[weakref.ref[object]] = [
        weakref.ref(part) for part in (world, world.executors, world.provider)
    ]
    world.close()

    # when nobody holds it
    del world
    gc.collect()

    assert [part() for part in parts] == [None] * 3


MADE_ONCE = {"Row", "Column"}
"""Of these a module makes its own, and no cluster is reached from them."""


def test_what_holds_a_callback_or_a_reply_is_seen_by_the_collector(repository: Path) -> None:
    hidden = [
        f"{path.relative_to(repository)}: {node.name}"
        for package in ("actors", "decider", "executors", "messages")
        for path in sorted((repository / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(keyword.arg == "gc" for keyword in node.keywords)
        and node.name not in MADE_ONCE
        and any(
            word in ast.unparse(field.annotation)
            for field in node.body
            if isinstance(field, ast.AnnAssign)
            for word in ("Callable", "Future", "Sink", "Source", "object", "Any")
        )
    ]

    assert hidden == []
