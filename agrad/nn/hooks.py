"""Hooks: functions that run before or after forward and backward passes."""

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import agrad
from agrad.errors import NotDifferentiableError, OperandError

_count = itertools.count()


class RemovableHandle:
    """Handle of a registered hook.

    As a context manager, it removes the hook on exit.
    """

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks, self._key = hooks, key

    def remove(self) -> None:
        """Remove the hook. Calling it again does nothing."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


class Hooks:
    """Hooks of one module."""

    traced_attributes: ClassVar[tuple[str, ...]] = ()
    """Declared so that ``agrad.jit`` retraces after a hook is added or removed."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[Any, bool]] = {}
        self.after: dict[int, tuple[Any, bool]] = {}
        self.backward_before: dict[int, tuple[Any, bool]] = {}
        self.backward: dict[int, tuple[Any, bool]] = {}

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of the module's ``forward`` and of its hooks."""
        for hook, keyed in list(self.before.values()):
            found = hook(module, args, kwargs) if keyed else hook(module, args)
            if keyed and found is not None:
                if not isinstance(found, tuple) or len(found) != 2:
                    raise OperandError(f"a pre-hook with kwargs must return None or (args, kwargs), got {found!r}")
                args, kwargs = found
            elif found is not None:
                args = found if isinstance(found, tuple) else (found,)
        watch = _Backward(module, self) if self.backward or self.backward_before else None
        args = args if watch is None else watch.inputs(args)
        out = module.forward(*args, **kwargs)
        for hook, keyed in list(self.after.values()):
            found = hook(module, args, kwargs, out) if keyed else hook(module, args, out)
            out = out if found is None else found
        return out if watch is None else watch.outputs(out)


