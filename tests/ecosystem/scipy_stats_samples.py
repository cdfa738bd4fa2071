"""``scipy.stats``: descriptions of samples, and tests."""

import functools
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import scipy
from scipy import stats

from ecosystem.trial import Samples

SAMPLES = Samples()

rng = np.random.default_rng(0)
X, Y = rng.normal(size=12), rng.normal(0.3, 1.2, size=12)
XX, YY = rng.normal(size=(3, 25)), rng.normal(0.4, 1.1, size=(3, 25))
# in no order, and far enough from each other that a small step leaves the ranks as they are
APART = rng.permutation(np.linspace(-2.0, 2.3, 30) + 0.01 * rng.uniform(size=30)).reshape(2, 15)
POSITIVE, ALSO = rng.uniform(0.5, 2.0, size=12), rng.uniform(0.5, 2.0, size=12)
ANGLES = rng.uniform(0.5, 2.5, size=12)
VECTORS = rng.normal(1.0, 0.3, size=(8, 3))
PVALUES = rng.uniform(0.02, 0.9, size=6)
COUNTS = np.asarray([5, 8, 3, 9])


def parts(result: Any) -> Any:
    """Return the statistic and the p-value of a result, or its fields."""
    if hasattr(result, "statistic") and hasattr(result, "pvalue"):
        return [result.statistic, result.pvalue]
    return result._asdict() if hasattr(result, "_asdict") else result


add = functools.partial(SAMPLES.of, scipy, "stats", then=parts)

add("gmean hmean gzscore entropy chisquare", POSITIVE)
add("gmean hmean", POSITIVE, weights=None, axis=0, label="axis")
add("gmean", POSITIVE, weights=ALSO, label="weighted")
add("pmean", POSITIVE, p=2.5)
add(
    "differential_entropy gstd iqr kurtosis median_abs_deviation sem skew tmean tmin tmax tsem tstd tvar variation "
    "zscore kstatvar describe", POSITIVE,
)  # fmt: skip
add("kurtosis skew", XX, axis=1, bias=False, label="unbiased")
add("zscore", XX, axis=1, label="axis")
add("tmean tvar", X, limits=(-1.0, 1.0), label="limits")
add("entropy", POSITIVE, ALSO, label="relative")
add("zmap", X, Y)
add("moment kstat", X, 3)
add("lmoment rankdata", X)
add("mode", COUNTS)
add("sigmaclip", X, 2.0, 2.0, then=itemgetter(0))
add("trim_mean", X, proportiontocut=0.2)
add("quantile", X, p=0.3)
add("boxcox_llf", 0.7, POSITIVE)
add("yeojohnson_llf", 0.7, X)
add("circmean circvar circstd", ANGLES)
add("directional_stats", VECTORS, then=attrgetter("mean_direction", "mean_resultant_length"))
add("false_discovery_control", PVALUES)
for _method in ("fisher", "pearson", "tippett", "stouffer", "mudholkar_george"):
    add("combine_pvalues", PVALUES, method=_method, label=_method)
add("skewtest kurtosistest normaltest jarque_bera", XX, axis=1)
add(
    "alexandergovern f_oneway kruskal ttest_ind ttest_rel pearsonr cramervonmises_2samp epps_singleton_2samp "
    "brunnermunzel mannwhitneyu ansari bartlett levene mood chatterjeexi spearmanrho", *APART,
)  # fmt: skip
add("wilcoxon", X[:9], X[:9] - (np.arange(9) - 3.3) / 5)  # no two differences of about the same size
add("ttest_ind", XX, YY, axis=1, equal_var=False, label="unequal variances")
add("pearsonr", XX, YY, axis=1, label="axis")
add("fligner", X[:11], Y[:9])  # odd, as an even number has two elements as far from the median
add("friedmanchisquare", X, Y, POSITIVE)
add("ttest_1samp", X, 0.1)
add("ttest_1samp", X, 0.1, then=lambda found: list(found.confidence_interval()), label="confidence interval")
SAMPLES.add(
    "stats.ttest_ind_from_stats", lambda m, s: parts(stats.ttest_ind_from_stats(m[0], s[0], 12, m[1], s[1], 14)),
    np.asarray([0.1, 0.5]), np.asarray([1.0, 1.2]),
)  # fmt: skip
add("ks_1samp", X, stats.norm.cdf, then=attrgetter("statistic"))
add("cramervonmises", X, lambda v: 1 / (1 + 2.718281828 ** (-v)), then=attrgetter("statistic"))
add("power_divergence", POSITIVE, lambda_=0.5)


def _mean(v: Any, axis: int) -> Any:
    return v.__array_namespace__().mean(v, axis=axis)


def _drawn() -> np.random.Generator:
    return np.random.default_rng(0)


def _bootstrap(x: Any) -> Any:
    return stats.bootstrap((x,), _mean, n_resamples=20, rng=_drawn(), method="percentile").standard_error


def _monte_carlo(x: Any) -> Any:
    return stats.monte_carlo_test(x, lambda size: _drawn().normal(size=size), _mean, n_resamples=20).statistic


def _permuted(x: Any, y: Any) -> Any:
    apart = lambda a, b, axis: _mean(a, axis) - _mean(b, axis)  # noqa: E731
    return stats.permutation_test((x, y), apart, n_resamples=20, rng=_drawn(), vectorized=True).statistic


SAMPLES.add("stats.bootstrap", _bootstrap, X)
SAMPLES.add("stats.monte_carlo_test", _monte_carlo, X)
SAMPLES.add("stats.permutation_test", _permuted, X, Y)
