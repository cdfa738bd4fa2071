"""Other libraries' functions on Tensors: some of each page's calls tried again, and pages held to their samples."""

import functools
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import ecosystem_page
import numpy as np
import pytest
from ecosystem import trial
from processes import run_program
from refusals import fails

import agrad

FOLDER = ecosystem_page.FOLDER
TESTS = Path(__file__).parents[1]
ROW = re.compile(r"\| `(.+?)` \| (works|constant|raises|wrong)(?:: .*)? \|")
IN_PROCESS = (
    "einops", "opt_einsum", "array_api_extra", "xarray", "autoray", "cotengra", "einx", "batch_tensorsolve", "pandas",
)  # fmt: skip
"""Libraries whose samples need no setting in the environment."""


def needing(*cases: Any) -> list[Any]:
    """Parameters, each marked with the library that it names or that stands first in it."""
    return [
        pytest.param(*values, marks=pytest.mark.needs(values[0]))
        for values in [(case,) if isinstance(case, str) else case for case in cases]
    ]


def rows(library: str) -> dict[str, str]:
    text = (FOLDER / f"{library}.md").read_text(encoding="utf-8")
    return dict(ROW.findall(text.partition(ecosystem_page.MIXED)[0]))


def at_the_pages_version(library: str, *values: Any) -> Any:
    """Parameters of a test that says what the page says, which is that of one version of the library."""
    marks = [pytest.mark.needs(library)]
    if importlib.util.find_spec(library) is not None and not same_version(library):
        marks.append(pytest.mark.skip(reason=f"the page is of another version of {library} than is installed"))
    return pytest.param(library, *values, marks=marks)


