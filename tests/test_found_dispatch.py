"""Defects that the enumeration of dispatch points has found, each as one small test."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from loguru import logger

from cluster_reconciler.actors.stepping import SteppingCluster
from cluster_reconciler.actors.stepping_words import NO_JITTER, T0, brief, op, shape
from cluster_reconciler.messages import CreateLease, SafetyTick

TICK = timedelta(seconds=30)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """A host's log sink that raises where the driver's first pass is booked: the message is
    contained before it is handled, and so it is lost."""
    told: list[str] = []

    def sink(line: str) -> None:
        if "handles RunPass" in line and not told:
            told.append(line)
            raise OSError("no space left on device")

    number = logger.add(sink, level="TRACE", catch=False, format="{message}")
    yield
    logger.remove(number)


@pytest.mark.usefixtures("full_disk")
def test_a_queued_pass_that_is_lost_is_made_good_by_the_safety_tick() -> None:
    # given a cluster whose first pass got lost: it is queued for ever, and nothing queues another
    c = SteppingCluster(shape(), retry=NO_JITTER, start=T0, safety_tick=TICK)
    assert (c.drive(), c.queued, c.passes) == ([], True, 0)

    # then at the second tick it is known to be lost: no message waits for so long
    assert brief(c.advance(2 * TICK)) == [(op(1, 1), CreateLease)]
    assert not c.queued


def test_ticks_that_come_together_queue_one_pass() -> None:
    c = SteppingCluster(shape(), retry=NO_JITTER, start=T0)
    c.drive()
    before = c.passes
    c.tell(SafetyTick())
    c.tell(SafetyTick())
    c.drive()
    assert c.passes == before + 1
