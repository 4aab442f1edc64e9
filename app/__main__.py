"""`python -m app`: the command line in an environment that is already prepared."""

import sys

from app.cli import main

if __name__ == "__main__":
    sys.exit(main())
