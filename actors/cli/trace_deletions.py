"""Why a node of a trace was given up: it failed, another spec is wanted, or it is not wanted.

Compares values of the replay; decides nothing, the decider has done that.
"""

from cluster_reconciler.actors.cli.plan_words import field_words
from cluster_reconciler.actors.cli.shape_diff import diff_specs
from cluster_reconciler.actors.mailbox_words import one_line
from cluster_reconciler.actors.replay import NodeChange
from cluster_reconciler.decider import ExpandedShape

REASON_LENGTH_MAX = 80
"""The whole of it stands with the message that told of it."""
FIELDS_MAX = 3


def why_deleted(change: NodeChange, desired: ExpandedShape) -> str:
    """In a few words; empty: it cannot be told.  Secrets are hidden as in a plan."""
    node = change.before
    if node is None:
        return ""
    if node.record.failed_at is not None:
        return f"it failed: {one_line(node.record.failed_reason or '', REASON_LENGTH_MAX)}"
    generation = desired.shape.generation
    wanted = desired.nodes.get(change.node)
    if not desired.nodes:
        return f"generation {generation} wants none at all"
    if wanted is None:
        return f"generation {generation} has no such node"
    changes = diff_specs(node.record.desired, wanted)
    if not changes:
        return ""
    told = [field_words(field) for field in changes[:FIELDS_MAX]]
    if len(changes) > FIELDS_MAX:
        told.append(f"and {len(changes) - FIELDS_MAX} more")
    return f"generation {generation} wants another one: {'; '.join(told)}"
