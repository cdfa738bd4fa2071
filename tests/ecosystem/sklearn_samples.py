"""scikit-learn with ``array_api_dispatch``: the functions that its manual lists."""

import functools
from operator import itemgetter
from typing import Any

import numpy as np
import sklearn
from sklearn import (
    calibration,
    decomposition,
    discriminant_analysis,
    kernel_approximation,
    linear_model,
    metrics,
    mixture,
    model_selection,
    naive_bayes,
    preprocessing,
)
from sklearn.utils import extmath

from ecosystem.trial import Samples

sklearn.set_config(array_api_dispatch=True)

SAMPLES = Samples()
add, of = SAMPLES.add, functools.partial(SAMPLES.of, sklearn)

rng = np.random.default_rng(0)
N = 12
X = rng.normal(size=(N, 3)) @ np.diag([1.0, 2.0, 0.5])
Z = rng.normal(size=(5, 3))
Y = X @ np.asarray([1.0, -2.0, 0.5]) + 0.1 * rng.normal(size=N)
LABELS = (np.arange(N) % 2).astype(np.int64)
CLASSES = (np.arange(N) % 3).astype(np.int64)
SCORES = rng.uniform(0.05, 0.95, size=N)
WEIGHTS = rng.uniform(0.5, 1.5, size=N)
POSITIVE, ALSO = rng.uniform(0.5, 2.0, size=N), rng.uniform(0.5, 2.0, size=N)
P, Q = rng.uniform(0.2, 2.0, size=(4, 3)), rng.uniform(0.2, 2.0, size=(5, 3))


def transformer(name: str, make: Any, x: np.ndarray = X, inverse: bool = False, label: str = "") -> None:
    """File samples of an estimator that transforms, by fitted and transformed data."""
    add(f"{name}.fit_transform", lambda a: make().fit_transform(a), x, label=label)
    add(f"{name}.transform", lambda a, b: make().fit(a).transform(b), x, x[:5] + 0.1, label=label)
    if inverse:
        add(
            f"{name}.inverse_transform", lambda a, b: make().fit(a).inverse_transform(b), x,
            make().fit(x).transform(x)[:4], label=label,
        )  # fmt: skip


transformer("preprocessing.StandardScaler", preprocessing.StandardScaler, inverse=True)
transformer("preprocessing.MinMaxScaler", preprocessing.MinMaxScaler, inverse=True)
transformer("preprocessing.MaxAbsScaler", preprocessing.MaxAbsScaler, inverse=True)
transformer("preprocessing.Binarizer", preprocessing.Binarizer)
transformer("preprocessing.PolynomialFeatures", lambda: preprocessing.PolynomialFeatures(2))
for _norm in ("l1", "l2", "max"):
    transformer("preprocessing.Normalizer", lambda n=_norm: preprocessing.Normalizer(norm=n), label=_norm)
_centered = lambda a: preprocessing.KernelCenterer().fit_transform(a @ a.T)  # noqa: E731
add("preprocessing.KernelCenterer.fit_transform", _centered, X[:4])
add("preprocessing.LabelEncoder.fit_transform", lambda n: preprocessing.LabelEncoder().fit_transform(n), CLASSES)
add("preprocessing.LabelBinarizer.fit_transform", lambda n: preprocessing.LabelBinarizer().fit_transform(n), CLASSES)
of("preprocessing", "scale normalize maxabs_scale minmax_scale binarize add_dummy_feature", X)

for _solver in ("full", "covariance_eigh"):
    transformer("decomposition.PCA", lambda s=_solver: decomposition.PCA(2, svd_solver=s), inverse=True, label=_solver)
    add(
        "decomposition.PCA.explained_variance_",
        lambda a, s=_solver: decomposition.PCA(2, svd_solver=s).fit(a).explained_variance_, X, label=_solver,
    )  # fmt: skip
add("decomposition.PCA.score", lambda a: decomposition.PCA(2, svd_solver="full").fit(a).score(a), X)
add("decomposition.PCA.get_covariance", lambda a: decomposition.PCA(2, svd_solver="full").fit(a).get_covariance(), X)
transformer("decomposition.PCA", lambda: decomposition.PCA(2, svd_solver="full", whiten=True), label="whiten")
transformer("kernel_approximation.Nystroem", lambda: kernel_approximation.Nystroem(n_components=3, random_state=0))


def fitted(name: str, make: Any, result: str, *inputs: np.ndarray, new: Any = None, label: str = "") -> None:
    """File a sample of an attribute of a fitted estimator, or of a method of new data or of those it is fitted to.

    new: how many of the last inputs the method is called with; by default, none or the first.
    """
    count = len(inputs) - (new or 0)

    def call(*a: Any) -> Any:
        found = getattr(make().fit(*a[:count]), result)
        return found if result[-1] == "_" else found(*(a[count:] if new else a[:1]))

    add(f"{name}.{result}", call, *inputs, label=label)


