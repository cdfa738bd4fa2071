"""Random numbers of distributions, drawn by SciPy."""

from typing import Any

from agrad import Tensor
from agrad.numpy.calls import Home, first, home, settled, untraced
from agrad.scipy.shared import library


def _on_host(value: Any) -> Any:
    """Return a parameter as a NumPy array.

    Raise ``DetachError`` for one that requires a derivative.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(map(_on_host, value))
    found = first((value,))
    return value if found is None else found.numpy()


class Drawing:
    """Method ``rvs`` of a distribution with a SciPy ``name``."""

    name: str

    def rvs(self, *args: Any, **kwds: Any) -> Any:
        """Return random numbers, drawn on the host by SciPy.

        The arguments are the same as of the SciPy method. The result is a constant on the device of the parameters. If
        they contain no array, it is created where ``agrad.numpy`` creates arrays. ``agrad.random`` draws on the device,
        under ``jit`` and with derivatives.

        Raises
        ------
        DetachError
            If a derivative with respect to a parameter is recorded.
        RefusedFunctionError
            Under ``agrad.jit``, which would repeat the numbers of the first call.

        Examples
        --------
        >>> from agrad.scipy import stats
        >>> stats.norm.rvs(loc=2.0, scale=0.5, size=3, random_state=0).round(4)
        array([2.882 , 2.2001, 2.4894])
        >>> stats.poisson(3.0).rvs(size=4, random_state=0)
        array([7, 3, 5, 3])
        """
        untraced(f"stats.{self.name}.rvs")
        draw = getattr(library("scipy.stats", f"stats.{self.name}.rvs"), self.name).rvs
        given = (*args, *kwds.values())
        like = first(given)
        out = draw(*map(_on_host, args), **{name: _on_host(value) for name, value in kwds.items()})
        out = settled(out, home() if like is None else Home(like.backend, like.device))
        raw = like is not None and not any(isinstance(value, Tensor) for value in given)
        return out.data if raw and isinstance(out, Tensor) else out
