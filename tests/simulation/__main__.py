"""`python -m tests.simulation`: many lives, in both modes, on some processes; or one life again.

It only reads the command line, spreads seeds over processes and prints; exit code 1 is a failure,
2 a wrong command line.
"""

import sys

from tests.simulation.command import main

if __name__ == "__main__":
    sys.exit(main())
