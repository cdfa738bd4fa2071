"""The launches of a training step on CuPy, counted on the emulated CUDA: they are part of what agrad promises."""

import itertools
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from call_counts import counted

import agrad
from agrad import nn, optim
from agrad.kernels.cupy import products
from bench import launches

pytestmark = pytest.mark.needs("cupy", "cuda_on_cpu")

SIZES, ROWS = (784, 256, 128, 10), 16
WARM = 4
"""Calls until a jitted step replays: it is traced, runs plainly, is captured, and its state has settled."""

FORWARD = ["cublasLt RELU_AUX_BIAS", "cublasLt RELU_AUX_BIAS", "cublasLt BIAS", "cross_entropy"]
BACKWARD = [
    "cross_entropy_vjp",
    "cublasLt DRELU_BGRAD",
    "cublasLt BGRADA",
    "cublasLt DRELU_BGRAD",
    "cublasLt DEFAULT",
    "cublasLt DEFAULT",
]
EAGER_FORWARD = [
    *("cublasLt BIAS", "agrad_relu"),
    *("cublasLt BIAS", "agrad_relu"),
    "cublasLt BIAS",
    "cross_entropy",  # and its mean
]
EAGER_BACKWARD = [
    *("cupy_fill", "cross_entropy_vjp"),
    *("gemmEx", "gemmEx", "cupy_sum", "agrad_relu_vjp"),
    *("gemmEx", "gemmEx", "cupy_sum", "agrad_relu_vjp"),
    *("gemmEx", "cupy_sum"),
]
UPDATES = {"SGD": ["agrad_sgd_momentum_parts"], "Adam": ["agrad_adam_parts"]}
"""One launch for all parameters, as in a graph."""
NUMBERS = {"SGD": [], "Adam": ["set_numbers"]}
"""What carries the numbers of the host that change from step to step, Adam's count of steps, to the graph."""
COPIED_IN, COPIED_OUT = ["memcpy D2D"] * 2, ["memcpy D2D"]
"""The inputs, into the graph's buffers, and the loss, out of one."""


