"""Dask's `SpecCluster` as a peer: it keeps as many workers as its specification names.

Rules for what may live here: its own code does the work, nothing of it is altered.  Its workers and
its scheduler are its `ProcessInterface`, whose start and close do nothing but say so: it is what
Dask's own clusters derive from.  What connects it to a scheduler is put in place by hand, since
there is none to connect to: no connection is opened.

It converges as its users ask it to: `cluster.scale(n)`, then `await cluster`, which corrects the
state and waits until every worker has started.  That wait is part of what its users pay, as is of
ours the pass that finds every node ready.

What is not alike: a worker of Dask's is started, and that is all of its life.  It has no bootstrap,
no join and no hand-over, no operation that is recorded before it is sent, and no deadline; ours
does three operations a node.  It has an event loop, and a task for each worker, which ours has not.
Its steady pass is two differences of two sets, in C: it compares names, and looks at no worker.
"""

import asyncio
import time
from collections.abc import Coroutine
from importlib import import_module
from typing import Any


class _NoScheduler:
    """Stands for the connection to the scheduler."""

    async def retire_workers(self, workers: list[Any]) -> None:
        """None of them runs anything."""

    async def terminate(self) -> None:
        """There is none."""

    async def close_rpc(self) -> None:
        """There is none."""


class DaskCluster:
    """A `SpecCluster` in an event loop of its own, which runs only while something is asked."""

    def __init__(self, nodes: int) -> None:
        # By name: neither peer is there where the types of this file are checked.
        self._distributed: Any = import_module("distributed")
        self._spec: Any = import_module("distributed.deploy.spec")
        self._nodes = nodes
        self._cluster: Any = None
        self._interrupted = False
        self._runner = asyncio.Runner()
        try:
            self._runner.run(self._begin())
        except BaseException:
            self._runner.close()
            raise

    def converge(self) -> float:
        """Seconds of CPU time until all workers are started; once."""
        return self._measured(self._scale())

    def steady(self) -> float:
        """Seconds of CPU time of one correction with nothing to correct; after `converge`."""
        return self._measured(self._correct())

    def close(self) -> None:
        """Close the workers, and the loop."""
        with self._runner:
            if self._interrupted:
                # Of the workers that it was about to start it knows nothing any more, and would
                # call that a fault as it closes.  None of them holds anything.
                self._cluster.status = self._distributed.Status.closed
            else:
                self._runner.run(self._end())

    def _measured(self, work: Coroutine[Any, Any, float]) -> float:
        try:
            return self._runner.run(work)
        except BaseException:
            self._interrupted = True
            raise

    async def _begin(self) -> None:
        process = self._spec.ProcessInterface
        worker = {"cls": process, "options": {}}
        self._cluster = cluster = self._spec.SpecCluster(
            worker=worker, asynchronous=True, name="bench"
        )
        # What its `_start` does, but for the connection.
        cluster._lock = asyncio.Lock()
        cluster.scheduler = await process()
        cluster.scheduler_comm = _NoScheduler()
        cluster.status = self._distributed.Status.running

    async def _scale(self) -> float:
        begin = time.thread_time()
        self._cluster.scale(self._nodes)
        await self._cluster
        spent = time.thread_time() - begin
        started = len(self._cluster.workers)
        assert started == self._nodes, f"{started} of {self._nodes} workers are started"
        await asyncio.sleep(0)  # `scale` asked for a correction as well: not in the next time.
        await self._cluster._correct_state()
        return spent

    async def _correct(self) -> float:
        begin = time.thread_time()
        await self._cluster._correct_state()
        return time.thread_time() - begin

    async def _end(self) -> None:
        await self._cluster.close()
