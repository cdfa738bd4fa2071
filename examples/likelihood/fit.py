"""The survival model of ``survival.py``, fitted with agrad's gradient and Hessian.

python examples/likelihood/fit.py
"""

import sys
from pathlib import Path

import numpy as np
from scipy import optimize

import agrad

sys.path.insert(0, str(Path(__file__).parent))
from survival import negative_log_likelihood, simulate

gradient = agrad.grad(negative_log_likelihood)
hessian = agrad.hessian(negative_log_likelihood)


def central_differences(function, x, step=1e-5):
    """Return the derivatives of a function of a vector, in the last axis."""
    moves = step * np.eye(len(x))
    return np.stack(
        [
            (np.asarray(function(x + d)) - np.asarray(function(x - d))) / (2 * step)
            for d in moves
        ],
        -1,
    )


def main() -> dict[str, object]:
    *data, truth = simulate()
    start = np.zeros(4)

    def value(x):
        return negative_log_likelihood(x, *data)

    def slope(x):
        return gradient(x, *data)

    def curvature(x):
        return hessian(x, *data)

    errors = {
        "gradient": np.max(np.abs(slope(start) - central_differences(value, start))),
        "Hessian": np.max(np.abs(curvature(start) - central_differences(slope, start))),
    }
    found = ", ".join(f"{name} {error:.0e}" for name, error in errors.items())
    print(f"largest difference from finite differences: {found}")

    fits = {
        "BFGS, finite differences": optimize.minimize(value, start, method="BFGS"),
        "BFGS, gradient": optimize.minimize(value, start, jac=slope, method="BFGS"),
        "trust-exact, gradient and Hessian": optimize.minimize(
            value, start, jac=slope, hess=curvature, method="trust-exact"
        ),
    }
    for name, fit in fits.items():
        hessians = fit.get("nhev", 0)
        counts = f"{fit.nfev:3} values, {fit.njev:3} gradients, {hessians:2} Hessians"
        print(
            f"{name:34} {counts}; largest slope left {np.max(np.abs(slope(fit.x))):.0e}"
        )

    best = fits["trust-exact, gradient and Hessian"].x
    deviation = np.sqrt(np.diag(np.linalg.inv(len(data[0]) * curvature(best))))
    for name, estimate, error, true in zip(
        ("intercept", "first", "second", "log shape"),
        best,
        deviation,
        truth,
        strict=True,
    ):
        print(f"{name:10} {estimate:7.4f} +- {error:.4f}   drawn with {true:7.4f}")
    return {
        "errors": errors,
        "fits": fits,
        "estimates": best,
        "deviation": deviation,
        "truth": truth,
        "slope": slope(best),
    }


if __name__ == "__main__":
    main()
