"""The notation of operations: ``@primitive``, ``elementwise`` and their rules.

A primitive is a function of an array namespace, arrays and options. If callers may write arguments in several forms, a
public function normalizes them::

    @primitive(name="sum", linear="x", batch="axis")
    def sum_p(xp, x, /, *, axis, keepdims):
        return xp.sum(x, axis=axis, keepdims=keepdims)

    @sum_p.vjp
    def sum_vjp(xp, g, x_meta, *, axis):
        return xp.broadcast_to(kept(xp, g, x_meta.shape, axis), x_meta.shape)

    def sum(x, /, *, axis=None, keepdims=False):
        return sum_p(x, axis=axes_of(axis, x), keepdims=keepdims)

The parameters before the slash are arrays, which may be differentiated. The parameters after it are options. A
``*arrays`` after the slash accepts any number of arrays. The parameters of a rule may be ``xp``, the cotangent ``g``
(or the tangent ``t``), the output ``y`` (or the names of the outputs), the arguments, ``<argument>_meta`` for only the
shape and dtype of an argument, and after a ``*`` the options. ``batching`` describes the rules for ``vmap``. A call
with all options, in the order of the definition, is the fastest.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, cast, overload

from agrad.engine.primitive import Primitive
from agrad.errors import PrimitiveDefinitionError

if TYPE_CHECKING:
    from agrad.engine import typed

P = ParamSpec("P")
Names = str | Sequence[str]


class PrimitiveFunction(Protocol):
    """A function that calls a primitive, with decorators for its rules."""

    primitive: Primitive
    bind: Callable[..., Any]
    """The function itself."""

    def __call__(self, *args: Any, **settings: Any) -> Any: ...
    def vjp(self, *targets: Any) -> Any:
        """Register the vjp rule of the arguments ``targets`` (by default the first)."""

    def jvp(self, *targets: Any) -> Any:
        """Register the jvp rule of the argument ``targets`` (by default the first)."""

    def batch(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register the batching rule (``agrad.engine.batching``)."""

    def write_back(self, function: Any) -> Any:
        """Register the write-back rule: the argument after a write to the result.

        Use it for a result that may be a view. Without this rule, a write to the result does not change the argument.
        """


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@overload
def primitive(
    forward: Callable[Concatenate[Any, Any, P], Any], /, *, out: None = None, **how: Any
) -> "typed.Primitive[P]": ...
@overload
def primitive(*, out: None = None, **how: Any) -> "typed.DefinesPrimitive": ...
@overload
def primitive(
    forward: Callable[..., Any] | None = None, /, *, out: Names, **how: Any
) -> Callable[[Callable[..., Any]], PrimitiveFunction]: ...
def primitive(
    forward: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    linear: Names = (),
    constant: Names = (),
    broadcasts: bool = False,
    out: Names | None = None,
    masks: bool = False,
    jointly: bool = False,
    overwrites: Names = (),
    batch: str | None = None,
    **traits: Any,
) -> Any:
    """Define a differentiable operation by a function ``(xp, arrays, /, *, options)``.

    Parameters
    ----------
    forward : callable, optional
        Function, for the decorator without options.
    name : str, optional
        Name of the operation. By default, the name of the function.
    linear : str or sequence of str
        Arguments in which the operation is linear, so that it is its own forward rule.
    constant : str or sequence of str
        Arguments without a derivative, such as labels or an index.
    broadcasts : bool
        True if the arguments broadcast, so that cotangents are summed along axes.
    out : str or sequence of str, optional
        Names of several outputs. Rules use them instead of ``y``, with cotangents ``g_<name>`` (None if unused). A
        single name with a star, ``out="*parts"``, means a variable number of outputs. Rules then receive only
        ``g_parts``, the cotangents by the index of the output.
    masks : bool
        True if elements of an argument may be unused, so that their cotangent is 0 for any value.
    jointly : bool
        True if the operation is jointly linear in all arguments with a derivative, as a sum. One call then computes the
        tangent.
    overwrites : str or sequence of str
        Arguments that a kernel may overwrite with its results if the option ``donate`` is true.
    batch : str, optional
        Batching rule for ``vmap``: ``"leading"`` (the operation treats leading axes as a batch, and broadcasts them),
        ``"axis"`` (every array gets a leading axis, and options that name axes are shifted by one), ``"loop"`` (one
        call for each batch element) or ``"values decide"`` (not supported). Define any other rule with ``.batch``. An
        operation on vectors or matrices also requires ``core_axes``.
    **traits : object
        Traits of ``agrad.engine.operation``: ``core_axes=2`` for an operation on the last two axes of each array,
        ``core_axes=(2, 1)`` for a matrix and a vector, or ``kind="reduction"``, with ``combine=agrad.add`` if the
        results for two parts are added.

    Returns
    -------
    PrimitiveFunction
        Function that calls the operation. ``.vjp`` and ``.jvp`` register rules.

    Raises
    ------
    PrimitiveDefinitionError
        If the signature or a rule is invalid.

    See Also
    --------
    agrad.elementwise : Define an elementwise operation.
    agrad.custom_vjp : Define the derivative of a function of pytrees.
    agrad.testing.PrimitiveTest : Test a primitive.

    Examples
    --------
    >>> @agrad.primitive
    ... def cube(xp, x, /):
    ...     return x**3
    >>> @cube.vjp
    ... def cube_vjp(xp, g, x):
    ...     return 3 * g * x**2
    >>> agrad.grad(cube)(2.0), agrad.grad(agrad.grad(cube))(2.0)
    (np.float64(12.0), np.float64(12.0))
    """

    def define(function: Callable[..., Any]) -> PrimitiveFunction:
        return _define(
            function,
            name or function.__name__,
            traits,
            linear=_tuple(linear),
            constant=_tuple(constant),
            broadcasts=broadcasts,
            outputs=None if out is None else tuple(n.removeprefix("*") for n in _tuple(out)),
            spreads=out is not None and any(n.startswith("*") for n in _tuple(out)),
            masks=masks,
            jointly=jointly,
            overwrites=_tuple(overwrites),
            batch=batch,
        )

    return define if forward is None else define(forward)


