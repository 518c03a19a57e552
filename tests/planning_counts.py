"""How often a driver's plans were held to the plans of all nodes, and how often they differed.

Every proof reports it: a comparison that was never made shows nothing.
"""

from msgspec import Struct

from cluster_reconciler.actors.planning import Planning
from cluster_reconciler.actors.stepping import SteppingCluster


class Compared(Struct, frozen=True):
    """Counts of passes; they add up."""

    passes: int = 0
    differences: int = 0

    def __add__(self, other: "Compared") -> "Compared":
        return Compared(self.passes + other.passes, self.differences + other.differences)

    def __str__(self) -> str:
        return f"{self.passes} passes compared with the full plan, {self.differences} differences"


def planning_of(cluster: SteppingCluster) -> Planning:
    """That of the cluster's driver."""
    return cluster._driver.planning


def compared_by(planning: Planning) -> Compared:
    """So far."""
    return Compared(planning.compared, planning.differences)
