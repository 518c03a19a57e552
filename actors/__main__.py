"""`python -m cluster_reconciler.actors`: the command line."""

import sys

from cluster_reconciler.actors.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
