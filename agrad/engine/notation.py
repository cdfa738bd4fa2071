"""The notation of operations: ``@primitive``, ``.vjp``, ``.jvp``, ``.batch``, ``.door``, ``elementwise``.

A primitive has the array API's own signature with ``xp`` in front::

    @primitive(linear="x", normalize={"axis": axes_of}, batch="axis")
    def sum(xp, x, /, *, axis=None, keepdims=False):
        return xp.sum(x, axis=axis, keepdims=keepdims)

    @sum.vjp
    def sum_vjp(xp, g, x_meta, *, axis):
        return xp.broadcast_to(kept(xp, g, x_meta.shape, axis), x_meta.shape)

Before the slash stand arrays, which may be differentiated, after it settings; a ``*arrays`` after the slash takes any
number of arrays. A rule may name ``xp``, the cotangent ``g`` (or the tangent ``t``), the output ``y`` (or the outputs'
own names), the arguments, ``<argument>_meta`` for an argument's shape and dtype only, and after a ``*`` the settings.
How ``vmap`` calls it is a word, ``batch="axis"``, or a rule of names too (see ``batching``).
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from agrad.engine.plans import compile_function
from agrad.engine.primitive import Primitive
from agrad.errors import PrimitiveDefinitionError

Names = str | Sequence[str]
Normalizers = Mapping[str, Callable[[Any, Any], Any]]


class Operation(Protocol):
    """A public operation: a plain function that also files its own rules."""

    primitive: Primitive
    bind: Callable[..., Any]

    def __call__(self, *args: Any, **settings: Any) -> Any: ...
    def vjp(self, *targets: Any) -> Any:
        """File the rule that takes a cotangent back to the arguments ``targets`` (by default the first)."""

    def jvp(self, *targets: Any) -> Any:
        """File the rule that takes the tangent of the argument ``targets`` forward."""

    def batch(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """File the rule that calls the operation once for all members of a batch; see ``agrad.engine.batching``."""

    def put(self, function: Any) -> Any:
        """File what the argument is after ``value`` was written into the result, for a result that may be a view.

        Without this rule, in-place changes of the result are not seen in the argument, whatever memory they share.
        """

    def door(self, function: Callable[..., Any]) -> "Operation":
        """Make ``function``, which brings its arguments to one form and calls ``bind``, the public one."""


def _tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def primitive(
    forward: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    linear: Names = (),
    constant: Names = (),
    broadcasts: bool = False,
    out: Names | None = None,
    normalize: Normalizers | None = None,
    masks: bool = False,
    jointly: bool = False,
    overwrites: Names = (),
    batch: str | None = None,
    **traits: Any,
) -> Any:
    """Make a function of ``(xp, arrays, /, *, settings)`` an operation that can be differentiated.

    ``linear`` names arguments in which the operation is linear: there it is its own forward rule. ``constant`` names
    those that have no derivative (labels, an index). ``broadcasts`` says that arguments broadcast against each other,
    so that cotangents may have axes summed. ``out`` names several outputs, which rules then name in place of ``y``,
    with cotangents ``g_<name>`` (None where unused). With one name behind a star, ``out="*parts"``, their number is
    what the function gives: rules name none of them, and are handed ``g_parts``, the cotangents by the outputs'
    numbers. ``normalize`` gives, by setting, ``f(value, first_array)``. ``masks`` says that some elements of an
    argument may go unused: whatever they are, they get the cotangent zero. ``jointly`` says that it is linear in all
    arguments with a derivative at once, as a sum is and a product is not: the tangents of all make one call.
    ``overwrites`` names arguments that a kernel may write its results into where the setting ``donate`` is true.
    ``batch`` is how ``vmap`` calls it for all members at once: ``"leading"`` (any leading axes are a batch already, and
    broadcast), ``"axis"`` (every array gets an axis in front, and settings that name axes, from the front, count one
    more), ``"loop"`` (a call a member), ``"values decide"`` (not at all); any other way is a rule filed with
    ``.batch``. ``traits`` are those of ``agrad.engine.operation``, by name, such as ``kind="reduction"``.

    Gives the public function, which files rules by ``.vjp`` and ``.jvp``. Raises ``PrimitiveDefinitionError``, when the
    definition is read, for a signature or a rule that breaks the notation.
    """

    def define(function: Callable[..., Any]) -> Operation:
        return _define(
            function,
            name=name or function.__name__,
            linear=_tuple(linear),
            constant=_tuple(constant),
            broadcasts=broadcasts,
            out=None if out is None else _tuple(out),
            normalize=normalize or {},
            masks=masks,
            jointly=jointly,
            overwrites=_tuple(overwrites),
            batch=batch,
            traits=traits,
        )

    return define if forward is None else define(forward)


def _define(
    function: Callable[..., Any],
    *,
    name: str,
    linear: tuple[str, ...],
    constant: tuple[str, ...],
    broadcasts: bool,
    out: tuple[str, ...] | None,
    normalize: Normalizers,
    masks: bool = False,
    jointly: bool = False,
    elementwise: bool = False,
    keeps_type: bool = False,
    overwrites: tuple[str, ...] = (),
    batch: str | None = None,
    traits: Mapping[str, Any],
) -> Operation:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].name != "xp" or parameters[0].kind is not inspect.Parameter.POSITIONAL_ONLY:
        raise PrimitiveDefinitionError(
            f"{name}: a primitive's signature is (xp, arrays, /, *, settings); the first is not 'xp' before the slash"
        )
    arrays = tuple(p.name for p in parameters[1:] if p.kind is p.POSITIONAL_ONLY)
    variadic = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    settings = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    strange = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.VAR_KEYWORD)]
    if strange:
        raise PrimitiveDefinitionError(
            f"{name}: {', '.join(map(repr, strange))} must stand before the slash (arrays) or after a star (settings)"
        )
    if not arrays and not variadic:
        raise PrimitiveDefinitionError(f"{name}: a primitive takes at least one array before the slash")
    unknown = [key for key in normalize if key not in {p.name for p in settings}]
    if unknown:
        raise PrimitiveDefinitionError(f"{name}: normalize names {', '.join(map(repr, unknown))}, no settings of it")
    made = Primitive(
        function,
        name=name,
        arrays=arrays,
        variadic=variadic[0] if variadic else None,
        settings=tuple(p.name for p in settings),
        defaults={p.name: p.default for p in settings if p.default is not p.empty},
        linear=linear,
        constant=constant,
        broadcasts=broadcasts,
        elementwise=elementwise,
        keeps_type=keeps_type,
        outputs=None if out is None else tuple(n.removeprefix("*") for n in out),
        spreads=out is not None and any(n.startswith("*") for n in out),
        masks=masks,
        jointly=jointly,
        overwrites=overwrites,
        batch=batch,
    )
    made.declare(traits)
    public = _with_normalizers(made, normalize) if normalize else made.bind
    return _dress(public, made, function.__doc__)


def _with_normalizers(made: Primitive, normalize: Normalizers) -> Callable[..., Any]:
    scope: dict[str, Any] = {"bind": made.bind, "DEFAULTS": made.defaults}
    arrays = [*made.arrays, "/"]
    settings = [f"{s}=DEFAULTS[{s!r}]" if s in made.defaults else s for s in made.settings]
    passed = []
    for s in made.settings:
        if s in normalize:
            scope[f"normalize_{s}"] = normalize[s]
            passed.append(f"{s}=normalize_{s}({s}, {made.arrays[0]})")
        else:
            passed.append(f"{s}={s}")
    text = (
        f"def {made.identifier}({', '.join([*arrays, '*', *settings])}):\n"
        f"    return bind({', '.join([*made.arrays, *passed])})\n"
    )
    return cast(Callable[..., Any], compile_function(made.identifier, text, scope))


def _dress(public: Any, made: Primitive, doc: str | None) -> Operation:
    """Give a public function its docstring and the means to file rules."""
    if doc is not None:
        public.__doc__ = doc
    public.__module__ = getattr(made.forward, "__module__", None) or __name__

    def filer(kind: str) -> Callable[..., Any]:
        def file(*targets: Any) -> Any:
            if len(targets) == 1 and callable(targets[0]):
                made.file(kind, targets[0], ())
                return targets[0]

            def with_targets(function: Callable[..., Any]) -> Callable[..., Any]:
                made.file(kind, function, targets)
                return function

            return with_targets

        return file

    def batch(rule: Callable[..., Any]) -> Callable[..., Any]:
        made.file_batching(rule)
        return rule

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        made.file_put(function)
        return function

    def door(function: Callable[..., Any]) -> Operation:
        return _dress(function, made, function.__doc__ or doc)

    public.primitive = made
    public.bind = made.bind
    public.vjp = filer("vjp")
    public.jvp = filer("jvp")
    public.batch = batch
    public.put = put
    public.door = door
    return cast(Operation, public)


def elementwise(
    name: str,
    *rules: Callable[..., Any] | None,
    forward: Callable[..., Any] | None = None,
    keeps_type: bool = True,
    jointly: bool = False,
    doc: str | None = None,
    **traits: Any,
) -> Operation:
    """An operation on each element, in one row: ``sin = elementwise("sin", lambda xp, g, x: g * xp.cos(x))``.

    One rule an argument (named ``x``, or ``x1`` and ``x2``, or as ``forward`` names them): ``g`` times the partial
    derivative. The Jacobian is diagonal, so the same rule takes a cotangent back and a tangent forward. None stands
    for an argument without a derivative. ``forward`` is the body, by default the function of that name of the
    namespace. ``keeps_type`` says that the result has the arguments' dtype, ``jointly`` that it is linear in all of
    them at once, ``traits`` the same as of ``primitive``. ``doc`` is the public docstring's first sentence.
    """
    names = ("x",) if len(rules) == 1 else tuple(f"x{i + 1}" for i in range(len(rules)))
    if forward is not None:
        parameters = list(inspect.signature(forward).parameters.values())[1:]
        names = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_ONLY)
    if forward is None:
        made = Primitive(
            None,
            name=name,
            arrays=names,
            constant=tuple(n for n, rule in zip(names, rules, strict=True) if rule is None),
            broadcasts=True,
            elementwise=True,
            keeps_type=keeps_type,
            jointly=jointly,
            batch="leading",
        )
        made.declare(traits)
        operation = _dress(made.bind, made, None)
    else:
        operation = _define(
            forward,
            name=name,
            linear=(),
            constant=tuple(n for n, rule in zip(names, rules, strict=True) if rule is None),
            broadcasts=True,
            out=None,
            normalize={},
            jointly=jointly,
            elementwise=True,
            keeps_type=keeps_type,
            batch="leading",
            traits=traits,
        )
    arrays = "an array" if len(names) == 1 else "arrays or numbers that broadcast"
    operation.__doc__ = (
        f"{doc or f'The array API standard`s ``{name}`` of each element.'}\n\n"
        f"{', '.join(names)}: {arrays}, as Tensors or of any known library. Gives a Tensor where one is given, else\n"
        f"an array of that library, of the broadcast shape. Raises ``ShapeError`` for shapes that do not broadcast.\n"
    ).replace("`s ``", "'s ``")
    for argument, rule in zip(names, rules, strict=True):
        if rule is not None:
            operation.primitive.file("vjp", rule, (argument,))
            operation.primitive.file("jvp", rule, (argument,))
    return operation
