"""The algorithms that cuBLASLt uses for products on CuPy's arrays: chosen once, by time before a capture."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jit_help import in_threads
from refusals import fails

import agrad
from agrad.jit.lower.cuda import graphs
from agrad.jit.lower.cuda import segments as cuda_segments
from agrad.kernels.cupy import cublaslt
from agrad.kernels.cupy import products as lt_products
from agrad.kernels.cupy.cublaslt import CublasLtError
from agrad.kernels.cupy.products import Lt, product_in_capture, timing

pytestmark = pytest.mark.needs("cupy", "cuda_on_cpu")

Spied = dict[str, list[Any]]


@pytest.fixture
def lt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lt:
    """cuBLASLt that has chosen nothing yet, nor has another process."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    return Lt()


@pytest.fixture(autouse=True)
def of_agrad(lt: Lt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lt_products, "lt_of", lambda device: lt)
    monkeypatch.setattr(cuda_segments, "FEWEST", 1)


@pytest.fixture
def called(lt: Lt, monkeypatch: pytest.MonkeyPatch) -> Spied:
    """The arguments of all calls of cuBLASLt, by function."""
    found: Spied = {name: [] for name in lt.library.call}

    def spied(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            found[name].append(given)
            return function(*given)

        call.__name__ = function.__name__
        return call

    for name, function in dict(lt.library.call).items():
        monkeypatch.setitem(lt.library.call, name, spied(name, function))
    return found


def used(called: Spied) -> list[int]:
    """Return the numbers of the emulated algorithms of all products, and forget them."""
    numbers = [int(given[12]._obj.algorithm[2]) for given in called["Matmul"]]
    called["Matmul"].clear()
    return numbers


def chosen(lt: Lt) -> list[int]:
    """Return the numbers of the algorithms that are kept."""
    return [int(choice.algorithm[2]) for plan in lt.plans.values() for choice, _ in plan.choices.values()]


def failing(lt: Lt, monkeypatch: pytest.MonkeyPatch, failures: dict[int, int]) -> None:
    """Let algorithms fail: the statuses by their numbers."""
    call = lt.library.call["Matmul"]

    def run(*given: Any) -> Any:
        status = failures.get(int(given[12]._obj.algorithm[2]))
        return call(*given) if status is None else lt.library.fail("cublasLtMatmul", status)

    monkeypatch.setitem(lt.library.call, "Matmul", run)


def factors(*shapes: tuple[int, ...]) -> list[Any]:
    import cupy

    rng = np.random.default_rng(0)
    return [cupy.asarray(rng.normal(size=shape).astype(np.float32)) for shape in shapes]


def check(found: Any, x: Any, w: Any, bias: Any = 0.0) -> None:
    right = x.get() @ w.get() + (bias if isinstance(bias, float) else bias.get())
    np.testing.assert_allclose(found[0].get(), right, rtol=1e-5, atol=1e-5)


EACH_TIMED = [number for number in range(3) for _ in range(1 + lt_products.REPEATS)]


@pytest.mark.parametrize("fastest", [0, 1, 2])
def test_the_fastest_is_kept(lt: Lt, called: Spied, monkeypatch: pytest.MonkeyPatch, fastest: int) -> None:
    """The second of the three needs workspace."""
    monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", str(fastest))
    x, w, bias = factors((4, 3), (3, 5), (5,))
    with timing():
        check(lt.attempt(x, w, bias), x, w, bias)
        assert used(called) == [*EACH_TIMED, fastest]
        check(lt.attempt(x, w, bias), x, w, bias)
    check(lt.attempt(x, w, bias), x, w, bias)
    assert used(called) == [fastest, fastest]
    assert len(called["MatmulAlgoGetHeuristic"]) == 1


def test_another_process_uses_the_algorithm_that_was_chosen(
    lt: Lt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also after two processes chose at once, of which the first one to write counts."""
    x, w, bias = factors((4, 3), (3, 5), (5,))
    others = [Lt(), Lt()]
    get, answers = others[0].kept.get, iter([None])
    # at first, when the other one has not written yet
    monkeypatch.setattr(others[0].kept, "get", lambda *product: next(answers, get(*product)))
    for one, fastest in ((lt, 2), (others[0], 1)):
        monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", str(fastest))
        with timing():
            check(one.attempt(x, w, bias), x, w, bias)
    monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", "0")
    with timing():
        others[1].attempt(x, w, bias)
        others[1].attempt(x, w)
    assert [chosen(one) for one in (lt, *others)] == [[2], [2], [2, 0]]
    (file,) = tmp_path.iterdir()
    assert len(file.read_text().split()) == 6


@pytest.mark.parametrize("text", ["", "x", "\xff\n1 2\n", "cut 00"])
def test_a_file_of_algorithms_that_is_spoilt_or_cannot_be_written_is_no_error(
    lt: Lt, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", "1")
    x, w = factors((4, 3), (3, 5))
    assert lt.kept.file is not None
    lt.kept.file.write_text(text, "latin-1")
    with timing():
        check(lt.attempt(x, w), x, w)
    monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", "2")
    second, third = Lt(), Lt()
    third.kept.file = tmp_path  # a folder
    with timing():
        for other, kept in ((second, 1), (third, 2)):
            check(other.attempt(x, w), x, w)
            assert chosen(other) == [kept]
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    assert Lt().kept.file is None


def test_an_algorithm_must_be_clearly_faster_than_a_better_estimate(lt: Lt, monkeypatch: pytest.MonkeyPatch) -> None:
    for rows, last, kept in ((4, 0.94, 2), (2, 0.96, 0)):
        times = iter([1.0, 0.97, last])
        monkeypatch.setattr(lt_products, "milliseconds", lambda launch, times=times: next(times))
        with timing():
            lt.attempt(*factors((rows, 3), (3, 5)))
        ((choice, final),) = list(lt.plans.values())[-1].choices.values()
        assert (choice.algorithm[2], final) == (kept, True)


def test_a_repeated_product_is_one_call_of_cublaslt(lt: Lt, called: Spied) -> None:
    x, w, bias, other = factors((4, 3), (3, 5), (5,), (5,))
    lt.attempt(x, w, bias)
    for calls in called.values():
        calls.clear()
    check(lt.attempt(x, w, bias), x, w, bias)
    assert {name: len(calls) for name, calls in called.items() if calls} == {"Matmul": 1}
    check(lt.attempt(x, w, other), x, w, other)
    assert {name: len(calls) for name, calls in called.items() if calls} == {"Matmul": 2, "MatmulDescSetAttribute": 1}
    check(lt.attempt(x, w, bias), x, w, bias)


def test_each_kind_of_product_and_each_alignment_has_its_own(lt: Lt, called: Spied) -> None:
    (held,) = factors((200,))
    x, w = factors((4, 3), (3, 5))
    bias = held[:5]
    given: list[tuple[Any, ...]] = [
        (x, w),
        (held[1:13].reshape(4, 3), w),
        (x, held[2:17].reshape(3, 5)),
        (x, w, bias),
        (x, w, held[1:6]),
        (held[:12].reshape(3, 4).T, w),
        (held[:24].reshape(4, 6)[:, :3], w),
    ]
    for count, operands in enumerate(given, 1):
        for _ in range(2):
            check(lt.attempt(*operands), *operands)
        assert len(called["MatmulAlgoGetHeuristic"]) == count
    assert len(lt.plans) == 4
    lt.attempt(x, w, tensor_float=True)
    lt.attempt(x.astype("e"), w.astype("e"), dtype=np.dtype("float32"))
    assert len(lt.plans) == 6


def test_nothing_is_timed_without_being_asked_for(lt: Lt, called: Spied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", "2")
    x, w = factors((4, 3), (3, 5))
    lt.attempt(x, w)
    with monkeypatch.context() as patch:
        patch.setenv("AGRAD_TIME_PRODUCTS", "0")
        with timing():
            lt.attempt(x, w)
    assert used(called) == [0, 0]
    assert len(called["MatmulAlgoGetHeuristic"]) == 1
    with timing():  # what was chosen without timing is chosen anew
        lt.attempt(x, w)
    lt.attempt(x, w)
    assert used(called) == [*EACH_TIMED, 2, 2]


def test_another_threads_products_are_not_timed(lt: Lt, called: Spied) -> None:
    x, w = factors((4, 3), (3, 5))
    with timing():
        thread = threading.Thread(target=lt.attempt, args=(x, w))
        thread.start()
        thread.join()
    assert used(called) == [0]


def test_nothing_waits_in_a_capture(
    lt: Lt, called: Spied, monkeypatch: pytest.MonkeyPatch, cuda_on_cpu: Any, cupy: Any
) -> None:
    monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", "2")
    x, w = factors((4, 3), (3, 5))
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.synchronize()
    before = cuda_on_cpu.counts().syncs
    with stream, timing():
        stream.begin_capture()
        found = lt.attempt(x, w)
        graph = stream.end_capture()
    assert cuda_on_cpu.counts().syncs == before
    assert used(called) == [0]
    graph.launch(stream)
    check(found, x, w)
    with timing():
        lt.attempt(x, w)
    assert used(called) == [*EACH_TIMED, 2]


def test_a_refusal_in_a_capture_is_not_remembered(lt: Lt, monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    monkeypatch.setenv("CUPY_ON_CPU_LT_IN_CAPTURE", "0")
    x, w = factors((4, 3), (3, 5))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        assert lt.attempt(x, w) is None
        stream.end_capture()
    assert not lt.refused
    check(lt.attempt(x, w), x, w)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(
    ("failures", "kept"), [({0: 13}, 1), ({0: 15, 1: 14}, 2), ({0: cublaslt.ALLOC_FAILED}, 1), ({1: 13, 2: 13}, 0)]
)
def test_an_algorithm_that_fails_is_left_out(
    lt: Lt, called: Spied, monkeypatch: pytest.MonkeyPatch, timed: bool, failures: dict[int, int], kept: int
) -> None:
    failing(lt, monkeypatch, failures)
    monkeypatch.setattr(lt_products, "milliseconds", lambda launch: launch() or 1.0)
    monkeypatch.setattr(lt_products._TIMING, "wanted", timed)
    x, w = factors((4, 3), (3, 5))
    check(lt.attempt(x, w), x, w)
    used(called)
    check(lt.attempt(x, w), x, w)
    assert used(called) == [kept]
    assert not lt.refused


@pytest.mark.parametrize("timed", [False, True])
def test_where_all_fail_the_product_is_refused_unless_memory_is_short(
    lt: Lt, monkeypatch: pytest.MonkeyPatch, timed: bool
) -> None:
    monkeypatch.setattr(lt_products._TIMING, "wanted", timed)
    x, w = factors((4, 3), (3, 5))
    with monkeypatch.context() as patch:
        failing(lt, patch, {0: 13, 1: cublaslt.ALLOC_FAILED, 2: 15})
        fails(CublasLtError, r"cublasLtMatmul: .*\(3\)", lt.attempt, x, w)
    assert not lt.refused
    with monkeypatch.context() as patch:
        failing(lt, patch, {0: 13, 1: 13, 2: 15})
        assert lt.attempt(x, w) is None
    assert list(lt.refused.values()) == ["cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED (13)"]


def test_an_algorithm_without_memory_for_its_workspace_is_left_out(
    lt: Lt, called: Spied, monkeypatch: pytest.MonkeyPatch, cupy: Any
) -> None:
    monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", "1")
    x, w = factors((4, 3), (3, 5))
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=2048)
    with cupy.cuda.using_allocator(pool.malloc), timing():
        check(lt.attempt(x, w), x, w)
        assert set(used(called)) == {0, 2}
        failing(lt, monkeypatch, {0: 13, 2: 13})
        fails(cupy.cuda.memory.OutOfMemoryError, "Out of memory", lambda: lt.attempt(x[1:], w))
    assert not lt.refused


def test_the_device_waits_until_all_timed_launches_are_queued(lt: Lt, cuda_on_cpu: Any) -> None:
    x, w = factors((4, 3), (3, 5))
    with timing():
        lt.attempt(x[1:], w)  # compiles the kernel
        lines = cuda_on_cpu.trace(lambda: lt.attempt(x, w))
    product = "cublasLt DEFAULT m5 n4 k3"
    each = [product, "delay <<<1, 1>>>", *[product] * lt_products.REPEATS, "eventSynchronize"]
    assert [line for line in lines if not line.startswith("malloc")] == [*each * 3, product]


def test_an_estimate_with_an_error_is_left_out(lt: Lt, called: Spied, monkeypatch: pytest.MonkeyPatch) -> None:
    choose, states = lt.library.call["MatmulAlgoGetHeuristic"], [15, 0, 0]

    def with_states(*given: Any) -> None:
        choose(*given)
        for choice, state in zip(given[8], states, strict=False):
            choice.state = state

    with_states.__name__ = choose.__name__
    monkeypatch.setitem(lt.library.call, "MatmulAlgoGetHeuristic", with_states)
    x, w = factors((4, 3), (3, 5))
    check(lt.attempt(x, w), x, w)
    assert used(called) == [1]
    states[:] = [7, 15, 15]
    assert lt.attempt(x[1:], w) is None
    assert list(lt.refused.values()) == ["cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_INVALID_VALUE (7)"]


def test_the_oldest_descriptions_are_deleted(lt: Lt, called: Spied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lt_products, "KEPT", 2)
    for m in (1, 2, 3, 4):
        lt.attempt(*factors((m, 3), (3, 5)))
    assert [key[5][0] for key in lt.plans] == [3, 4]
    gone = {name: len(calls) for name, calls in called.items() if name.endswith("Destroy")}
    assert gone == {"MatmulDescDestroy": 2, "MatrixLayoutDestroy": 6, "MatmulPreferenceDestroy": 4}


def test_threads_may_multiply_at_once(lt: Lt) -> None:
    """A description has the address of one bias at a time."""
    x, w, *biases = factors((4, 3), (3, 5), *[(5,)] * 4)

    def work(k: int) -> None:
        for _ in range(30):
            check(lt.attempt(x, w, biases[k]), x, w, biases[k])

    in_threads(work, len(biases))


# ------------------------------------------------------------------ programs


@pytest.mark.parametrize("setting", [None, "0"])
def test_a_jitted_product_is_timed_in_the_first_run(
    called: Spied, monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", "1")
    if setting is not None:
        monkeypatch.setenv("AGRAD_TIME_PRODUCTS", setting)
    x, w, bias = factors((4, 3), (3, 5), (5,))
    f = agrad.jit(lambda x: agrad.linear(x, w, bias))
    kept = 1 if setting is None else 0
    traced = [0]  # a trace computes as an eager call does, without timing
    for runs in ([*traced, *EACH_TIMED, kept] if setting is None else [*traced, kept], [kept], []):
        check([f(x)], x, w, bias)
        assert used(called) == runs
    assert "graph:" in f.lower(x).code


@pytest.mark.parametrize("fastest", [0, 2])
def test_a_layout_that_only_a_capture_has_gets_its_algorithm_before(
    lt: Lt, called: Spied, monkeypatch: pytest.MonkeyPatch, fastest: int
) -> None:
    """Rows with gaps are copied into a buffer without gaps, and so is a vector at an odd address."""
    monkeypatch.setenv("CUPY_ON_CPU_LT_IN_CAPTURE", "0")
    monkeypatch.setenv("CUPY_ON_CPU_LT_FASTEST", str(fastest))
    w, *wide = factors((3, 5), (4, 8), (4, 8), (4, 8), (4, 8))
    f = agrad.jit(lambda x, bias: agrad.tanh(agrad.relu(agrad.linear(x, w, bias))) @ w.T)
    for one in wide:
        x, bias = one[:, :3], one.reshape(-1)[1:6]
        right = np.tanh(np.maximum(x.get() @ w.get() + bias.get(), 0)) @ w.get().T
        np.testing.assert_allclose(f(x, bias).get(), right, rtol=1e-5, atol=1e-5)
        if one is wide[0]:
            called["Matmul"].clear()
            plans = set(lt.plans)
    assert set(lt.plans) > plans
    assert "graph:" in (code := f.lower(x, bias).code)
    assert "between graphs" not in code
    assert not lt.refused
    assert used(called)[-2:] == [fastest, fastest]


def test_products_without_an_algorithm_do_not_retry_a_capture_for_ever(lt: Lt, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = lt_products.Plan._choose

    def forgotten(plan: Any, *given: Any) -> Any:
        lt.plans.clear()
        return choose(plan, *given)

    monkeypatch.setattr(graphs, "CHOICES", 3)
    monkeypatch.setattr(lt_products.Plan, "_choose", forgotten)
    x, w = factors((4, 3), (3, 5))
    f = agrad.jit(lambda x: agrad.cos(agrad.tanh(x) @ w))
    for _ in range(3):
        np.testing.assert_allclose(f(x).get(), np.cos(np.tanh(x.get()) @ w.get()), rtol=1e-5)
    assert "could not be captured: Unchosen: " in f.lower(x).code


def test_products_of_convolutions_are_timed_before_a_capture(lt: Lt, called: Spied) -> None:
    x, w = factors((4, 3), (3, 5))
    check([product_in_capture(x, w)], x, w)
    assert not lt.plans
    with timing():
        check([product_in_capture(x, w)], x, w)
    assert used(called) == [*EACH_TIMED, 0]
