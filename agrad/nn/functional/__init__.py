"""Neural-network functions with the PyTorch names and definitions."""

from agrad.faces import list_names as _list_names
from agrad.nn.functional.activations import *
from agrad.nn.functional.along_axes import *
from agrad.nn.functional.arrangement import *
from agrad.nn.functional.attention import scaled_dot_product_attention as scaled_dot_product_attention
from agrad.nn.functional.classification import *
from agrad.nn.functional.convolution import *
from agrad.nn.functional.ctc import ctc_loss as ctc_loss
from agrad.nn.functional.dropout import *
from agrad.nn.functional.embedding import *
from agrad.nn.functional.grids import *
from agrad.nn.functional.interpolation import interpolate as interpolate
from agrad.nn.functional.losses import *
from agrad.nn.functional.lp_pooling import *
from agrad.nn.functional.margins import *
from agrad.nn.functional.normalization import *
from agrad.nn.functional.padding import pad as pad
from agrad.nn.functional.pooling import *

_list_names(globals())
