"""The ways to keep a node's processes together that this machine allows, as parameters of tests.

Nothing is started here but the look whether a pid namespace is allowed.
"""

import pytest

from cluster_reconciler.executors.providers.process import Containment
from cluster_reconciler.executors.providers.process.spawning import unshare_command

CONTAINMENTS = [
    pytest.param(
        Containment.NAMESPACE,
        marks=pytest.mark.skipif(
            unshare_command() is None, reason="this machine allows no pid namespace"
        ),
    ),
    Containment.SUBREAPER,
]
