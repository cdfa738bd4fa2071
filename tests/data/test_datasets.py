"""Data sets, samplers and batches of examples: their values, those of PyTorch, and what is refused."""

from collections import Counter, namedtuple

import numpy as np
import pytest
from refusals import fails, refuses

import agrad
from agrad import data
from agrad.errors import (
    ConfigurationError,
    DeviceUnavailableError,
    DtypeError,
    IndexRangeError,
    OperandError,
    ShapeError,
)

X = np.arange(24.0).reshape(12, 2)
Y = np.arange(12) % 3


# -- data sets --


def test_a_tensor_dataset_holds_arrays_of_any_backend(place):
    both = data.TensorDataset(place(X), agrad.asarray(place(Y)))
    x, y = both[-2]
    assert len(both) == 12
    assert isinstance(y, agrad.Tensor) and not isinstance(x, agrad.Tensor)
    assert agrad.asarray(x).numpy().tolist() == [20, 21] and int(y) == 1


def test_parts_and_joins():
    words, numbers = "abcde", [10, 20, 30]
    part = data.Subset(words, [4, 0, -2])
    assert [part[i] for i in range(3)] == ["e", "a", "d"] and part[-1] == "d"
    both = data.ConcatDataset([part, numbers, data.Subset(words, [])])
    assert [both[i] for i in range(len(both))] == ["e", "a", "d", 10, 20, 30]
    assert both[-6] == "e"
    for wrong in (6, -7):
        fails(IndexRangeError, f"less than 6, got {wrong}", both.__getitem__, wrong)


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ([7, 3, 2], [7, 3, 2]),
        ([0, 12], [0, 12]),
        ([12], [12]),
        ([1.0], [12]),
        ([0.25, 0.75], [3, 9]),
        ([0.5, 0.3, 0.2], [7, 3, 2]),
    ],
)
def test_random_split(lengths, sizes):
    parts = data.random_split(range(12), lengths, seed=3)
    assert [len(part) for part in parts] == sizes
    assert sorted(part[i] for part in parts for i in range(len(part))) == list(range(12))
    rows = [part.indices.tolist() for part in parts]
    assert rows == [part.indices.tolist() for part in data.random_split(X, lengths, seed=3)]
    assert rows != [part.indices.tolist() for part in data.random_split(X, lengths, seed=4)]


@pytest.mark.parametrize("shares", [[0.5, 0.3, 0.2], [1 / 3] * 3, [0.9, 0.1]])
def test_shares_are_rounded_as_pytorch_does(shares, torch):
    for n in (10, 97):
        found, expected = (split(range(n), shares) for split in (data.random_split, torch.utils.data.random_split))
        assert [len(part) for part in found] == [len(part) for part in expected]
    assert [sum(len(part) for part in data.random_split(range(n), shares)) for n in (0, 1)] == [0, 1]


def test_protocols_are_what_they_say():
    assert isinstance([1, 2], data.Dataset) and isinstance(data.TensorDataset(X), data.Dataset)
    assert not isinstance(iter([]), data.Dataset) and isinstance(iter([]), data.IterableDataset)

    class Half(data.Dataset):
        def __len__(self):
            return 3

    fails(TypeError, "__getitem__", Half)


# -- samplers --


def orders(sampler, epochs):
    found = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        found.append(list(sampler))
        assert list(sampler) == found[-1] and len(sampler) == len(found[-1])
        assert all(type(row) is int for row in found[-1])
    return found


def test_random_samplers():
    found = orders(data.RandomSampler(X, seed=5), 3)
    assert found == [data.epoch_order(5, epoch, 12).tolist() for epoch in range(3)]
    longer = orders(data.RandomSampler(X, num_samples=30), 2)
    assert longer[0] != longer[1]
    assert all(sorted(o[:12]) == sorted(o[12:24]) == list(range(12)) and o[:12] != o[12:24] for o in longer)
    assert [len(set(o[24:])) for o in longer] == [6, 6]
    drawn = orders(data.RandomSampler(X, replacement=True, num_samples=6000), 1)[0]
    counts = np.bincount(drawn, minlength=12)
    # 500 each, give or take five deviations
    assert np.abs(counts - 500).max() < 5 * np.sqrt(6000 / 12 * 11 / 12)
    some = orders(data.SubsetRandomSampler([3, 5, 8], seed=1), 20)
    assert {tuple(sorted(order)) for order in some} == {(3, 5, 8)} and len({tuple(order) for order in some}) > 3


