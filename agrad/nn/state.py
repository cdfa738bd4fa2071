"""Saving and loading the state of a module."""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

import agrad
from agrad.errors import DataError, OperandError, listed
from agrad.nn.members import ModuleMember, ModuleMembers, join, walk
from agrad.nn.parameter import Unsaved


class IncompatibleKeys(NamedTuple):
    """Names that a state and a module do not share."""

    missing_keys: list[str]
    """Names in the module that are missing in the state."""
    unexpected_keys: list[str]
    """Names in the state that are missing in the module."""


def saved(root: ModuleMembers, prefix: str = "", once: bool = True) -> list[ModuleMember]:
    """Return the parameters, and the buffers that are saved."""
    parts = [part for part in walk(root, prefix, once) if isinstance(part.value, agrad.Tensor)]
    return [p for p in parts if p.key not in p.owner._unsaved and not isinstance(p.value, Unsaved)]


class State:
    """Mixin of ``Module`` that saves and loads state."""

    def host_state(self) -> dict[str, int]:
        """Return the saved state of this module other than Tensors.

        Returns
        -------
        dict of str to int, nonnegative
        """
        return {}

    def load_host_state(self, state: Mapping[str, int]) -> None:
        """Load a state that ``host_state`` returned.

        Parameters
        ----------
        state : mapping of str to int
        """

    def state_dict(self, prefix: str = "") -> dict[str, Any]:
        """Return parameters, buffers and host state as NumPy arrays by name.

        Parameters
        ----------
        prefix : str
            Prefix of each name, such as ``"encoder."``.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays on the host that share no memory with the module.

        Examples
        --------
        >>> model = agrad.nn.Sequential(agrad.nn.BatchNorm1d(2))
        >>> sorted(model.state_dict())
        ['0.bias', '0.num_batches_tracked', '0.running_mean', '0.running_var', '0.weight']
        """
        state = {prefix + part.name: np.array(part.value.detach().numpy()) for part in saved(self)}  # type: ignore[arg-type]
        for name, module in self.named_modules():  # type: ignore[attr-defined]
            for key, number in module.host_state().items():
                state[prefix + join(name, key)] = np.array(number, dtype=np.int64)
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Load a state that ``state_dict`` returned, on any backend.

        The values are copied to the current devices of the Tensors.

        Parameters
        ----------
        state : mapping of str to array
            Arrays with the names, shapes and dtypes of ``state_dict()``.
        strict : bool
            False to load only the names that the state and the module share.

        Returns
        -------
        IncompatibleKeys
            Lists ``missing_keys`` and ``unexpected_keys``, which are empty if ``strict``.

        Raises
        ------
        OperandError
            If ``state`` is not a mapping.
        DataError
            If shapes or dtypes differ, or names if ``strict``. The message lists the differences, and the module is
            unchanged.

        Examples
        --------
        >>> layer, other = agrad.nn.Linear(2, 1), agrad.nn.Linear(2, 1)
        >>> layer.load_state_dict(other.state_dict())
        IncompatibleKeys(missing_keys=[], unexpected_keys=[])
        >>> bool((layer.weight == other.weight).all())
        True
        """
        if not isinstance(state, Mapping):
            raise OperandError(f"load_state_dict: state must be a dict of arrays by name, got {type(state).__name__}")
        arrays = {name: np.asarray(value) for name, value in state.items()}
        tensors = {part.name: part.value for part in saved(self)}  # type: ignore[arg-type]
        counted = [(name, m, m.host_state()) for name, m in self.named_modules()]  # type: ignore[attr-defined]
        expected: dict[str, tuple[tuple[int, ...], str]] = {
            name: (tensor.shape, tensor.dtype.name) for name, tensor in tensors.items()
        }
        counts = [join(name, key) for name, _, keys in counted for key in keys]
        names = dict.fromkeys([*expected, *counts])
        lost = IncompatibleKeys([n for n in names if n not in arrays], [n for n in arrays if n not in names])
        if not strict:
            arrays = {name: array for name, array in arrays.items() if name in names}
            expected = {name: kind for name, kind in expected.items() if name in arrays}
            counts = [name for name in counts if name in arrays]
        check_state(f"the state of {type(self).__name__}", arrays, expected, counts)
        put((tensors[name], arrays[name]) for name in expected)
        for name, module, old in counted:
            new = {key: int(arrays[join(name, key)]) for key in old if join(name, key) in arrays}
            if new:
                module.load_host_state({**old, **new})
        return lost


def put(pairs: Iterable[tuple[agrad.Tensor, np.ndarray]]) -> None:
    """Set Tensors to host arrays, cast to their dtypes."""
    fresh = [(tensor, agrad.asarray(on_device_of(tensor, array))) for tensor, array in pairs]
    for tensor, value in fresh:
        tensor.assign(agrad.astype(value, tensor.dtype, copy=False).raw)


def mismatches(
    arrays: Mapping[str, np.ndarray], expected: Mapping[str, tuple[tuple[int, ...], str | None]]
) -> list[str]:
    """Return a line for each array that is not as expected.

    It is missing or unexpected, or of another shape or dtype. ``expected`` maps names to shape and dtype name, or None
    for any dtype.
    """
    problems = []
    for name, (shape, dtype) in expected.items():
        found, wanted = arrays.get(name), f"{dtype or 'an array'} of shape {tuple(shape)}"
        if found is None:
            problems.append(f"{name}: must be {wanted}, got none")
        elif found.shape != tuple(shape) or dtype not in (None, found.dtype.name):
            problems.append(f"{name}: must be {wanted}, got {found.dtype.name} of {found.shape}")
    return [*problems, *(f"{name}: not expected" for name in arrays if name not in expected)]


def check_state(
    what: str,
    arrays: Mapping[str, np.ndarray],
    expected: Mapping[str, tuple[tuple[int, ...], str]],
    counts: Collection[str],
) -> None:
    """Raise ``DataError`` unless arrays have the expected names, shapes and dtypes.

    Arrays named in ``counts`` must be nonnegative integer scalars.
    """
    problems = mismatches(arrays, {**expected, **dict.fromkeys(counts, ((), "int64"))})
    problems = problems or [f"{name}: must be at least 0, got {arrays[name]}" for name in counts if arrays[name] < 0]
    if problems:
        raise DataError(f"{what} was not loaded:\n  " + listed(problems, 8, "\n  ", 150))


def encoded(options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return options as entries of a saved state: numbers, and strings as bytes.

    Other options, such as functions, are skipped.
    """
    found = {}
    plain = {name: x for name, x in options.items() if x is None or isinstance(x, (str, int, float, list, tuple))}
    for name, value in plain.items():
        with contextlib.suppress(ValueError):  # of a ragged list
            text = value is None or isinstance(value, str)
            array = np.array(list((value or "").encode()), np.uint8) if text else np.array(value)
            if array.dtype.kind in "biuf":
                found[name] = array
    return found


def without_options(what: str, given: Mapping[str, np.ndarray], options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays of a state without the options, which must be equal.

    Raise ``DataError`` if one differs. Options that are missing in the state (of an older version) are not compared.
    """
    expected = encoded(options)
    wrong = [f"{n}: must be {_told(x)}, got {_told(given[n])}" for n, x in expected.items() if _differ(x, given, n)]
    if wrong:
        raise DataError(f"{what} was not loaded, because it does not match:\n  " + listed(wrong, 8, "\n  ", 150))
    return {name: array for name, array in given.items() if name not in expected}


def _differ(array: np.ndarray, given: Mapping[str, np.ndarray], name: str) -> bool:
    return name in given and not np.array_equal(array, given[name])


def _told(array: np.ndarray) -> str:
    """Return an option for a message."""
    return array.tobytes().decode(errors="replace") if array.dtype == np.uint8 else str(array.tolist())


def on_device_of(tensor: agrad.Tensor, values: np.ndarray) -> Any:
    """Return ``values`` as a new plain array on the device of the Tensor."""
    return agrad.asarray(values, backend=tensor.backend, device=tensor.device, copy=True).raw
