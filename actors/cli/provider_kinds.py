"""The kinds of provider that a shape file may name.

Only names: `assembly` makes them.  The in-memory provider is for tests in Python and not offered.
"""

PROCESS = "process"

KINDS = (PROCESS,)