def test_draws_are_fixed_for_ever():
    assert [p.indices.tolist() for p in data.random_split(range(6), [4, 2], seed=1)] == [[5, 3, 2, 0], [1, 4]]
    for sampler, order in (
        (data.RandomSampler(range(6), True, 8, seed=1), [2, 4, 5, 3, 2, 3, 0, 2]),
        (data.WeightedRandomSampler([1, 2, 3], 8, seed=1), [2, 1, 2, 2, 0, 1, 1, 2]),
        (data.WeightedRandomSampler([1, 2, 3], 3, False, seed=1), [1, 2, 0]),
        (data.SubsetRandomSampler([7, 8, 9], seed=1), [9, 7, 8]),
    ):
        assert list(sampler) == order


def test_weighted_draws():
    weights = [0.0, 1.0, 3.0, 0.0, 4.0, 0.0]
    first, second = orders(data.WeightedRandomSampler(weights, 8000, seed=2), 2)
    assert first != second
    once = orders(data.WeightedRandomSampler(weights, 2, replacement=False), 2000)
    assert all(len(set(order)) == 2 and set(order) <= {1, 2, 4} for order in once)
    # without replacement, the first draw has the weights as probabilities
    for drawn in (first, [order[0] for order in once]):
        counts, share = Counter(drawn), len(drawn) / 8
        assert counts.keys() == {1, 2, 4}
        assert all(abs(counts[k] - share * weights[k]) < 5 * np.sqrt(share * weights[k]) for k in counts)


def order(**given):
    return data.batches(**{"n": 10, "batch_size": 3, "seed": 0, "epoch": 0} | given)


def loader(dataset=Y, **options):
    return data.DataLoader(dataset, **options)


class Stream:
    def __iter__(self):
        return iter(Y)


test_wrong_use_is_refused = refuses([
    (OperandError, "at least one array", data.TensorDataset),
    (OperandError, "argument 0 must be an array, got list", lambda: data.TensorDataset([1, 2])),
    (OperandError, "got int", lambda: loader(3)),
    (OperandError, "dataset: a generator is exhausted after one epoch", lambda: loader(x for x in Y)),
    (OperandError, "sampler: a list_iterator is exhausted", lambda: loader(sampler=iter([1, 2]))),
    (OperandError, "batch_sampler must be an object with __iter__, got int", lambda: loader(batch_sampler=5)),
    (ShapeError, "argument 0 of shape (12, 2) and argument 1 of shape (11,)", lambda: data.TensorDataset(X, Y[:-1])),
    (ShapeError, "argument 1 of shape ()", lambda: data.TensorDataset(X, np.float64(1))),
    (IndexRangeError, "less than 5, got 5", lambda: data.Subset("abcde", [0, 5])),
    (DtypeError, "example indices must be integers", lambda: data.Subset("abcde", [0.0, 1.0])),
    (DtypeError, "example indices must be integers", lambda: data.Subset("abcde", [True, False])),
    (DeviceUnavailableError, "cuda:77", lambda: loader(device="cuda:77", backend="numpy")),
    (TypeError, "len", lambda: len(loader(Stream()))),
    (ConfigurationError, "at least one data set", lambda: data.ConcatDataset([])),
    *((ConfigurationError, "random_split: lengths must", lambda lengths=lengths: data.random_split(range(12), lengths))
      for lengths in ([5, 5], [-2, 14], [0.5, 0.6], [], [6.5, 5.5], [float("nan"), 12])),
    *((ConfigurationError, "between 0 and 1", lambda fraction=fraction: data.stratified_split(Y, fraction, 0))
      for fraction in (0.0, 1.0, -0.5, float("nan"))),
    (ConfigurationError, "weights must be finite numbers of 0 or more", lambda: data.WeightedRandomSampler([1, -1], 2)),
    (ConfigurationError, "weights must be finite", lambda: data.WeightedRandomSampler([1, np.nan], 2)),
    (ConfigurationError, "cannot draw 2 examples with replacement: 0", lambda: data.WeightedRandomSampler([0, 0], 2)),
    (ConfigurationError, "without replacement: 2", lambda: data.WeightedRandomSampler([1, 0, 1], 3, False)),
    (ConfigurationError, "num_samples must be an integer", lambda: data.WeightedRandomSampler([1], 2.5)),
    (ConfigurationError, "num_samples must be 0", lambda: data.RandomSampler([], num_samples=3)),
    (ConfigurationError, "seed must be an integer below", lambda: data.RandomSampler(X, seed=2**64)),
    (ConfigurationError, "batch_size must be at least 1", lambda: data.BatchSampler(range(3), 0)),
    # at the call, before the first batch
    (ConfigurationError, "batch_size must be at least 1", lambda: order(batch_size=0)),
    (ConfigurationError, "seed must not be negative", lambda: order(seed=-1)),
    (ConfigurationError, "seed must be an integer below 18446744073709551616", lambda: order(seed=2**64)),
    (ConfigurationError, "epoch must not be negative", lambda: order(epoch=-1)),
    (ConfigurationError, "epoch must be an integer", lambda: order(epoch=1.5)),
    (ConfigurationError, "start must not be negative", lambda: order(start=-1)),
    (ConfigurationError, "batch_size must be at least 1", lambda: loader(batch_size=0)),
    (ConfigurationError, "num_workers must not be negative", lambda: loader(num_workers=-1)),
    (ConfigurationError, "prefetch_factor must be at least 1", lambda: loader(num_workers=1, prefetch_factor=0)),
    (ConfigurationError, "prefetch_factor requires threads", lambda: loader(prefetch_factor=2)),
    (ConfigurationError, "sampler replaces shuffle", lambda: loader(shuffle=True, sampler=[1])),
    (ConfigurationError, "batch_size, shuffle", lambda: loader(batch_sampler=[[1]], batch_size=3, shuffle=True)),
    (ConfigurationError, "sampler, drop_last", lambda: loader(batch_sampler=[[1]], sampler=[1], drop_last=True)),
    (ConfigurationError, "drop_last requires batches", lambda: loader(batch_size=None, drop_last=True)),
    (ConfigurationError, "seed must not be negative", lambda: loader(seed=-1)),
    (ConfigurationError, "with __getitem__, got Stream", lambda: loader(Stream(), shuffle=True)),
])  # fmt: skip


