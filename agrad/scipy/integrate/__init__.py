"""Integrals and initial value problems by the names of ``scipy.integrate``."""

from agrad.scipy.integrate.equations import OdeResult, odeint, solve_ivp
from agrad.scipy.integrate.functions import fixed_quad, quad
from agrad.scipy.integrate.samples import cumulative_simpson, cumulative_trapezoid, romb, simpson, trapezoid

__all__ = [
    "OdeResult",
    "cumulative_simpson",
    "cumulative_trapezoid",
    "fixed_quad",
    "odeint",
    "quad",
    "romb",
    "simpson",
    "solve_ivp",
    "trapezoid",
]
