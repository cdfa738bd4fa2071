"""Training on several processes by MPI, and functions of data beyond memory."""

from agrad.faces import list_names as _list_names
from agrad.parallel.chunks import chunked as chunked
from agrad.parallel.collectives import *
from agrad.parallel.optimizer import ParallelOptimizer as ParallelOptimizer
from agrad.parallel.ranks import World as World
from agrad.parallel.ranks import world as world

_list_names(globals())
