"""`python -m sordino`: the same as the command `sordino`."""

from __future__ import annotations

import sys

from sordino.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
