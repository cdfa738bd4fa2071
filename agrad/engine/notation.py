"""The notation of operations: ``@primitive``, ``elementwise`` and their rules.

A primitive is a function of an array namespace, of arrays and of settings. Where callers may write arguments in several
forms, the public function stands beside it and brings them to the one form that the primitive knows::

    @primitive(name="sum", linear="x", batch="axis")
    def sum_p(xp, x, /, *, axis, keepdims):
        return xp.sum(x, axis=axis, keepdims=keepdims)

    @sum_p.vjp
    def sum_vjp(xp, g, x_meta, *, axis):
        return xp.broadcast_to(kept(xp, g, x_meta.shape, axis), x_meta.shape)

    def sum(x, /, *, axis=None, keepdims=False):
        return sum_p(x, axis=axes_of(axis, x), keepdims=keepdims)

Before the slash stand arrays, which may be differentiated, after it settings; a ``*arrays`` after the slash takes any
number of arrays. A rule may name ``xp``, the cotangent ``g`` (or the tangent ``t``), the output ``y`` (or the outputs'
own names), the arguments, ``<argument>_meta`` for an argument's shape and dtype only, and after a ``*`` the settings.
``vmap`` calls the primitive by a word, ``batch="axis"``, or by a rule of names (see ``batching``). A call with all
settings, in the order of the definition, is the fastest.
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
    """A function that calls a primitive and files its rules."""

    primitive: Primitive
    bind: Callable[..., Any]
    """The function itself."""

    def __call__(self, *args: Any, **settings: Any) -> Any: ...
    def vjp(self, *targets: Any) -> Any:
        """File the vjp rule of the arguments ``targets`` (by default the first)."""

    def jvp(self, *targets: Any) -> Any:
        """File the rule that takes the tangent of the argument ``targets`` forward."""

    def batch(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """File the batching rule; see ``agrad.engine.batching``."""

    def write_back(self, function: Any) -> Any:
        """File the write_back rule: the argument after ``value`` is written to the result.

        For a result that may be a view. Without this rule, changes of the result in place are not seen in the argument,
        whatever memory they share.
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
    """Make a function of ``(xp, arrays, /, *, settings)`` a differentiable operation.

    Parameters
    ----------
    forward : callable, optional
        The function, where the decorator is used without settings.
    name : str, optional
        The name of the operation, by default the function's.
    linear : str or sequence of str
        The arguments in which the operation is linear: there it is its own forward rule.
    constant : str or sequence of str
        The arguments that have no derivative, such as labels or an index.
    broadcasts : bool
        Arguments broadcast against each other: cotangents may have axes to sum.
    out : str or sequence of str, optional
        The names of several outputs, which rules then name in place of ``y``, with cotangents ``g_<name>`` (None where
        unused). One name behind a star, ``out="*parts"``: as many outputs as the function gives. Rules name none of
        them, and are handed ``g_parts``, the cotangents by the outputs' numbers.
    masks : bool
        Elements of an argument may go unused: whatever they are, they get the cotangent zero.
    jointly : bool
        The operation is linear in all arguments with a derivative at once, as a sum is and a product is not: the
        tangents of all make one call.
    overwrites : str or sequence of str
        The arguments that a kernel may write its results into where the setting ``donate`` is true.
    batch : str, optional
        How ``vmap`` calls the operation for all members at once: ``"leading"`` (any leading axes are a batch already,
        and broadcast), ``"axis"`` (every array gets an axis in front, and settings that name axes count one more from
        the front), ``"loop"`` (one call a member), ``"values decide"`` (not at all); any other way is a rule filed with
        ``.batch``. An operation on vectors or matrices also declares ``core_axes``, so that ``vmap`` never takes the
        batch for one of their axes.
    **traits : object
        Those of ``agrad.engine.operation``, by name: ``core_axes=2`` for an operation on the last two axes of each
        array, ``core_axes=(2, 1)`` for one on matrices and vectors, or ``kind="reduction"``, with ``combine=agrad.add``
        if the results for two parts are added.

    Returns
    -------
    PrimitiveFunction
        The function that calls the operation; it files rules by ``.vjp`` and ``.jvp``.

    Raises
    ------
    PrimitiveDefinitionError
        At the definition, for a signature or a rule that breaks the notation.

    See Also
    --------
    agrad.elementwise : For operations on each element.
    agrad.custom_vjp : For functions of containers.
    agrad.testing.PrimitiveTest : All tests of a primitive.

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
    """Make the primitive of a function, whose signature says the arguments."""
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
    """Return the function that calls a primitive and files its rules."""
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
    """Make an operation on each element, with one rule for each argument.

    Parameters
    ----------
    name : str
        The name of the operation.
    *rules : callable or None
        One for each argument (named ``x``, or ``x1`` and ``x2``, or as ``forward`` names them): ``g`` times the partial
        derivative. The Jacobian is diagonal: the same rule takes a cotangent back and a tangent forward. None stands
        for an argument without a derivative.
    forward : callable, optional
        The body, by default the function of that name of the namespace.
    keeps_type : bool
        The result has the arguments' dtype.
    jointly : bool
        As of ``primitive``.
    doc : str, optional
        The docstring's text before its sections, with the section Examples if there is one.
    **traits : object
        As of ``primitive``.

    Returns
    -------
    PrimitiveFunction
        The function that calls the operation.

    Raises
    ------
    PrimitiveDefinitionError
        For a rule that breaks the notation.

    See Also
    --------
    agrad.primitive : For any operation.
    agrad.testing.PrimitiveTest : All tests of a primitive.

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
    """Return the docstring of an elementwise function: ``text`` and its sections, with the examples last."""
    text, title, examples = text.partition("\n\nExamples\n")
    if len(names) == 1:
        taken, shape, errors = "A Tensor or an array of any supported library.", "same", ""
    else:
        taken, shape = "Tensors, arrays of any supported library, or numbers. They must broadcast.", "broadcast"
        errors = "\nRaises\n------\nShapeError\n    If the shapes do not broadcast.\n"
    return (
        f"{text}\n\nParameters\n----------\n{', '.join(names)} : array\n    {taken}\n\n"
        f"Returns\n-------\narray\n    Of the {shape} shape: a Tensor if one is given, else of the library.\n{errors}"
        f"{title[1:]}{examples}"
    )
