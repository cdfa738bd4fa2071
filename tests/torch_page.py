"""Write ``docs/reference/pytorch_names.md``: the names of PyTorch, and which of them agrad has.

    python tests/torch_page.py

Whether a name is there, and which arguments it lacks, is read from both packages. What else differs, and why something
is missing, stands here; a reason for a name that agrad has is not shown.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agrad

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "pytorch_names.md"
SPACES = {
    "torch.nn": "agrad.nn",
    "torch.nn.functional": "agrad.nn.functional",
    "torch.nn.init": "agrad.nn.init",
    "torch.nn.utils": "agrad.nn.utils",
    "torch.optim": "agrad.optim",
    "torch.optim.lr_scheduler": "agrad.optim.lr_scheduler",
    "torch.utils.data": "agrad.data",
}
DEPRECATED = {"size_average", "reduce", "min_value", "max_value"}
ELSEWHERE = {"self", "args", "kwargs", "inplace", "name", "generator", "device", "dtype", "out",
             "_weight", "_freeze", "_stacklevel", "foreach", "fused", "capturable", "differentiable"}  # fmt: skip
"""Arguments for what agrad has in one form: how a step is computed, where arrays are born and are written to."""
HELPERS = {"boolean_dispatch", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
           "has_torch_function_variadic", "Callable", "Optional", "DType", "Tensor",
           "native_channel_shuffle"}  # fmt: skip
"""Names in PyTorch's modules that are no functions of it."""

DIFFERS = {
    "torch.nn": {
        "Buffer": "creates a Tensor, not a subclass",
        "Dropout": "each mask is a function of a seed and the call count, which `state_dict` contains",
        "GRU LSTM RNN": "`lengths=` instead of packed sequences",
        "Linear": "`weight` is (in_features, out_features); `load_torch_state_dict` transposes it",
        "Module": "modules and parameters are also found in lists, tuples and dicts; `state_dict` returns NumPy "
        'arrays; `to` accepts a backend: `to("cupy")` instead of `cuda()`',
        "MultiheadAttention": "a query without a key returns zeros, also with `need_weights`",
        "Parameter": "creates a Tensor, not a subclass",
    },
    "torch.nn.functional": {
        "ctc_loss": "the derivative with respect to `log_probs` is correct without a `log_softmax` before it",
        "grid_sample": "the result at a point that is NaN is NaN",
    },
    "torch.nn.init": {
        "kaiming_normal_ kaiming_uniform_ xavier_normal_ xavier_uniform_": "a 2-D weight has shape (inputs, outputs), "
        "as in `Linear`",
        "kaiming_normal kaiming_uniform normal uniform xavier_normal xavier_uniform": "returns an array for a shape; "
        "deprecated in PyTorch",
    },
    "torch.nn.utils": {
        "clip_grad_norm_": "gradients are replaced, not written into",
        "clip_grad_value_": "gradients are replaced, not written into",
    },
    "torch.utils.data": {"DataLoader": "threads instead of processes, `seed=` instead of `generator`"},
}
"""What signatures do not show, by section and names."""
MISSING = {
    "torch.nn": {
        "DataParallel": "agrad runs on one device",
        "UninitializedBuffer UninitializedParameter": "you specify shapes when you create a module",
        "AdaptiveLogSoftmaxWithLoss FractionalMaxPool2d FractionalMaxPool3d": "rarely used",
        "Container": "deprecated in PyTorch",
    },
    "torch.nn.functional": {
        "conv_tbc": "write `conv1d` with permuted axes",
        "assert_int_or_pair": "internal to PyTorch",
    },
    "torch.nn.init": {},
    "torch.nn.utils": {
        "spectral_norm remove_spectral_norm weight_norm remove_weight_norm": "no "
        "parametrizations; compute the weight in `forward`",
        "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format": "the array library determines the "
        "memory order",
        "skip_init": "initial values are cheap",
        "clip_grad_norm": "deprecated in PyTorch",
    },
    "torch.optim": {
        "SparseAdam": "agrad has no sparse gradients",
        "swap_in_optimizer_params_and_state": "internal to PyTorch",
    },
    "torch.optim.lr_scheduler": {},
    "torch.utils.data": {
        "DFIterDataPipe DataChunk IterDataPipe MapDataPipe functional_datapipe guaranteed_datapipes_determinism "
        "non_deterministic argument_validation runtime_validation runtime_validation_disabled": "data pipes, which "
        "PyTorch no longer develops",
        "DistributedSampler": "agrad runs on one device",
    },
}
"""Why names are missing, by section and names."""


