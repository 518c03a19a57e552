"""The gates of a `PointWorld`: the driver's mailbox, its steps, and the executors' actors.

A gate holds, lets through or watches; what becomes of a message is said by the world, and nothing
here knows a fault.
"""

from collections import deque
from collections.abc import Callable, Iterable
from datetime import timedelta

from cluster_reconciler.actors.spawning import SteppingSpawner
from cluster_reconciler.actors.stepping_record import RecordedCluster
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.executors import Executors
from cluster_reconciler.executors.provider import ActorHandle, Behaviour
from cluster_reconciler.messages import ClusterShape, PlannedEffect

POLICY = RetryPolicy(jitter=0.0)
"""The default policy, with waits that are exact: 1, 2, 4, ... seconds."""
TICK = timedelta(seconds=240)
"""Two of them pass before the join deadline: a lost pass must end no attempt."""


class WatchedCluster(RecordedCluster):
    """A stepped cluster whose mailbox has a gate, and whose steps are watched."""

    def __init__(
        self,
        shape: ClusterShape,
        executor: Executors,
        gate: Callable[[object], Iterable[object]],
        stepped: Callable[[list[PlannedEffect]], None],
    ) -> None:
        super().__init__(shape, executor, retry=POLICY, safety_tick=TICK)
        self._gate = gate
        self._stepped = stepped
        self._world.tell = self.tell

    def tell(self, message: object) -> None:
        for passed in self._gate(message):
            super().tell(passed)

    def step(self) -> list[PlannedEffect]:
        effects = super().step()
        self._stepped(effects)
        return effects


class GatedActor:
    """An executor's actor that gets its messages only when the world pumps; until then it may be
    held, or killed while they wait."""

    def __init__(self, actor: ActorHandle, died: Callable[[str], None]) -> None:
        self._actor = actor
        self._died = died
        self.waiting: deque[object] = deque()
        self.held = False
        self.dead = False

    def tell(self, message: object) -> None:
        if not self.dead:
            self.waiting.append(message)

    def stop(self) -> None:
        self._actor.stop()

    def kill(self) -> None:
        self.dead = True
        self.waiting.clear()
        self._died("killed while its message waited")

    def flush(self) -> None:
        while self.waiting and not self.held and not self.dead:
            self._actor.tell(self.waiting.popleft())


class GatedSpawner:
    """Spawns through a `SteppingSpawner`, and keeps the gates by attempt."""

    def __init__(self, spawner: SteppingSpawner) -> None:
        self._spawner = spawner
        self.actors: dict[str, GatedActor] = {}

    def spawn(self, name: str, behaviour: Behaviour, died: Callable[[str], None]) -> ActorHandle:
        actor = GatedActor(self._spawner.spawn(name, behaviour, died), died)
        self.actors[name] = actor
        return actor

    def of(self, effect: PlannedEffect) -> GatedActor:
        return self.actors[f"executor-{effect.node}-{effect.operation.attempt}"]

    def flush(self) -> None:
        for actor in self.actors.values():
            if actor.waiting:
                actor.flush()
