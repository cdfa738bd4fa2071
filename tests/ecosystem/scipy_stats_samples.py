"""``scipy.stats``: descriptions of samples, and tests."""

from typing import Any

import numpy as np
from scipy import stats

from ecosystem.trial import Samples

SAMPLES = Samples()
NOT_TRIED: dict[str, str] = {}

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


def add(name: str, *inputs: np.ndarray, label: str = "", **settings: Any) -> None:
    """File a sample of a function of arrays with settings."""
    function = getattr(stats, name)
    SAMPLES.add(f"stats.{name}", lambda *a: parts(function(*a, **settings)), *inputs, label=label)


for _name in ("gmean", "hmean"):
    add(_name, POSITIVE)
    add(_name, POSITIVE, weights=None, axis=0, label="axis")
SAMPLES.add("stats.gmean", lambda x, w: stats.gmean(x, weights=w), POSITIVE, ALSO, label="weighted")
add("pmean", POSITIVE, p=2.5)
for _name in (
    "differential_entropy", "gstd", "iqr", "kurtosis", "median_abs_deviation", "sem", "skew", "tmean", "tmin",
    "tmax", "tsem", "tstd", "tvar", "variation", "zscore", "kstatvar", "describe",
):  # fmt: skip
    add(_name, POSITIVE)
add("kurtosis", XX, axis=1, bias=False, label="unbiased")
add("skew", XX, axis=1, bias=False, label="unbiased")
add("zscore", XX, axis=1, label="axis")
add("tmean", X, limits=(-1.0, 1.0), label="limits")
add("tvar", X, limits=(-1.0, 1.0), label="limits")
add("entropy", POSITIVE)
add("entropy", POSITIVE, ALSO, label="relative")
add("gzscore", POSITIVE)
add("zmap", X, Y)
SAMPLES.add("stats.moment", lambda x: stats.moment(x, 3), X)
SAMPLES.add("stats.kstat", lambda x: stats.kstat(x, 3), X)
SAMPLES.add("stats.lmoment", lambda x: stats.lmoment(x), X)
add("mode", COUNTS)
SAMPLES.add("stats.sigmaclip", lambda x: stats.sigmaclip(x, 2.0, 2.0)[0], X)
add("trim_mean", X, proportiontocut=0.2)
add("quantile", X, p=0.3)
add("rankdata", X)
SAMPLES.add("stats.boxcox_llf", lambda x: stats.boxcox_llf(0.7, x), POSITIVE)
SAMPLES.add("stats.yeojohnson_llf", lambda x: stats.yeojohnson_llf(0.7, x), X)
for _name in ("circmean", "circvar", "circstd"):
    add(_name, ANGLES)
SAMPLES.add(
    "stats.directional_stats",
    lambda x: [stats.directional_stats(x).mean_direction, stats.directional_stats(x).mean_resultant_length],
    VECTORS,
)
SAMPLES.add("stats.false_discovery_control", lambda p: stats.false_discovery_control(p), PVALUES)
for _method in ("fisher", "pearson", "tippett", "stouffer", "mudholkar_george"):
    SAMPLES.add(
        "stats.combine_pvalues", lambda p, m=_method: parts(stats.combine_pvalues(p, method=m)), PVALUES, label=_method
    )
for _name in ("skewtest", "kurtosistest", "normaltest", "jarque_bera"):
    add(_name, XX, axis=1)
for _name in (
    "alexandergovern", "f_oneway", "kruskal", "ttest_ind", "ttest_rel", "pearsonr", "cramervonmises_2samp",
    "epps_singleton_2samp", "brunnermunzel", "mannwhitneyu", "ansari", "bartlett", "levene", "mood",
    "chatterjeexi", "spearmanrho",
):  # fmt: skip
    add(_name, APART[0], APART[1])
add("wilcoxon", X[:9], X[:9] - (np.arange(9) - 3.3) / 5)  # no two differences of about the same size
add("ttest_ind", XX, YY, axis=1, equal_var=False, label="unequal variances")
add("pearsonr", XX, YY, axis=1, label="axis")
add("fligner", X[:11], Y[:9])  # odd, as an even number has two elements as far from the median
add("friedmanchisquare", X, Y, POSITIVE)
SAMPLES.add("stats.ttest_1samp", lambda x: parts(stats.ttest_1samp(x, 0.1)), X)
SAMPLES.add(
    "stats.ttest_1samp", lambda x: list(stats.ttest_1samp(x, 0.1).confidence_interval()), X, label="confidence interval"
)
SAMPLES.add(
    "stats.ttest_ind_from_stats", lambda m, s: parts(stats.ttest_ind_from_stats(m[0], s[0], 12, m[1], s[1], 14)),
    np.asarray([0.1, 0.5]), np.asarray([1.0, 1.2]),
)  # fmt: skip
SAMPLES.add("stats.ks_1samp", lambda x: stats.ks_1samp(x, stats.norm.cdf).statistic, X)
SAMPLES.add(
    "stats.cramervonmises", lambda x: stats.cramervonmises(x, lambda v: 1 / (1 + 2.718281828 ** (-v))).statistic, X
)
SAMPLES.add("stats.chisquare", lambda x: parts(stats.chisquare(x)), POSITIVE)
SAMPLES.add("stats.power_divergence", lambda x: parts(stats.power_divergence(x, lambda_=0.5)), POSITIVE)


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
NOT_TRIED["stats.power"] = "draws random samples, and counts"
