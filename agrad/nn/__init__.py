"""Neural networks: modules, layers, losses and initial values."""

from agrad.faces import list_names as _list_names
from agrad.nn import functional as functional
from agrad.nn import init as init
from agrad.nn import utils as utils
from agrad.nn.activations import *
from agrad.nn.arrangement import *
from agrad.nn.attention import MultiheadAttention as MultiheadAttention
from agrad.nn.batch_normalization import *
from agrad.nn.cells import *
from agrad.nn.containers import *
from agrad.nn.convolution import *
from agrad.nn.distance import *
from agrad.nn.dropout import *
from agrad.nn.embedding import *
from agrad.nn.layers import *
from agrad.nn.losses import *
from agrad.nn.margins import *
from agrad.nn.module import Module as Module
from agrad.nn.normalization import *
from agrad.nn.overview import summary as summary
from agrad.nn.padding import *
from agrad.nn.parameter import *
from agrad.nn.pooling import *
from agrad.nn.recurrent import *
from agrad.nn.seeding import *
from agrad.nn.stateless import functional_call as functional_call
from agrad.nn.torch_state import *
from agrad.nn.transformer import *
from agrad.nn.transformer_layers import *

_list_names(globals(), "functional", "init", "utils")