def training_step(optimizer: str, scaled: bool = False, widths: tuple[int, ...] = SIZES) -> Callable[..., Any]:
    layers: list[nn.Module] = []
    for m, n in itertools.pairwise(widths):
        layers += [nn.Linear(m, n), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    made = {
        "SGD": lambda: optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        "Adam": lambda: optim.Adam(model.parameters(), lr=1e-3),
    }[optimizer]()
    scale = optim.LossScale(made) if scaled else None

    def step(x: Any, labels: Any) -> Any:
        loss = agrad.cross_entropy(model(x), labels)
        (loss if scale is None else scale(loss)).backward()
        (made if scale is None else scale).step()
        made.zero_grad()
        return loss

    return step


def batches() -> list[tuple[Any, Any]]:
    """Four batches on the GPU."""
    rng = np.random.default_rng(0)
    given = [(rng.normal(size=(ROWS, SIZES[0])).astype(np.float32), rng.integers(0, 10, ROWS)) for _ in range(4)]
    return [tuple(agrad.asarray(a, backend="cupy") for a in pair) for pair in given]


def short(name: str) -> str:
    """A launch without its dtypes, shapes and grid; of a graph that it is one."""
    name = re.sub(r"^graphLaunch .*", "graph", name)
    name = re.sub(r" <<<.*|__.*| m\d+ n\d+ k\d+", "", name)
    return re.sub(r"^(memcpy|memset)Async", r"\1", name).strip()


def nodes_of(line: str) -> list[str]:
    """What the launch of a graph says that it holds."""
    listed = re.sub(r" <<<[^>]*>>>", "", line.partition(": ")[2])
    product = r"cublasLt \S+(?: m\d+ n\d+ k\d+)?(?: b?f16)?(?: narrow)?"
    return [short(name) for name in re.findall(rf"{product}|\S+", listed)]


def asked_of_cuda(step: Callable[..., Any]) -> tuple[list[str], list[str], dict[str, int]]:
    """What one more call of a warm step asks CUDA for, what a graph in it holds, and what is counted.

    The batch is another one than in the call before, as in training.
    """
    import cuda_on_cpu

    data = batches()
    for k in range(WARM):
        step(*data[k % 3])
    before = cuda_on_cpu.counts()
    lines = cuda_on_cpu.trace(lambda: step(*data[3]))
    after = cuda_on_cpu.counts()
    nodes = [node for line in lines if line.startswith("graphLaunch") for node in nodes_of(line)]
    counted = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
    return [short(line) for line in lines], nodes, counted


def check_nothing_waits(counted: dict[str, int]) -> None:
    """Nothing waits for the GPU, is copied from or to the host, or asks the driver for memory."""
    for name in ("syncs", "h2d", "d2h", "mallocs", "frees"):
        assert counted[name] == 0, (name, counted)


@pytest.fixture(autouse=True)
def on_cupy() -> Any:
    with agrad.use_backend("cupy"):
        yield


@pytest.mark.parametrize("optimizer", UPDATES)
def test_a_jitted_step_is_one_graph(optimizer: str) -> None:
    asked, nodes, counted = asked_of_cuda(agrad.jit(training_step(optimizer)))
    assert asked == [*COPIED_IN, *NUMBERS[optimizer], "graph", *COPIED_OUT]
    assert nodes == [*FORWARD, *BACKWARD, "updates_4"]
    assert counted["graphs"] == 1
    assert counted["launches"] == len(NUMBERS[optimizer])
    check_nothing_waits(counted)


@pytest.mark.parametrize(
    ("variable", "value", "first"),
    [
        ("LT_MASK_AT_ZERO", "1", ["cublasLt RELU_BIAS"]),
        ("LT_REFUSES", "RELU_AUX_BIAS", ["cublasLt RELU_BIAS"]),
        ("LT_REFUSES", "RELU_AUX_BIAS,RELU_BIAS", ["cublasLt DEFAULT", "cupy_add", "agrad_relu"]),
    ],
)
def test_without_cublaslts_mask_of_a_relu_a_kernel_makes_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, first: list[str]
) -> None:
    monkeypatch.setattr(products, "lt_of", cache(lambda device: products.Lt()))
    monkeypatch.setenv(f"CUPY_ON_CPU_{variable}", value)
    asked, nodes, counted = asked_of_cuda(agrad.jit(training_step("SGD")))
    assert asked == [*COPIED_IN, "graph", *COPIED_OUT]
    assert nodes == [*[*first, "agrad_positive_bits"] * 2, *FORWARD[2:], *BACKWARD, "updates_4"]
    check_nothing_waits(counted)


def test_a_step_in_float16_is_one_graph() -> None:
    """Nothing is copied but what is copied in float32: the state that steps may leave as it is stays in its place."""
    asked, nodes, counted = asked_of_cuda(agrad.jit(training_step("Adam", scaled=True), precision="float16"))
    assert asked == [*COPIED_IN, "graph", *COPIED_OUT]
    assert [name for name in nodes if name.startswith(("updates", "finish"))] == ["finish", "updates_4", "updates_4"]
    assert counted["graphs"] == 1
    check_nothing_waits(counted)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_step_in_bfloat16_rounds_all_weights_at_once(monkeypatch: pytest.MonkeyPatch, narrow: bool) -> None:
    """Where cuBLASLt adds a float32 bias before it rounds, products round what only products read."""
    monkeypatch.setattr(products, "lt_of", cache(lambda device: products.Lt()))
    monkeypatch.setenv("CUPY_ON_CPU_LT_WIDE_BIAS", str(int(narrow)))
    _, nodes, counted = asked_of_cuda(agrad.jit(training_step("SGD"), precision="bfloat16"))
    first = ["cublasLt RELU_AUX_BIAS bf16 narrow"] if narrow else ["cublasLt RELU_AUX_BIAS bf16", "group_4"]
    last = ["cublasLt DRELU_BGRAD bf16", "cublasLt DEFAULT bf16"]
    assert nodes == [
        *("group_4", *first, *first, "cublasLt BIAS bf16"),
        *("cross_entropy", "cross_entropy_vjp", "group_rows"),
        *(*last, "group_4", *last, "group_4", "cublasLt DEFAULT bf16", "updates_4"),
    ]
    check_nothing_waits(counted)


@pytest.mark.parametrize("optimizer", UPDATES)
def test_an_eager_step_waits_for_nothing(optimizer: str) -> None:
    asked, _, counted = asked_of_cuda(training_step(optimizer))
    assert asked == [*EAGER_FORWARD, *EAGER_BACKWARD, *UPDATES[optimizer]]
    assert counted["graphs"] == 0
    check_nothing_waits(counted)


