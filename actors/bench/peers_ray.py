"""The reconciler of Ray's autoscaler, version 2, as a peer: it keeps the instances that a scheduler
asks for.

Rules for what may live here: its reconciler, instance manager, storage and subscribers are its own,
unaltered; what is made up is only the world around them (`_World`).  Nothing of Ray is started, and
no connection is opened.  The world is built between the passes, and not timed.

What is alike: an instance is requested, granted, has Ray installed on it, and its node joins, each
as soon as it was asked for, as a node of ours is leased, bootstrapped, and joins.  Ours is handed
over as well, and each of its operations is recorded, with a deadline, before it is sent.

What is not, in its favour: its limit of launches at once (10) is lifted, since each further pass
costs it another walk over everything, and its log is off.  To its disfavour, it does more in a
pass: it finds instances and nodes that it did not ask for, works out the demand for resources (our
stub answers that at once), and has each instance out of its storage again at every step, so that
somebody else may write to it in between.
"""

import logging
import time
from collections.abc import Iterable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Protocol

WORKER = "worker"
HEAD = "head"
PASSES_MAX = 10
"""Three suffice."""

_MODULES = {
    "manager": "ray.autoscaler.v2.instance_manager.instance_manager",
    "storage": "ray.autoscaler.v2.instance_manager.storage",
    "instances": "ray.autoscaler.v2.instance_manager.instance_storage",
    "provider": "ray.autoscaler.v2.instance_manager.node_provider",
    "reconciler": "ray.autoscaler.v2.instance_manager.reconciler",
    "config": "ray.autoscaler.v2.instance_manager.config",
    "updater": "ray.autoscaler.v2.instance_manager.subscribers.cloud_instance_updater",
    "monitor": "ray.autoscaler.v2.instance_manager.subscribers.cloud_resource_monitor",
    "scheduler": "ray.autoscaler.v2.scheduler",
    "state": "ray.core.generated.autoscaler_pb2",
    "instance": "ray.core.generated.instance_manager_pb2",
}


class _Request(Protocol):
    """What its scheduler is asked."""

    current_instances: list[object]


class _Event(Protocol):
    """What its subscribers are told: an instance has another status."""

    instance_id: str
    cloud_instance_id: str
    new_instance_status: int


class _World:
    """Scheduler, cloud provider, installer and cluster: wants so many workers, and does whatever is
    asked before the next pass."""

    def __init__(self, ray: SimpleNamespace, nodes: int) -> None:
        self._ray = ray
        self._nodes = nodes
        self._status = ray.instance.Instance
        self._requested: list[tuple[str, int]] = []
        self._names: dict[str, str] = {}
        """Of instances, by the ids that the reconciler has for them."""
        self._installing: list[str] = []
        self.running = 0
        """Instances that the reconciler has found to run."""
        self.cloud: dict[str, Any] = {}
        self.state = ray.state.ClusterResourceState(cluster_resource_state_version=1)
        self._grant(HEAD, ray.instance.NodeKind.HEAD, "")
        self._join(HEAD, "instance-0", {"node:__internal_head__": 1.0})

    def schedule(self, request: _Request) -> object:
        """As its scheduler: what is missing, and nothing else."""
        reply = self._ray.scheduler.SchedulingReply()
        missing = self._nodes + 1 - len(request.current_instances)
        if missing > 0:
            wanted = self._ray.instance.LaunchRequest(instance_type=WORKER, count=missing)
            reply.to_launch.append(wanted)
        return reply

    def launch(self, shape: dict[str, int], request_id: str) -> None:
        """As its cloud provider: take the request."""
        self._requested.append((request_id, shape[WORKER]))

    def notify(self, events: Iterable[_Event]) -> None:
        """As its installer: take the instances.  And count what runs."""
        for event in events:
            if event.new_instance_status == self._status.ALLOCATED:
                self._names[event.instance_id] = event.cloud_instance_id
            elif event.new_instance_status == self._status.RAY_INSTALLING:
                self._installing.append(event.instance_id)
            elif event.new_instance_status == self._status.RAY_RUNNING:
                self.running += 1

    def do_as_asked(self) -> None:
        """What was requested is granted; what was to be installed has joined."""
        worker = self._ray.instance.NodeKind.WORKER
        for request_id, count in self._requested:
            for _ in range(count):
                self._grant(WORKER, worker, request_id)
        for instance_id in self._installing:
            self._join(WORKER, self._names[instance_id], {"CPU": 1.0})
        self._requested, self._installing = [], []

    def _grant(self, node_type: str, kind: int, request_id: str) -> None:
        name = f"instance-{len(self.cloud)}"
        self.cloud[name] = self._ray.provider.CloudInstance(
            cloud_instance_id=name,
            node_type=node_type,
            node_kind=kind,
            is_running=True,
            request_id=request_id,
        )

    def _join(self, node_type: str, name: str, resources: dict[str, float]) -> None:
        number = len(self.state.node_states)
        self.state.node_states.add(
            node_id=number.to_bytes(28, "big"),
            instance_id=name,
            ray_node_type_name=node_type,
            status=self._ray.state.NodeStatus.RUNNING,
            total_resources=resources,
        )