def same_version(library: str) -> bool:
    version = importlib.metadata.version(ecosystem_page.LIBRARIES[library])
    return f"## {ecosystem_page.LIBRARIES[library]} {version}\n" in (FOLDER / f"{library}.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("library", ecosystem_page.LIBRARIES)
def test_the_page_counts_its_rows_and_has_nothing_wrong(library: str) -> None:
    text = (FOLDER / f"{library}.md").read_text(encoding="utf-8")
    found = list(rows(library).values())
    counts = re.search(r"(\d+) calls: (\d+) work, (\d+) are constant, (\d+) raise an error, (\d+) are wrong", text)
    assert counts is not None
    assert [int(n) for n in counts.groups()] == [len(found), *(found.count(kind) for kind in ecosystem_page.KINDS)]
    assert int(counts[2]) > 0
    assert found.count("wrong") == 0
    assert text.startswith(ecosystem_page.head(library) + "\n\n## ")


@functools.cache
def verdicts(library: str, backend: str) -> dict[str, Any]:
    """What comes of a library's samples, by title; beside NumPy of each fourth."""
    samples = ecosystem_page.samples_of(library).SAMPLES
    return {s.title: trial.trial(s, backend) for s in (samples if backend == "numpy" else samples[::4])}


def example(library: str) -> str:
    text = (FOLDER / f"{library}.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    return found


@pytest.mark.parametrize(
    "library", needing("einops", "opt_einsum", "xarray", "autoray", "cotengra", "einx", "batch_tensorsolve", "pandas")
)
def test_the_example_of_a_page_runs(library: str) -> None:
    scope: dict[str, Any] = {}
    with agrad.use_backend("numpy"):
        exec(compile(example(library), f"{library}.md", "exec"), scope)
    leaves = [value for value in scope.values() if isinstance(value, agrad.Tensor) and value.grad is not None]
    assert leaves


@pytest.mark.parametrize("library", needing("sklearn", "scipy"))
def test_the_example_of_a_page_sets_what_it_needs(library: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SCIPY_ARRAY_API"}
    code = example(library) + "\nassert x.grad is not None\n"
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=TESTS.parent, check=True)


@pytest.mark.parametrize("library", needing(*IN_PROCESS))
def test_samples_on_every_backend(library: str, backend: str) -> None:
    found = verdicts(library, backend)
    assert list(found) == list(rows(library))[:: 1 if backend == "numpy" else 4]
    assert not {title: verdict for title, verdict in found.items() if verdict.kind == "wrong"}


@pytest.mark.parametrize("library", [at_the_pages_version(library) for library in IN_PROCESS])
def test_the_page_says_what_comes_of_the_samples(library: str) -> None:
    assert {title: verdict.kind for title, verdict in verdicts(library, "numpy").items()} == rows(library)


@pytest.mark.parametrize("library", [at_the_pages_version(library) for library in IN_PROCESS])
def test_the_page_says_what_comes_of_raw_arrays(library: str) -> None:
    samples = ecosystem_page.samples_of(library)
    with agrad.use_backend("numpy"):
        found = ecosystem_page.mixed_verdicts(samples, trial, verdicts(library, "numpy"))
    assert not [pair for pair in found.values() for verdict in pair if verdict.kind == "wrong"]
    text = (FOLDER / f"{library}.md").read_text(encoding="utf-8")
    assert "\n".join(ecosystem_page.mixed_lines(found)) in text


@pytest.mark.parametrize(
    ("library", "parts"),
    [
        at_the_pages_version("scipy", ("stats.t", "integrate", "special.e")),
        at_the_pages_version("sklearn", ("PCA", "Ridge.")),
    ],
)
def test_samples_that_need_a_setting(library: str, parts: tuple[str, ...]) -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    only = [word for part in parts for word in ("--only", part)]
    done = subprocess.run(
        [sys.executable, str(TESTS / "ecosystem_page.py"), library, *only, "--verdicts"],
        env=environment, capture_output=True, text=True, cwd=TESTS.parent, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = dict(ROW.findall(done.stdout))
    for part in parts:
        assert sum(part in title for title in found) > 3
    listed = rows(library)
    assert found == {title: kind for title, kind in listed.items() if any(part in title for part in parts)}


def test_a_wrong_value_a_wrong_derivative_and_a_detached_result_are_found_out() -> None:
    x = np.asarray([0.3, 0.7])

    def verdict(on_tensors: Any, on_arrays: Any = lambda a: a * a) -> str:
        return trial.trial(
            trial.Sample("f", lambda a: on_tensors(a) if isinstance(a, agrad.Tensor) else on_arrays(a), (x,))
        ).kind

    assert verdict(lambda t: t * t) == "works"
    assert verdict(lambda t: t * t + 1e-6) == "wrong"
    assert verdict(lambda t: (t * t).detach()) == "wrong"
    assert verdict(lambda t: 2 * t * t - (t * t).detach()) == "wrong"
    assert verdict(lambda t: t.detach().numpy() ** 2) == "wrong"
    assert verdict(lambda t: float(t[0])) == "raises"
    assert verdict(lambda t: t > 0.5, lambda a: a > 0.5) == "constant"
    assert verdict(lambda t: t + agrad.sqrt(0 * t), lambda a: a) == "wrong"  # a derivative of nan


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_sample_with_a_result_that_is_not_finite_is_no_sample(bad: float) -> None:
    """Its gradient would have to be guarded, and the guard would hide what a user of the call gets."""

    def call(a: Any) -> Any:
        return a * np.asarray([1.0, bad])

    x = np.asarray([0.3, 0.7])
    fails(ValueError, "result 0 is not finite", lambda: trial.trial(trial.Sample("f", call, (x,))))
    assert trial.trial(trial.Sample("f", lambda a: call(a)[:1], (x,))).kind == "wrong"  # nothing guards the gradient


@pytest.mark.needs("einops")
@pytest.mark.parametrize("first", ["agrad", "einops"])
def test_einops_knows_tensors_whichever_is_imported_first(first: str) -> None:
    second = "einops" if first == "agrad" else "agrad"
    code = (
        f"import {first}, {second}\n"
        "x = agrad.asarray([[1.0, 2.0]], requires_grad=True)\n"
        "assert einops.rearrange(x, 'a b -> b a').requires_grad\n"
    )
    run_program(code, strict=True)


@pytest.mark.needs("einops")
def test_a_library_that_has_changed_is_imported_all_the_same() -> None:
    code = (
        "import warnings, agrad.arrival\n"
        "agrad.arrival.BACKEND = 'agrad.interop.no_such_module'\n"
        "with warnings.catch_warnings(record=True) as heard:\n"
        "    warnings.simplefilter('always')\n"
        "    import einops\n"
        "assert 'does not know this version of einops' in str(heard[-1].message)\n"
    )
    run_program(code)


def test_import_agrad_imports_none_of_them() -> None:
    code = (
        "import sys, agrad\n"
        f"assert not {set(ecosystem_page.LIBRARIES)} & set(sys.modules)\n"
        "assert 'agrad.interop.numpy' not in sys.modules\n"
    )
    run_program(code)


def test_the_methods_of_numpys_arrays(backend: str, place: Any) -> None:
    a = np.asarray([[0.3, -1.2, 2.0], [1.5, 0.4, -0.7]])
    calls: dict[str, tuple[Any, ...]] = {
        "sum": (), "mean": (1,), "std": (0,), "var": (0,), "min": (1,), "max": (1,), "prod": (0,),
        "cumsum": (1,), "cumprod": (1,),
        "reshape": (3, 2), "ravel": (), "flatten": (),
        "transpose": (1, 0), "swapaxes": (0, 1), "clip": (-0.5, 0.5), "take": ([2, 0], 1), "repeat": (2, 0), "conj": (),
        "copy": (), "diagonal": (), "trace": (), "dot": (a.T,), "astype": (np.float32,), "squeeze": (),
    }  # fmt: skip
    for name, args in calls.items():
        t = agrad.asarray(place(a), requires_grad=True)
        given = tuple(agrad.asarray(place(v)) if isinstance(v, np.ndarray) else v for v in args)
        result = getattr(t, name)(*given)
        assert result.requires_grad, name
        assert result.backend == backend
        np.testing.assert_allclose(result.detach().numpy(), getattr(a, name)(*args), rtol=1e-6, err_msg=name)
    z = agrad.asarray(place(a + 1j * a[::-1]), requires_grad=True)
    np.testing.assert_allclose(z.real.detach().numpy(), a)
    np.testing.assert_allclose(z.imag.detach().numpy(), a[::-1])
    t = agrad.asarray(place(a))
    assert t.real is t
    assert not t.imag.numpy().any()
    for name in ("any", "all", "argmax", "argmin", "argsort", "round"):
        np.testing.assert_array_equal(getattr(t, name)().numpy(), getattr(a, name)())
    assert t.reshape((3, -1)).shape == t.reshape(3, -1).shape == (3, 2)
    assert t.T.shape == t.transpose().shape == t.transpose((1, 0)).shape == (3, 2)


def test_methods_that_write_and_those_that_copy(place: Any) -> None:
    a = np.asarray([[0.3, -1.2, 2.0], [1.5, 0.4, -0.7]])

    def sorted_and_filled(x: Any) -> Any:
        x = x * 1.0
        x.sort(0)
        row = x[0]
        row.fill(x[1, 0])
        flat = x.flatten()
        flat[0] = 7.0
        same, other = x.astype(x.dtype, copy=False), x.astype(np.float64)
        assert same is x and other is not x
        other.fill(7.0)
        return x

    leaf = agrad.asarray(place(a), requires_grad=True)
    found = sorted_and_filled(leaf)
    assert found.tolist() == [[1.5] * 3, [1.5, 0.4, 2.0]]
    agrad.sum(found * place(np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))).backward()
    assert leaf.grad.tolist() == [[0.0, 0.0, 6.0], [10.0, 5.0, 0.0]]
    fails(agrad.errors.RefusedFunctionError, r"got 1\. Write x\.reshape", lambda: leaf.flatten(1))
    fails(TypeError, "same_kind", lambda: leaf.astype(np.int64, casting="same_kind"))
    fails(agrad.errors.LeafMutationError, r"x\[i\] = v must not change a leaf .* under agrad\.no_grad\(\)", leaf.sort)
    with pytest.raises(
        agrad.errors.TracedValueError,
        match=r"tolist\(\) must not be called on a value that vmap maps over.*agrad\.where",
    ):
        agrad.vmap(lambda x: x.tolist())(place(a))


@pytest.mark.needs("torch")
def test_a_device_of_another_library_names_that_library() -> None:
    import torch

    like = agrad.asarray(torch.ones(2))
    for made in (
        agrad.asarray(np.ones(2), device=like.device),
        agrad.asarray([1.0, 2.0], device=like.device),
        agrad.zeros(2, device=like.device),
        agrad.full(2, 3.0, device=like.device),
        agrad.arange(2, device=like.device),
    ):
        assert made.backend == "torch"
    leaf = agrad.asarray(np.ones(2), requires_grad=True)
    agrad.sum(agrad.asarray(leaf * 2, device=like.device)).backward()
    assert leaf.grad.backend == "numpy"
    assert agrad.asarray(np.ones(2), device="cpu").backend == "numpy"


def test_distinct_values_carry_their_derivative(backend: str, place: Any) -> None:
    a = np.asarray([3.0, 1.0, 3.0, 2.0])
    for name in ("unique_values", "unique_counts", "unique_inverse", "unique_all"):
        t = agrad.asarray(place(a), requires_grad=True)
        found = getattr(agrad, name)(t)
        values = found if name == "unique_values" else found.values
        agrad.sum(values * values).backward()
        np.testing.assert_allclose(t.grad.numpy(), [6.0, 2.0, 0.0, 4.0])
        if name == "unique_counts":
            assert sorted(found.counts.numpy().tolist()) == [1, 1, 2]
    tangent = agrad.jvp(agrad.unique_values, (place(a),), (place(np.asarray([1.0, 10.0, 100.0, 1000.0])),))[1]
    assert sorted(agrad.asarray(tangent).numpy().tolist()) == [1.0, 10.0, 1000.0]
