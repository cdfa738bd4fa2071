"""The data set inside the package: 1,797 handwritten digits of 8 x 8 pixels."""

from __future__ import annotations

import os

import numpy as np

from agrad.data.archives import read_npz
from agrad.data.classification import ClassificationData, float_name
from agrad.data.regression import dataset

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits.npz")


def load_digits(*, dtype: str = "float32") -> ClassificationData:
    """Return the handwritten digits of the package; nothing is downloaded.

    1,797 grey images of 8 x 8 pixels. Pixels count from 0 to 16 and are divided by 16. The split is fixed: of the
    images of each digit, in the order of the file, those numbered 2, 7, 12 and so on (counted from 0) are the test
    part. That leaves 1,438 images to train on and 359 to test with, every digit and every writer in both parts.

    Parameters
    ----------
    dtype : str
        The dtype of X, float32 or float64.

    Returns
    -------
    ClassificationData
        The images, with d = 64.

    Raises
    ------
    DataError
        If the installed file is damaged.
    ConfigurationError
        If the dtype has another value.

    Notes
    -----
    The test set of "Optical Recognition of Handwritten Digits", E. Alpaydin and C. Kaynak, 1998, UCI Machine Learning
    Repository, https://doi.org/10.24432/C50P49, licence CC BY 4.0.

    Examples
    --------
    >>> data = agrad.data.load_digits()
    >>> data.X_train.shape, data.feature_shape, data.n_classes
    ((1438, 64), (8, 8), 10)
    """
    dtype = float_name(dtype)
    arrays = read_npz(FILE, required=("images", "labels"))
    images, y = arrays["images"], arrays["labels"].astype(np.int64)
    held = np.zeros(y.shape, dtype=bool)
    for digit in range(10):
        held[np.flatnonzero(y == digit)[2::5]] = True
    train, test = (images[~held], y[~held]), (images[held], y[held])
    return dataset(
        "classification", "digits", "digits", [train, test], np.zeros(64), np.full(64, 16.0), tuple("0123456789"), dtype
    )
