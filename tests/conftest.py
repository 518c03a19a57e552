"""What every test stands on: how hypothesis searches.  Holds no fixture of any one part."""

import os

from hypothesis import settings

# No deadline for a single example: the machine that tests is shared, and a slow moment is no fault.
# On a build machine the search is the same in every run, so that a red build is red twice.
settings.register_profile("here", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")
