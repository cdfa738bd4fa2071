"""An optimizer for several ranks, which steps by the mean gradient."""

from typing import TYPE_CHECKING, Any, ClassVar

import agrad
from agrad.engine.scalars import Stateful
from agrad.engine.tape import mode
from agrad.errors import ConfigurationError, OperandError
from agrad.optim import Optimizer

if TYPE_CHECKING:
    from agrad.parallel.ranks import World


class ParallelOptimizer(Stateful):
    """Optimizer that steps by the mean of the gradients of all ranks.

    Its other attributes and methods are the same as of ``inner``. Pass ``inner`` to learning rate schedules.

    Parameters
    ----------
    world : World
        The ranks.
    inner : Optimizer
        Optimizer of this rank.

    Raises
    ------
    ConfigurationError
        If the ranks disagree on the options or the shapes of parameters.

    Examples
    --------
    >>> w = agrad.nn.Parameter(np.ones(2))
    >>> optimizer = agrad.parallel.ParallelOptimizer(agrad.parallel.world(), agrad.optim.SGD([w], lr=0.1))
    >>> optimizer.lr, optimizer.steps
    (0.1, 0)
    """

    traced_attributes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, world: "World", inner: Optimizer) -> None:
        if not isinstance(inner, Optimizer):
            raise OperandError(f"parallel: optimizer must be one of agrad.optim, got a {type(inner).__name__}")
        self.world: World = world
        self.inner: Optimizer = inner
        shapes = [(tuple(p.shape), p.dtype.name) for p in inner.parameters]
        world.check(optimizer=inner, parameters=shapes)
        if world.comm is not None:
            with agrad.no_grad():
                for p in inner.parameters:
                    p.assign(agrad.parallel.broadcast(p.detach()).raw)
            world.share(inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("world", "inner"):
            object.__setattr__(self, name, value)
        else:
            setattr(self.inner, name, value)

    def __repr__(self) -> str:
        return f"{self.inner!r} on {self.world!r}"

    def step(self, closure: Any = None, *, count: int = 1) -> Any:
        """Step by the mean of the gradients of all ranks.

        All ranks must call it. Parameters that have no gradient on any rank are unchanged.

        Parameters
        ----------
        closure : callable, optional
            Function without arguments that computes the gradients and returns the loss. It is called first.
        count : int, default 1
            Number of examples in the batch of this rank, the weight of its gradients. Gradients of a rank with 0
            examples are ignored.

        Returns
        -------
        object
            Loss of ``closure``, or None.

        Raises
        ------
        ConfigurationError
            If ``count`` is negative, or 0 on all ranks.

        Examples
        --------
        >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
        >>> optimizer = agrad.parallel.world().optimizer(agrad.optim.SGD([w], lr=0.25))
        >>> optimizer.step(lambda: (w * w).sum().backward(), count=8)
        >>> w.detach()
        Tensor([0.5, 1.0], dtype=float64, backend=numpy, device=cpu)
        """
        if count < 0:
            raise ConfigurationError(f"ParallelOptimizer.step: count must be 0 or more, got {count}")
        loss = None if closure is None else agrad.enable_grad()(closure)()
        if self.world.comm is not None:
            with agrad.no_grad():
                self._average(count)
        self.inner.step()
        self.world.note(step=self.inner.steps)
        return loss

    def _average(self, count: int) -> None:
        """Replace the gradients by their mean, with one message that also contains flags and counts."""
        parameters = self.inner.parameters
        double = any(p.dtype.name in ("float64", "complex128") for p in parameters)
        wide = agrad.float64 if double else agrad.float32
        like = parameters[0].detach()
        there = [p.grad is not None and count > 0 for p in parameters]
        parts = [_flat(p, wide) * count if has else _zeros(p, wide) for p, has in zip(parameters, there, strict=True)]
        numbers = agrad.asarray(
            [*map(float, there), float(count)], dtype=wide, backend=like.backend, device=like.device
        )
        total = agrad.parallel.allreduce(agrad.concat([*parts, numbers]))
        numbers, start = total[-len(numbers) :], 0
        if mode().trace is None:
            *found, examples = numbers.numpy().tolist()
            if not examples:
                raise ConfigurationError("ParallelOptimizer.step: count must be above 0 on one rank, got 0 on all")
        else:  # a compiled program cannot read values
            found = there
        for p, part, has in zip(parameters, parts, found, strict=True):
            stop = start + part.shape[0]
            p.grad = _shaped(total[start:stop] / numbers[-1], p) if has else None
            start = stop


def _is_complex(p: Any) -> bool:
    return agrad.isdtype(p.dtype, "complex floating")


def _flat(p: Any, wide: Any) -> Any:
    """Return a gradient as a 1-D real array."""
    g = agrad.reshape(p.grad.detach(), (-1,))
    return agrad.concat([agrad.real(g), agrad.imag(g)]) if _is_complex(p) else agrad.astype(g, wide, copy=False)


def _zeros(p: Any, wide: Any) -> Any:
    return agrad.zeros(p.size * (1 + _is_complex(p)), dtype=wide, backend=p.backend, device=p.device)


def _shaped(flat: Any, p: Any) -> Any:
    if _is_complex(p):
        flat = flat[: p.size] + 1j * flat[p.size :]
    return agrad.astype(agrad.reshape(flat, tuple(p.shape)), p.dtype, copy=False)
