"""The command ``python tests/random_programs``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from random_programs.command import main

    sys.exit(main())
