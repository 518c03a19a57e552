"""Bounded exhaustive search: every place that a cluster of one or two nodes can come to.

The search takes the real driver, the real decider and the real executors (ledger, carrier,
adoption, checked provider) to every place that some order of messages, faults and passing time
leads to, breadth first, and asks of each place what the decider's invariants and the one oracle
ask, and whether it has a way home.  It decides nothing itself and models nothing but the machines
of a provider.  `python -m tests.search --help` runs it; `search.py` says what it bounds.
"""
