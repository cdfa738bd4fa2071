"""How traced programs cut long arrays into blocks: those of all work on threads."""

from agrad.backends.threads import BLOCK_BYTES as BLOCK_BYTES
from agrad.backends.threads import run_blocks as run_blocks
