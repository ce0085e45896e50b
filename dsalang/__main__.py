"""`python -m dsalang`, the same as the command `dsa`."""

from __future__ import annotations

import sys

from dsalang.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
