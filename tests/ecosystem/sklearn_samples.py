"""scikit-learn with ``array_api_dispatch``: the functions that its manual lists."""

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
from sklearn.metrics import cluster, pairwise
from sklearn.utils import extmath

from ecosystem.trial import Samples

sklearn.set_config(array_api_dispatch=True)

SAMPLES = Samples()
add = SAMPLES.add
NOT_TRIED = {"the other estimators": "do not support array API input: they convert, which raises `DetachError`"}

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


def public() -> list[str]:
    """Return the names that the samples cover, and the rest in one line."""
    return [*sorted({sample.name for sample in SAMPLES}), *NOT_TRIED]


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
add(
    "preprocessing.KernelCenterer.fit_transform", lambda a: preprocessing.KernelCenterer().fit_transform(a @ a.T), X[:4]
)
add("preprocessing.LabelEncoder.fit_transform", lambda n: preprocessing.LabelEncoder().fit_transform(n), CLASSES)
add("preprocessing.LabelBinarizer.fit_transform", lambda n: preprocessing.LabelBinarizer().fit_transform(n), CLASSES)
add("preprocessing.scale", lambda a: preprocessing.scale(a), X)
add("preprocessing.normalize", lambda a: preprocessing.normalize(a), X)
add("preprocessing.maxabs_scale", lambda a: preprocessing.maxabs_scale(a), X)
add("preprocessing.minmax_scale", lambda a: preprocessing.minmax_scale(a), X)
add("preprocessing.binarize", lambda a: preprocessing.binarize(a), X)
add("preprocessing.add_dummy_feature", lambda a: preprocessing.add_dummy_feature(a), X)

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

ridge = linear_model.Ridge
add("linear_model.Ridge.coef_", lambda a, b: ridge(solver="svd").fit(a, b).coef_, X, Y)
add("linear_model.Ridge.coef_", lambda a, b: ridge().fit(a, b).coef_, X, Y, label="solver auto")
add(
    "linear_model.Ridge.coef_", lambda a, b, w: ridge(solver="svd").fit(a, b, sample_weight=w).coef_, X, Y, WEIGHTS,
    label="weighted",
)  # fmt: skip
add("linear_model.Ridge.predict", lambda a, b, c: ridge(solver="svd").fit(a, b).predict(c), X, Y, Z)
add("linear_model.Ridge.score", lambda a, b: ridge(solver="svd").fit(a, b).score(a, b), X, Y)
add("linear_model.RidgeCV.coef_", lambda a, b: linear_model.RidgeCV([0.1, 1.0]).fit(a, b).coef_, X, Y)
add(
    "linear_model.RidgeClassifier.decision_function",
    lambda a, b: linear_model.RidgeClassifier(solver="svd").fit(a, b).decision_function(a), X, LABELS,
)  # fmt: skip
add(
    "linear_model.RidgeClassifierCV.coef_", lambda a, b: linear_model.RidgeClassifierCV([0.1, 1.0]).fit(a, b).coef_, X,
    LABELS,
)  # fmt: skip
add("linear_model.LogisticRegression.coef_", lambda a, b: linear_model.LogisticRegression().fit(a, b).coef_, X, LABELS)
add("linear_model.PoissonRegressor.coef_", lambda a, b: linear_model.PoissonRegressor().fit(a, b).coef_, X, POSITIVE)
add(
    "discriminant_analysis.LinearDiscriminantAnalysis.transform",
    lambda a, b: discriminant_analysis.LinearDiscriminantAnalysis().fit(a, b).transform(a), X, CLASSES,
)  # fmt: skip
add(
    "discriminant_analysis.LinearDiscriminantAnalysis.predict_proba",
    lambda a, b, c: discriminant_analysis.LinearDiscriminantAnalysis().fit(a, b).predict_proba(c), X, CLASSES, Z,
)  # fmt: skip
add(
    "discriminant_analysis.LinearDiscriminantAnalysis.predict",
    lambda a, b: discriminant_analysis.LinearDiscriminantAnalysis().fit(a, b).predict(a), X, CLASSES,
)  # fmt: skip
add(
    "naive_bayes.GaussianNB.predict_log_proba", lambda a, b, c: naive_bayes.GaussianNB().fit(a, b).predict_log_proba(c),
    X, CLASSES, Z,
)  # fmt: skip
add(
    "mixture.GaussianMixture.score_samples",
    lambda a, c: mixture.GaussianMixture(2, random_state=0, init_params="random").fit(a).score_samples(c), X, Z,
)  # fmt: skip
add(
    "calibration.CalibratedClassifierCV.predict_proba",
    lambda a, b, c: (
        calibration.CalibratedClassifierCV(linear_model.RidgeClassifier(solver="svd"), method="temperature", cv=2)
        .fit(a, b)
        .predict_proba(c)
    ),
    X,
    LABELS,
    Z,
)
add("model_selection.train_test_split", lambda a: model_selection.train_test_split(a, random_state=0), X)
add(
    "model_selection.cross_val_predict",
    lambda a, b: model_selection.cross_val_predict(ridge(solver="svd"), a, b, cv=2), X, Y,
)  # fmt: skip