def test_attention_in_bfloat16_is_not_copied() -> None:
    """Roundings and copies of operands are computed with the arrays, or by the products themselves."""
    found, _ = launches.count("transformer block", "bfloat16")
    most = {"products": 20, "fused": 23, "updates": 1, "single": 5}
    assert not {kind: count for kind, count in found.nodes.items() if count > most[kind]}


def test_the_calls_of_a_replay_do_not_grow_with_the_model() -> None:
    found = []
    for widths in (SIZES, (784, *[64] * 8, 10)):
        step = agrad.jit(training_step("Adam", widths=widths))
        data = batches()
        for k in range(WARM + 1):
            step(*data[k % 3])
        found.append(counted(lambda step=step, batch=data[3]: step(*batch))[1])
    assert found[1] <= found[0] <= 30


def test_reading_the_loss_waits_once() -> None:
    step = agrad.jit(training_step("SGD"))
    _, _, counted = asked_of_cuda(lambda *batch: step(*batch).item())
    assert (counted["syncs"], counted["d2h"]) == (1, 1)


TRAIN_STEP = [
    *("cupy_take", "cupy_take"),  # the batch
    "memcpy H2D",  # the key of the dropout
    "set_numbers",
    "graph",
]
"""Besides copies of the three inputs into the graph's buffers: of those that lie elsewhere than in the step before."""
TRAIN_RESULTS = ["loss", "hits"]
"""The results of the previous step, copied out of the graph's memory."""
TRAIN_NODES = [
    "cublasLt RELU_BIAS",
    *("philox4x64", "cupy_copy", "cupy_less", "group_4"),  # dropout
    "cublasLt BIAS",
    *("cross_entropy", "cross_entropy_vjp"),
    *("cublasLt DEFAULT", "cublasLt BGRADA", "group_4", "cublasLt BGRADA"),
    "updates_4",
    *("cupy_argmax", "cupy_equal", "cupy_copy", "cupy_sum"),  # the hits
]


def test_a_step_of_agrad_train_is_one_graph(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import cuda_on_cpu

    from agrad.cli import main
    from agrad.train import loop

    monkeypatch.setattr(loop, "SECONDS", 1e9)  # on a slow machine losses would be read within the epoch
    options = ["--backend", "cupy", "--epochs", "4", "--hidden", "32", "--batch-size", "256", "--quiet"]
    codes: list[int] = []
    lines = cuda_on_cpu.trace(lambda: codes.append(main(["train", *options])))
    assert codes == [0], capsys.readouterr().err
    asked = [short(line) for line in lines]
    graphs = [i for i, name in enumerate(asked) if name == "graph"]
    assert len(graphs) >= 18
    # the last epoch has five whole batches and a part of one
    for first, second in itertools.pairwise(graphs[-6:-1]):
        step = asked[first + 1 : second + 1]
        assert [name for name in step if name != "memcpy D2D"] == TRAIN_STEP
        assert step.count("memcpy D2D") <= 3 + len(TRAIN_RESULTS)
        assert nodes_of(lines[second]) == TRAIN_NODES


def test_a_convolution_is_a_copy_of_windows_and_a_product() -> None:
    import cuda_on_cpu

    rng = np.random.default_rng(0)
    shapes = ((2, 3, 8, 8), (4, 3, 3, 3), (2, 4, 8, 8))
    x, w, g = (agrad.asarray(rng.normal(size=shape), backend="cupy").raw for shape in shapes)

    def both() -> Any:
        y, pull = agrad.vjp(lambda x, w: nn.functional.conv2d(x, w, padding=1), x, w)
        return y, pull(g)

    both()
    lines = [short(line) for line in cuda_on_cpu.trace(both)]
    frame, product = ["memset", "cupy_copy"], ["cupy_copy", "gemmStridedBatchedEx"]
    samples_first = "cupy_copy"
    forward = [*frame, *product, samples_first, "memcpy D2D"]  # vjp gives a copy of the value
    backward = [*frame, "cupy_copy", *product, samples_first]  # of the kernel, flipped, and the cotangent, by channels
    assert lines == [*forward, *backward, *backward]