ridge, by_svd = linear_model.Ridge, functools.partial(linear_model.Ridge, solver="svd")
fitted("linear_model.Ridge", by_svd, "coef_", X, Y)
fitted("linear_model.Ridge", ridge, "coef_", X, Y, label="solver auto")
_weighted = lambda a, b, w: by_svd().fit(a, b, sample_weight=w).coef_  # noqa: E731
add("linear_model.Ridge.coef_", _weighted, X, Y, WEIGHTS, label="weighted")
fitted("linear_model.Ridge", by_svd, "predict", X, Y, Z, new=1)
add("linear_model.Ridge.score", lambda a, b: by_svd().fit(a, b).score(a, b), X, Y)
fitted("linear_model.RidgeCV", lambda: linear_model.RidgeCV([0.1, 1.0]), "coef_", X, Y)
classifier = functools.partial(linear_model.RidgeClassifier, solver="svd")
fitted("linear_model.RidgeClassifier", classifier, "decision_function", X, LABELS)
fitted("linear_model.RidgeClassifierCV", lambda: linear_model.RidgeClassifierCV([0.1, 1.0]), "coef_", X, LABELS)
fitted("linear_model.LogisticRegression", linear_model.LogisticRegression, "coef_", X, LABELS)
fitted("linear_model.PoissonRegressor", linear_model.PoissonRegressor, "coef_", X, POSITIVE)
_LDA = "discriminant_analysis.LinearDiscriminantAnalysis", discriminant_analysis.LinearDiscriminantAnalysis
fitted(*_LDA, "transform", X, CLASSES)
fitted(*_LDA, "predict_proba", X, CLASSES, Z, new=1)
fitted(*_LDA, "predict", X, CLASSES)
fitted("naive_bayes.GaussianNB", naive_bayes.GaussianNB, "predict_log_proba", X, CLASSES, Z, new=1)
mixed = functools.partial(mixture.GaussianMixture, 2, random_state=0, init_params="random")
fitted("mixture.GaussianMixture", mixed, "score_samples", X, Z, new=1)
calibrated = functools.partial(calibration.CalibratedClassifierCV, classifier(), method="temperature", cv=2)
fitted("calibration.CalibratedClassifierCV", calibrated, "predict_proba", X, LABELS, Z, new=1)
of("model_selection", "train_test_split", X, random_state=0)
add("model_selection.cross_val_predict", lambda a, b: model_selection.cross_val_predict(by_svd(), a, b, cv=2), X, Y)

_CHOSEN = (SCORES > 0.4).astype(np.int64)
measured, compared = functools.partial(of, "metrics"), functools.partial(of, "metrics.pairwise")
measured(
    "explained_variance_score max_error mean_absolute_error mean_absolute_percentage_error mean_squared_error "
    "median_absolute_error r2_score root_mean_squared_error d2_absolute_error_score d2_pinball_score "
    "mean_pinball_loss", Y, Y + SCORES,
)  # fmt: skip
measured(
    "mean_gamma_deviance mean_poisson_deviance mean_tweedie_deviance d2_tweedie_score mean_squared_log_error "
    "root_mean_squared_log_error", POSITIVE, ALSO,
)  # fmt: skip
measured("mean_squared_error", Y, Y + SCORES, sample_weight=WEIGHTS, label="weighted")
measured("mean_squared_error", X, X * 0.9, multioutput="raw_values", label="several outputs")
measured(
    "accuracy_score balanced_accuracy_score zero_one_loss hamming_loss f1_score precision_score recall_score "
    "jaccard_score cohen_kappa_score matthews_corrcoef confusion_matrix multilabel_confusion_matrix "
    "precision_recall_fscore_support class_likelihood_ratios", LABELS, _CHOSEN,
)  # fmt: skip
measured("fbeta_score", LABELS, _CHOSEN, beta=0.5)
for _name in (
    "log_loss", "brier_score_loss", "d2_log_loss_score", "d2_brier_score", "roc_auc_score", "average_precision_score",
    "precision_recall_curve", "confusion_matrix_at_thresholds",
):  # fmt: skip
    if hasattr(metrics, _name):
        measured(_name, LABELS, SCORES)
for _name, _finite in (("roc_curve", slice(1, None)), ("det_curve", slice(None, -1))):  # one threshold is an infinity
    measured(_name, LABELS, SCORES, then=lambda found, s=_finite: [part[s] for part in found])
measured("hinge_loss", LABELS, Y)
measured("auc", np.sort(SCORES), POSITIVE)
measured("dcg_score ndcg_score", P, P[::-1].copy())
measured("cluster.entropy", CLASSES)
measured("cluster.contingency_matrix", CLASSES, LABELS)
measured("calinski_harabasz_score davies_bouldin_score", X, CLASSES)
compared(
    "additive_chi2_kernel chi2_kernel cosine_similarity cosine_distances euclidean_distances laplacian_kernel "
    "linear_kernel manhattan_distances polynomial_kernel rbf_kernel sigmoid_kernel pairwise_distances "
    "pairwise_kernels", P, Q,
)  # fmt: skip
compared("paired_cosine_distances paired_euclidean_distances paired_manhattan_distances", P, Q[:4])
compared("euclidean_distances", P, label="of one array, zeros on the diagonal")
of("utils.extmath", "softmax row_norms", X)
of("utils.extmath", "randomized_svd", X, 2, random_state=0, then=itemgetter(1))
if hasattr(extmath, "stable_cumsum"):
    of("utils.extmath", "stable_cumsum", Y)