class _Backward:
    """One call of a module with backward hooks, between two custom identities."""

    def __init__(self, module: Any, hooks: Hooks) -> None:
        self.module, self.hooks = module, hooks
        self.count = 0
        self.has_input = False
        self.grad_output: tuple[Any, ...] = ()

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.count = len(args)
        places = self._recorded(args)
        self.has_input = bool(places)
        return self._identity(args, places, self._at_inputs)

    def outputs(self, out: Any) -> Any:
        outs = out if isinstance(out, tuple) else (out,)
        places = self._recorded(outs)
        if not places:
            return out
        outs = self._identity(outs, places, self._at_outputs)
        return outs if isinstance(out, tuple) else outs[0]

    def _recorded(self, values: tuple[Any, ...]) -> list[int]:
        places = [i for i, value in enumerate(values) if isinstance(value, agrad.Tensor) and value.requires_grad]
        if any(values[i].level.name == "forward" for i in places):
            raise NotDifferentiableError(
                f"{type(self.module).__name__}: backward hooks are not supported in forward mode. Remove the hooks, or "
                "differentiate in reverse mode."
            )
        return places

    def _identity(self, values: tuple[Any, ...], places: list[int], back: Callable[..., Any]) -> tuple[Any, ...]:
        """Return the values, with ``back`` as the custom rule of the values at ``places``."""
        if not places:
            return values

        def same(*xs: Any) -> Any:
            return xs

        def rule(_: None, gs: tuple[Any, ...]) -> tuple[Any, ...]:
            full: list[Any] = [None] * len(values)
            for i, g in zip(places, gs, strict=True):
                full[i] = None if g is None else agrad.asarray(g)
            found = back(tuple(full))
            # a rule returns plain arrays for plain arrays
            return tuple([
                x.raw if isinstance(x := found[i], agrad.Tensor) and not isinstance(g, agrad.Tensor) else x
                for i, g in zip(places, gs, strict=True)
            ])  # fmt: skip

        identity = agrad.custom_vjp(same)
        identity.defvjp(lambda *xs: (xs, None), rule)
        full = list(values)
        for i, value in zip(places, identity(*[values[i] for i in places]), strict=True):
            full[i] = value
        return tuple(full)

    def _at_outputs(self, gs: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook, _ in list(self.hooks.backward_before.values()):
            gs = self._replaced(hook(self.module, gs), gs, "register_full_backward_pre_hook")
        self.grad_output = gs
        if not self.has_input:
            for hook, _ in list(self.hooks.backward.values()):
                hook(self.module, (None,) * self.count, gs)
        return gs

    def _at_inputs(self, gs: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook, _ in list(self.hooks.backward.values()):
            gs = self._replaced(hook(self.module, gs, self.grad_output), gs, "register_full_backward_hook")
        return gs

    @staticmethod
    def _replaced(found: Any, gs: tuple[Any, ...], what: str) -> tuple[Any, ...]:
        if found is None:
            return gs
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(gs):
            raise OperandError(f"{what}: the hook must return None or {len(gs)} gradients, got {len(found)}")
        for old, new in zip(gs, found, strict=True):
            if old is not None and (getattr(new, "shape", None) != old.shape or new.dtype != old.dtype):
                shown = f"{old.dtype} of shape {old.shape}"
                raise OperandError(f"{what}: the hook must return a gradient of {shown}, got {new!r}")
        return found


class Hooked:
    """Mixin of ``Module`` for hooks."""

    _hooks: Hooks | None = None

    def _register(self, kind: str, hook: Any, keyed: bool, prepend: bool) -> RemovableHandle:
        if not callable(hook):
            raise OperandError(f"a hook must be a function, got {type(hook).__name__}")
        if self._hooks is None:
            self._hooks = Hooks()
        hooks: dict[int, Any] = getattr(self._hooks, kind)
        rest = list(hooks.items()) if prepend else []
        key = next(_count)
        hooks[key] = (hook, keyed)
        for old, held in rest:  # to the end, in their order
            del hooks[old]
            hooks[old] = held
        return RemovableHandle(hooks, key)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook`` before each call of ``forward``.

        Parameters
        ----------
        hook : callable
            ``hook(module, args)``. A result other than None replaces the arguments.
        prepend : bool
            True to call it before the existing hooks.
        with_kwargs : bool
            True to call ``hook(module, args, kwargs)``, which returns None or (args, kwargs).

        Returns
        -------
        RemovableHandle

        Examples
        --------
        >>> layer = agrad.nn.Identity()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: (10 * args[0],))
        >>> layer(np.array([1.0, 2.0]))
        array([10., 20.])
        """
        return self._register("before", hook, with_kwargs, prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook`` after each call of ``forward``.

        Parameters
        ----------
        hook : callable
            ``hook(module, args, output)``. A result other than None replaces the output.
        prepend : bool
            True to call it before the existing hooks.
        with_kwargs : bool
            True to call ``hook(module, args, kwargs, output)``.

        Returns
        -------
        RemovableHandle

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.Linear(4, 3), agrad.nn.ReLU()).to(agrad.float64)
        >>> handle = model[0].register_forward_hook(lambda module, args, output: print("hidden", output.shape))
        >>> _ = model(np.ones((2, 4)))
        hidden (2, 3)
        >>> handle.remove()
        """
        return self._register("after", hook, with_kwargs, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook`` before the backward pass of the module.

        Parameters
        ----------
        hook : callable
            ``hook(module, grad_output)``, where ``grad_output`` is a tuple of the gradients with respect to the
            results. A result other than None replaces them.
        prepend : bool
            True to call it before the existing hooks.

        Returns
        -------
        RemovableHandle

        Notes
        -----
        The notes of ``register_full_backward_hook`` also apply here.

        Examples
        --------
        >>> layer = agrad.nn.Linear(2, 1, dtype=agrad.float64)
        >>> handle = layer.register_full_backward_pre_hook(lambda module, grad_output: print(grad_output[0].shape))
        >>> layer(np.ones((3, 2))).sum().backward()
        (3, 1)
        """
        return self._register("backward_before", hook, False, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook`` after the backward pass of the module.

        Parameters
        ----------
        hook : callable
            ``hook(module, grad_input, grad_output)``, with tuples of the gradients with respect to positional arguments
            and results. Missing gradients are None. A result other than None replaces ``grad_input``.
        prepend : bool
            True to call it before the existing hooks.

        Returns
        -------
        RemovableHandle

        Notes
        -----
        A hook receives the gradients of Tensors that are positional arguments, and of a result that is a Tensor or a
        tuple of Tensors. It does not receive gradients of Tensors in other pytrees. If no argument has a gradient,
        ``grad_input`` contains only None. Forward mode through the module raises ``NotDifferentiableError``.

        Examples
        --------
        >>> layer = agrad.nn.Linear(2, 1, dtype=agrad.float64)
        >>> def show(module, grad_input, grad_output):
        ...     print(grad_output[0].shape)
        >>> handle = layer.register_full_backward_hook(show)
        >>> layer(np.ones((3, 2))).sum().backward()
        (3, 1)
        """
        return self._register("backward", hook, False, prepend)
