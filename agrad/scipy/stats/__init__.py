"""Probability distributions and statistics by the names of ``scipy.stats``."""

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