for _name in (
    "explained_variance_score", "max_error", "mean_absolute_error", "mean_absolute_percentage_error",
    "mean_squared_error", "median_absolute_error", "r2_score", "root_mean_squared_error", "d2_absolute_error_score",
    "d2_pinball_score", "mean_pinball_loss",
):  # fmt: skip
    add(f"metrics.{_name}", lambda a, b, n=_name: getattr(metrics, n)(a, b), Y, Y + SCORES)
for _name in (
    "mean_gamma_deviance", "mean_poisson_deviance", "mean_tweedie_deviance", "d2_tweedie_score",
    "mean_squared_log_error", "root_mean_squared_log_error",
):  # fmt: skip
    add(f"metrics.{_name}", lambda a, b, n=_name: getattr(metrics, n)(a, b), POSITIVE, ALSO)
add(
    "metrics.mean_squared_error", lambda a, b, w: metrics.mean_squared_error(a, b, sample_weight=w), Y, Y + SCORES,
    WEIGHTS, label="weighted",
)  # fmt: skip
add(
    "metrics.mean_squared_error", lambda a, b: metrics.mean_squared_error(a, b, multioutput="raw_values"), X, X * 0.9,
    label="several outputs",
)  # fmt: skip
for _name in (
    "accuracy_score", "balanced_accuracy_score", "zero_one_loss", "hamming_loss", "f1_score", "precision_score",
    "recall_score", "jaccard_score", "cohen_kappa_score", "matthews_corrcoef", "confusion_matrix",
    "multilabel_confusion_matrix", "precision_recall_fscore_support", "class_likelihood_ratios",
):  # fmt: skip
    add(f"metrics.{_name}", lambda a, b, n=_name: getattr(metrics, n)(a, b), LABELS, (SCORES > 0.4).astype(np.int64))
add("metrics.fbeta_score", lambda a, b: metrics.fbeta_score(a, b, beta=0.5), LABELS, (SCORES > 0.4).astype(np.int64))
for _name in (
    "log_loss", "brier_score_loss", "d2_log_loss_score", "d2_brier_score", "roc_auc_score", "average_precision_score",
    "precision_recall_curve", "confusion_matrix_at_thresholds",
):  # fmt: skip
    if hasattr(metrics, _name):
        add(f"metrics.{_name}", lambda a, b, n=_name: getattr(metrics, n)(a, b), LABELS, SCORES)
for _name, _finite in (("roc_curve", slice(1, None)), ("det_curve", slice(None, -1))):  # one threshold is an infinity
    add(
        f"metrics.{_name}", lambda a, b, n=_name, s=_finite: [part[s] for part in getattr(metrics, n)(a, b)], LABELS,
        SCORES,
    )  # fmt: skip
add("metrics.hinge_loss", lambda a, b: metrics.hinge_loss(a, b), LABELS, Y)
add("metrics.auc", lambda a, b: metrics.auc(a, b), np.sort(SCORES), POSITIVE)
for _name in ("dcg_score", "ndcg_score"):
    add(f"metrics.{_name}", lambda a, b, n=_name: getattr(metrics, n)(a, b), P, P[::-1].copy())
for _name in ("entropy", "contingency_matrix"):
    add(
        f"metrics.cluster.{_name}",
        lambda *a, n=_name: getattr(cluster, n)(*a),
        *((CLASSES,) if _name == "entropy" else (CLASSES, LABELS)),
    )
for _name in ("calinski_harabasz_score", "davies_bouldin_score"):
    add(f"metrics.{_name}", lambda a, b, n=_name: getattr(metrics, n)(a, b), X, CLASSES)
for _name in (
    "additive_chi2_kernel", "chi2_kernel", "cosine_similarity", "cosine_distances", "euclidean_distances",
    "laplacian_kernel", "linear_kernel", "manhattan_distances", "polynomial_kernel", "rbf_kernel", "sigmoid_kernel",
    "pairwise_distances", "pairwise_kernels",
):  # fmt: skip
    add(f"metrics.pairwise.{_name}", lambda a, b, n=_name: getattr(pairwise, n)(a, b), P, Q)
for _name in ("paired_cosine_distances", "paired_euclidean_distances", "paired_manhattan_distances"):
    add(f"metrics.pairwise.{_name}", lambda a, b, n=_name: getattr(pairwise, n)(a, b), P, Q[:4])
add(
    "metrics.pairwise.euclidean_distances", lambda a: pairwise.euclidean_distances(a), P,
    label="of one array, zeros on the diagonal",
)  # fmt: skip
add("utils.extmath.softmax", lambda a: extmath.softmax(a), X)
add("utils.extmath.row_norms", lambda a: extmath.row_norms(a), X)
add("utils.extmath.randomized_svd", lambda a: extmath.randomized_svd(a, 2, random_state=0)[1], X)
add("utils.extmath.stable_cumsum", lambda a: extmath.stable_cumsum(a), Y) if hasattr(extmath, "stable_cumsum") else None
