"""A deterministic world around the real driver: one seed is one life.

A life is data: settings and moves, drawn up front from the seed (`schedule`).  What goes wrong with
a single call or message is a pure function of the seed and of that call's own name (`chance`), so
that a life from which a move or a fault is taken away is otherwise the same: that is how a failure
is shrunk, and how one command replays exactly what is left (`shrink`).

Nothing here models the product: driver, executors, ledger, carrier and lease check are the real
ones, stepped.  Only the outside is invented: provider, machines, swarm, shapes, time.  The command
is `python -m tests.simulation`.
"""
