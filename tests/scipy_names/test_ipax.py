"""The interior-point solver ipax with agrad's derivatives."""

from typing import Any

import numpy as np
import pytest

import agrad

pytestmark = pytest.mark.needs("ipax")


def objective(x: Any) -> Any:
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


def equalities(x: Any) -> Any:
    return agrad.stack([agrad.sum(x**2) - 40.0])


def inequalities(x: Any) -> Any:
    return agrad.stack([25.0 - x[0] * x[1] * x[2] * x[3]])


def lagrangian(x: Any, y: Any, z: Any, scale: Any) -> Any:
    return scale * objective(x) + agrad.vecdot(y, equalities(x)) + agrad.vecdot(z, inequalities(x))


def solved(place: Any, hessian: str, **derivatives: Any) -> tuple[Any, int]:
    import ipax

    calls: list[int] = []

    def counted(x: Any) -> Any:
        calls.append(0)
        return objective(x)

    problem = ipax.FunctionProblem(
        4,
        counted,
        bounds=(place(np.ones(4)), place(np.full(4, 5.0))),
        eq_constraints=equalities,
        ineq_constraints=inequalities,
        **derivatives,
    )
    options = ipax.Options(hessian=hessian, linsolve="dense")
    return ipax.solve(problem, place(np.asarray([1.0, 5.0, 5.0, 1.0])), options=options), len(calls)


@pytest.mark.parametrize("hessian", ["exact", "lbfgs"])
def test_problem_71_of_hock_and_schittkowski(place: Any, hessian: str) -> None:
    given = {
        "gradient": agrad.grad(objective),
        "eq_jacobian": agrad.jacobian(equalities),
        "ineq_jacobian": agrad.jacobian(inequalities),
    }
    given |= {"lagrangian_hessian": agrad.hessian(lagrangian)} if hessian == "exact" else {}
    found, calls = solved(place, hessian, **given)
    assert found.success and calls < 40
    x = np.asarray(agrad.asarray(found.x).numpy())
    np.testing.assert_allclose(x, [1.0, 4.74299964, 3.82114998, 1.37940829], rtol=1e-6)
    np.testing.assert_allclose(float(agrad.asarray(found.objective).item()), 17.0140173, rtol=1e-7)


def test_solver_has_differences_alone_on_numpy() -> None:
    with pytest.warns(UserWarning, match="finite differences"):
        found, calls = solved(np.asarray, "lbfgs")
    assert found.success and calls > 100
