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


@pytest.mark.parametrize("hessian", ["exact", "lbfgs"])
def test_problem_71_of_hock_and_schittkowski(place: Any, hessian: str) -> None:
    import ipax

    given = {"gradient": agrad.grad(objective), "eq_constraints": equalities, "ineq_constraints": inequalities}
    given |= {"eq_jacobian": agrad.jacobian(equalities), "ineq_jacobian": agrad.jacobian(inequalities)}
    given |= {"lagrangian_hessian": agrad.hessian(lagrangian)} if hessian == "exact" else {}
    problem = ipax.FunctionProblem(4, objective, bounds=(place(np.ones(4)), place(np.full(4, 5.0))), **given)
    options = ipax.Options(hessian=hessian, linsolve="dense")
    found = ipax.solve(problem, place(np.asarray([1.0, 5.0, 5.0, 1.0])), options=options)
    assert found.success
    x = np.asarray(agrad.asarray(found.x).numpy())
    np.testing.assert_allclose(x, [1.0, 4.74299964, 3.82114998, 1.37940829], rtol=1e-6)
    np.testing.assert_allclose(float(agrad.asarray(found.objective).item()), 17.0140173, rtol=1e-7)