def reason(table: dict[str, str], name: str) -> str:
    return next((text for names, text in table.items() if name in names.split()), "")


def why_missing(section: str, name: str) -> str:
    """Return the reason for a missing name, "" where there is none but that it is not written."""
    given = reason(MISSING[section], name)
    if not given and section == "torch.nn" and name.startswith("Lazy"):
        return "you specify shapes when you create a module"
    if not given and section == "torch.nn.functional" and name.endswith("_"):
        return "agrad never writes into arrays: write `x = relu(x)`"
    if not given and section == "torch.nn.init" and not name.endswith("_") and name != "calculate_gain":
        return "deprecated in PyTorch"
    if not given and section == "torch.nn.utils" and name.startswith("fuse_"):
        return "`agrad.jit` fuses what pays"
    return given


def public(section: str) -> list[str]:
    """Return the public names of a module of PyTorch's, without its submodules."""
    module = importlib.import_module(section)
    names = getattr(module, "__all__", None) or dir(module)
    if section == "torch.nn":
        names = [name for name in names if inspect.isclass(getattr(module, name))]
    values = {name: getattr(module, name) for name in names if not name.startswith("_") and name not in HELPERS}
    is_function = section != "torch.nn.functional"
    kept = [name for name, value in values.items() if not inspect.ismodule(value) and (is_function or callable(value))]
    return sorted(kept, key=lambda name: (name.lower(), name))


def space(section: str) -> Any:
    """Return agrad's module of a section; schedules may stand among the optimizers."""
    try:
        return importlib.import_module(SPACES[section])
    except ModuleNotFoundError:
        return importlib.import_module(SPACES[section].rpartition(".")[0])


def options(thing: Any) -> dict[str, Any] | None:
    """Return the arguments of a function or class, by name; None if its signature is unknown or open."""
    try:
        found = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing).parameters
    except (TypeError, ValueError):
        return None
    if "boolean_dispatch" in str(getattr(thing, "__qualname__", "")):
        return None
    return dict(found)


def lacks(theirs: Any, mine: Any) -> list[str]:
    """Return the optional arguments of PyTorch's function that agrad's has not."""
    wanted, found = options(theirs), options(mine)
    if wanted is None or found is None or any(p.kind is p.VAR_KEYWORD for p in found.values()):
        return []
    given = [name for name, p in wanted.items() if p.default is not p.empty]
    return [name for name in given if name not in {*found, *ELSEWHERE, *DEPRECATED}]


def table(heading: str, rows: dict[str, str]) -> Iterator[str]:
    if rows:
        two = any(rows.values())
        yield f"\n| {heading} | |\n|---|---|\n" if two else f"\n| {heading} |\n|---|\n"
        yield from (f"| {names} | {text} |\n" if two else f"| {names} |\n" for names, text in rows.items())


def section_of(section: str) -> Iterator[str]:
    """Yield the lines of a section."""
    theirs, mine = importlib.import_module(section), space(section)
    has: list[str] = []
    differs: dict[str, str] = {}
    missing: dict[str, list[str]] = {}
    for name in public(section):
        if not hasattr(mine, name):
            missing.setdefault(why_missing(section, name), []).append(f"`{name}`")
            continue
        absent = lacks(getattr(theirs, name), getattr(mine, name))
        texts = ["without " + ", ".join(f"`{option}`" for option in absent)] if absent else []
        texts += [text] if (text := reason(DIFFERS.get(section, {}), name)) else []
        if texts:
            differs[f"`{name}`"] = "; ".join(texts)
        else:
            has.append(f"`{name}`")
    count = sum(map(len, missing.values()))
    total = len(has) + len(differs) + count
    yield f"\n## `{section}`\n\n"
    yield f"{total} names: {len(has)} as in PyTorch, {len(differs)} differ, {count} missing.\n"
    yield from table("as in PyTorch", {", ".join(has): ""} if has else {})
    yield from table("differs", differs)
    yield from table("missing", {", ".join(names): text for text, names in sorted(missing.items(), reverse=True)})


def page() -> str:
    """Return the page: its present text, of the version of PyTorch that is here, and new tables."""
    import torch

    head = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    head = re.sub(r"(?<=names of PyTorch )\S+", torch.__version__.partition("+")[0], head)
    return head + "".join(line for section in SPACES for line in section_of(section))


if __name__ == "__main__":
    agrad.set_backend("numpy")
    PAGE.write_text(page(), encoding="utf-8")
