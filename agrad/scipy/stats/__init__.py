"""Probability distributions and statistics by the names of ``scipy.stats``.

Distributions have the SciPy methods for arrays: ``pdf`` or ``pmf``, ``cdf``, ``sf``, their logarithms, ``ppf``,
``isf``, ``rvs``, ``mean``, ``median``, ``var``, ``std`` and ``entropy``. Points, shape parameters, ``loc`` and
``scale`` are accepted by position or name and broadcast. The result has the broadcast shape, and is differentiable with
respect to all of them, except for counts. Outside of the support, densities are 0 with derivative 0. Parameters that
are not valid return NaN. A method without a short formula raises ``MissingFunctionError``. ``norm(loc, scale)`` returns
an object with fixed parameters, whose methods accept only points.
"""

from agrad.faces import list_names as _list_names
from agrad.scipy.stats.circular import *
from agrad.scipy.stats.discrete import *
from agrad.scipy.stats.gammas import *
from agrad.scipy.stats.kde import gaussian_kde as gaussian_kde
from agrad.scipy.stats.location import *
from agrad.scipy.stats.multivariate import *
from agrad.scipy.stats.summary import *
from agrad.scipy.stats.truncated import truncnorm as truncnorm

_list_names(globals())