class RayCluster:
    """Ray's reconciler, with its storage in memory and that world around it."""

    def __init__(self, nodes: int) -> None:
        # By name: neither peer is there where the types of this file are checked.
        ray = SimpleNamespace(**{k: import_module(name) for k, name in _MODULES.items()})
        self._nodes = nodes
        self._world = _World(ray, nodes)
        self._monitor = ray.monitor.CloudResourceMonitor()
        self._config = _configuration(ray, nodes)
        self._reconcile = ray.reconciler.Reconciler.reconcile
        self._manager = ray.manager.InstanceManager(
            ray.instances.InstanceStorage("bench", ray.storage.InMemoryStorage()),
            [ray.updater.CloudInstanceUpdater(self._world), self._monitor, self._world],
        )
        self._log = logging.getLogger("ray")
        self._log_level = self._log.level
        self._log.setLevel(logging.ERROR)

    def converge(self) -> float:
        """Seconds of CPU time until all instances run Ray, in passes; once."""
        spent, passes = 0.0, 0
        while self._world.running < self._nodes + 1:
            if passes == PASSES_MAX:
                raise RuntimeError(f"{self._world.running} run after {passes} passes")
            spent += self.steady()
            passes += 1
            self._world.do_as_asked()
        return spent

    def steady(self) -> float:
        """Seconds of CPU time of one pass; after `converge` it finds nothing to do."""
        begin = time.thread_time()
        self._reconcile(
            instance_manager=self._manager,
            scheduler=self._world,
            cloud_provider=self._world,
            cloud_resource_monitor=self._monitor,
            ray_cluster_resource_state=self._world.state,
            non_terminated_cloud_instances=self._world.cloud,
            autoscaling_config=self._config,
        )
        return time.thread_time() - begin

    def close(self) -> None:
        """Its log says again what it said before."""
        self._log.setLevel(self._log_level)


def _configuration(ray: SimpleNamespace, nodes: int) -> object:
    """Of a cluster that may have so many workers, all launched at once."""
    kinds = {HEAD: 0, WORKER: nodes}
    configuration: Any = ray.config.AutoscalingConfig(
        {
            "cluster_name": "bench",
            "provider": {"type": "kuberay"},
            "max_workers": nodes,
            "cluster_synced_files": [],
            "upscaling_speed": nodes,
            "head_node_type": HEAD,
            "available_node_types": {
                kind: {
                    "node_config": {},
                    "resources": {"CPU": 1},
                    "min_workers": 0,
                    "max_workers": most,
                }
                for kind, most in kinds.items()
            },
        },
        skip_content_hash=True,
    )
    configuration.get_max_concurrent_launches = lambda: nodes
    return configuration
