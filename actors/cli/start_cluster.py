"""From a loaded file to a running cluster: makes its providers and its swarm listener.

The one place of the command line that knows what implements a kind of provider.
"""

import resource
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from cluster_reconciler.actors.cli.provider_kinds import PROCESS
from cluster_reconciler.actors.cli.shape_file import LoadedShape, ProviderSettings
from cluster_reconciler.actors.runtime import Cluster
from cluster_reconciler.actors.swarm import SwarmListener
from cluster_reconciler.executors.provider import Provider
from cluster_reconciler.executors.providers.process import ProcessProvider
from cluster_reconciler.executors.providers.process.provider import default_state_dir

FILES_WANTED = 65_536


def start_cluster(loaded: LoadedShape, trace: Path | None, drain_timeout: timedelta) -> Cluster:
    """Start what the file describes.  Raises what `Cluster.start` does, and SwarmListenError."""
    _allow_many_files()
    providers: list[Provider] = []
    try:
        providers.extend(_MAKERS[settings.kind](settings) for settings in loaded.providers)
        return Cluster.start(
            loaded.shape,
            providers=providers,
            retry=loaded.retry,
            swarm=SwarmListener(
                loaded.swarm.listen,
                loaded.swarm.heartbeat,
                loaded.swarm.grace,
                # Whoever writes such an address into the file has been told what it means.
                allow_remote=True,
                advertise=loaded.swarm.advertise,
            ),
            trace=trace,
            drain_timeout=drain_timeout,
        )
    except BaseException:
        for provider in providers:
            provider.close()
        raise


def _allow_many_files() -> None:
    """A local node takes three descriptors, and the usual soft limit is 1 024: take what the system
    allows us to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _process(settings: ProviderSettings) -> Provider:
    state_dir = settings.state_dir
    if state_dir is None and settings.name != settings.kind:
        # Two providers in one directory would take each other's leases for their own.
        state_dir = default_state_dir() / "providers" / settings.name
    return ProcessProvider(state_dir, kind=settings.name)


_MAKERS: dict[str, Callable[[ProviderSettings], Provider]] = {PROCESS: _process}
