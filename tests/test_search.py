"""The bounded exhaustive search: one node with one fault or change closes, and is clean.

`python -m tests.search one` searches every fault at every place, and `two` two nodes.
"""

from tests.search.place import Setting, one_node
from tests.search.search import Search


def test_one_node_with_one_fault_closes_and_every_place_has_a_way_home() -> None:
    found = Search(Setting(one_node().shapes, 1), states_max=100_000).run()

    assert found.closed
    assert found.checked_home >= found.states > 5_000