def _define(function: Callable[..., Any], name: str, traits: dict[str, Any], **how: Any) -> PrimitiveFunction:
    """Define the primitive of a function by its signature."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].name != "xp" or parameters[0].kind is not inspect.Parameter.POSITIONAL_ONLY:
        raise PrimitiveDefinitionError(
            f"{name}: a primitive must have the signature (xp, arrays, /, *, options), with 'xp' first, got "
            f"{inspect.signature(function)}"
        )
    arrays = tuple(p.name for p in parameters[1:] if p.kind is p.POSITIONAL_ONLY)
    variadic = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    settings = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    strange = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.VAR_KEYWORD)]
    if strange:
        raise PrimitiveDefinitionError(
            f"{name}: parameters must come before the slash (arrays) or after a star (options), got "
            f"{', '.join(map(repr, strange))}"
        )
    if not arrays and not variadic:
        raise PrimitiveDefinitionError(f"{name}: a primitive must have at least one array before the slash")
    made = Primitive(
        function,
        name=name,
        arrays=arrays,
        variadic=variadic,
        settings=tuple(p.name for p in settings),
        defaults={p.name: p.default for p in settings if p.default is not p.empty},
        **how,
    )
    made.declare(traits)
    return _dress(made, function.__doc__, function.__module__)


def _dress(made: Primitive, doc: str | None, module: str) -> PrimitiveFunction:
    """Return the function that calls a primitive, with decorators for its rules."""
    call: Any = made.bind
    if doc is not None:
        call.__doc__ = doc
    call.__module__ = module

    def filer(kind: str) -> Callable[..., Any]:
        def file(*targets: Any) -> Any:
            if len(targets) == 1 and callable(targets[0]):
                return made.file(kind, targets[0], ())
            return lambda function: made.file(kind, function, targets)

        return file

    call.primitive, call.bind = made, call
    call.vjp, call.jvp = filer("vjp"), filer("jvp")
    call.batch = made.file_batching
    call.write_back = call.put = made.file_write_back  # ``put`` is its earlier name
    return cast(PrimitiveFunction, call)


def elementwise(
    name: str,
    *rules: Callable[..., Any] | None,
    forward: Callable[..., Any] | None = None,
    keeps_type: bool = True,
    jointly: bool = False,
    doc: str | None = None,
    **traits: Any,
) -> PrimitiveFunction:
    """Define an elementwise operation, with one rule for each argument.

    Parameters
    ----------
    name : str
        Name of the operation.
    *rules : callable or None
        Rule for each argument (``x``, or ``x1`` and ``x2``, or the parameters of ``forward``): ``g`` times the partial
        derivative, or None for an argument without a derivative. The Jacobian is diagonal, so the rule serves both
        reverse and forward mode.
    forward : callable, optional
        Function that computes the operation. By default, the function ``name`` of the namespace.
    keeps_type : bool
        True if the result has the dtype of the arguments.
    jointly : bool
        As for ``primitive``.
    doc : str, optional
        Beginning of the docstring, and its section Examples.
    **traits : object
        As for ``primitive``.

    Returns
    -------
    PrimitiveFunction
        Function that calls the operation.

    See Also
    --------
    agrad.primitive : Define any operation.
    agrad.testing.PrimitiveTest : Test a primitive.

    Examples
    --------
    >>> def log1pexp(xp, x, /):
    ...     return xp.log1p(xp.exp(x))
    >>> softplus = agrad.elementwise("softplus", lambda xp, g, x: g / (1 + xp.exp(-x)), forward=log1pexp)
    >>> agrad.grad(softplus)(0.0), agrad.jvp(softplus, (0.0,), (2.0,))[1]
    (np.float64(0.5), np.float64(1.0))
    """
    if forward is None:
        names: tuple[str, ...] = ("x",) if len(rules) == 1 else tuple(f"x{i + 1}" for i in range(len(rules)))
    else:
        parameters = list(inspect.signature(forward).parameters.values())[1:]
        names = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_ONLY)
    how: dict[str, Any] = {
        "constant": tuple(n for n, rule in zip(names, rules, strict=True) if rule is None),
        "broadcasts": True,
        "elementwise": True,
        "keeps_type": keeps_type,
        "jointly": jointly,
        "batch": "leading",
    }
    if forward is None:
        made = Primitive(None, name=name, arrays=names, **how)
        made.declare(traits)
        operation = _dress(made, None, sys._getframe(1).f_globals["__name__"])
    else:
        operation = _define(forward, name, traits, **how)
    operation.__doc__ = _elementwise_doc(doc or f"Return the array API standard's ``{name}`` of each element.", names)
    for argument, rule in zip(names, rules, strict=True):
        if rule is not None:
            operation.primitive.file("vjp", rule, (argument,))
            operation.primitive.file("jvp", rule, (argument,))
    return operation


def _elementwise_doc(text: str, names: tuple[str, ...]) -> str:
    """Return the docstring of an elementwise function, with the examples last."""
    text, title, examples = text.partition("\n\nExamples\n")
    if len(names) == 1:
        taken, shape, errors = "A Tensor or an array of any supported library.", "same", ""
    else:
        taken, shape = "Tensors, arrays of any supported library, or numbers. They must broadcast.", "broadcast"
        errors = "\nRaises\n------\nShapeError\n    If the shapes do not broadcast.\n"
    return (
        f"{text}\n\nParameters\n----------\n{', '.join(names)} : array\n    {taken}\n\n"
        f"Returns\n-------\narray\n    Result of the {shape} shape, a Tensor if an argument is one.\n{errors}"
        f"{title[1:]}{examples}"
    )
