from numpy import *
from numpy import __version__ as __version__
from numpy import fft as fft
from numpy import linalg as linalg
from numpy import polynomial as polynomial
from numpy import random as random
from numpy import testing as testing
