"""The functions of ``agrad``, by sections of the standard.

Importing them fills the dictionaries of ``agrad.registry``.
"""

from agrad.engine.tensor import Tensor as _Tensor
from agrad.faces import list_names as _list_names
from agrad.foreign import install as _install_foreign
from agrad.ops import convolution, pooling, updates  # noqa: F401
from agrad.ops.arrangement import *
from agrad.ops.casting import *
from agrad.ops.composites import *
from agrad.ops.conversion import *
from agrad.ops.creation import *
from agrad.ops.discrete import *
from agrad.ops.elementwise import *
from agrad.ops.indexing import *
from agrad.ops.lengths import hypot as hypot
from agrad.ops.linear_algebra import matmul as matmul, tril as tril, triu as triu
from agrad.ops.losses import *
from agrad.ops.manipulation import *
from agrad.ops.products import tensordot as tensordot, vecdot as vecdot
from agrad.ops.searching import *
from agrad.ops.segments import *
from agrad.ops.selection import where as where
from agrad.ops.sets import *
from agrad.ops.special.normal import erf as erf
from agrad.ops.statistical import *
from agrad.ops.transfer import *
from agrad.ops.operators import install as _install
from agrad.registry import PRIMITIVES as _PRIMITIVES
from agrad.registry import namespace as _namespace

_install(_Tensor)
_install_foreign(_Tensor, _PRIMITIVES.keys() & vars(_namespace).keys())
_list_names(globals())
