"""``python -m agrad``."""

import sys

from agrad.cli import main

sys.exit(main())