# -- batches --

Pair = namedtuple("Pair", ["image", "label"])


def test_examples_of_every_kind_are_collated(place):
    def example(k):
        pair = Pair(agrad.asarray(place(X[k])), k)
        return {"x": place(X[k]), "pair": pair, "word": f"w{k}", "none": None, "rest": [k > 0, 0.5]}

    examples = [example(k) for k in range(3)]
    batch = data.default_collate(examples)
    assert batch.keys() == examples[0].keys()
    assert batch["word"] == ["w0", "w1", "w2"] and batch["none"] is None
    assert isinstance(batch["pair"], Pair) and isinstance(batch["pair"].image, agrad.Tensor)
    like = agrad.asarray(examples[0]["x"])
    arrays = [batch["x"], batch["pair"].image, batch["pair"].label, *batch["rest"]]
    for found, expected in zip(arrays, [X[:3], X[:3], [0, 1, 2], [False, True, True], [0.5] * 3], strict=True):
        there = agrad.asarray(found)
        assert (there.backend, there.device) == (like.backend, like.device)
        assert there.numpy().tolist() == np.asarray(expected).tolist()
        assert there.numpy().dtype.kind == np.asarray(expected).dtype.kind


@pytest.mark.parametrize(
    "examples",
    [
        *([1, 2], [1.5, 2.0], [True, False], [np.float32(1), np.float32(2)], [X[0], X[1]]),
        [(X[0].astype("f4"), 3), (X[1].astype("f4"), 4)],
        [{"a": [1, X[0]]}, {"a": [2, X[1]]}],
    ],
)
def test_batches_have_the_values_of_pytorch(examples, torch):
    # PyTorch makes a list of a tuple
    found = agrad.tree.leaves(data.default_collate(examples))
    expected = agrad.tree.leaves(torch.utils.data.default_collate(examples))
    for ours, other in zip(found, expected, strict=True):
        assert np.array_equal(ours, other.numpy()) and ours.dtype == other.numpy().dtype


test_examples_that_are_no_batch = refuses([
    (error, text, lambda examples=examples: data.default_collate(examples)) for error, text, examples in (
        (OperandError, "at least one example, got none", []),
        (ShapeError, "leaves at ['a'] ... of shape (2,), example 1 ... (1,)", [{"a": X[0]}, {"a": X[0, :1]}]),
        (ShapeError, "got {'a': *} at index 0 of the batch and {'b': *} at index 1", [{"a": 1}, {"b": 1}]),
        (ShapeError, "got (*,) at index 0 of the batch and (*, None) at index 2", [(1,), (2,), (1, None)]),
        (ShapeError, "example 0 of the batch has a int ..., example 1 a str", [1, "a"]),
        (ShapeError, "a ndarray of shape (2,), example 1 a int", [X[0], 3]),
        (OperandError, "must be arrays, numbers or strings, got set", [{1}, {2}]),
        (OperandError, "must be arrays, numbers or strings, got int", [2**70, 1]),
    )
])  # fmt: skip
