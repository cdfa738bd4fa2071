"""`DataLoader`: batches, threads, errors, and a loop that is continued in the middle of an epoch."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from refusals import fails

import agrad
from agrad import data
from agrad.errors import DataError

X = np.arange(46.0).reshape(23, 2)
Y = np.arange(23)


class Pictures(data.Dataset):
    """Examples that are computed one by one, and change with the epoch."""

    epoch = 0

    def __len__(self):
        return 23

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, index):
        assert type(index) is int
        time.sleep(0.0005 if index % 3 else 0)  # threads finish in another order
        return {"x": X[index] + 100 * self.epoch, "y": index}


class Stream(data.IterableDataset):
    """A stream of the same examples."""

    def __iter__(self):
        return ((x, int(y)) for x, y in zip(X, Y, strict=True))


def text(batch):
    """Return a batch as texts of dtypes and values, with its structure."""
    return agrad.tree.map(lambda leaf: f"{(x := agrad.asarray(leaf).numpy()).dtype} {x.tolist()}", batch)


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("DataLoader")]


def wait_for_threads():
    for thread in threads():
        thread.join(10)
    assert not threads()


@pytest.fixture(autouse=True)
def _ended():
    yield
    wait_for_threads()


# -- batches --


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("dataset", [data.TensorDataset(X, Y), Pictures(), Stream(), data.Subset(Pictures(), Y[::-1])])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_cover_the_data_once(dataset, workers, drop_last):
    loader = data.DataLoader(dataset, 5, num_workers=workers, drop_last=drop_last)
    batches = list(loader)
    sizes = [len(agrad.tree.leaves(batch)[0]) for batch in batches]
    assert sizes == [5] * 4 + [3] * (not drop_last)
    seen = np.concatenate([agrad.tree.leaves(batch)[1] for batch in batches])
    expected = Y[::-1] if isinstance(dataset, data.Subset) else Y
    assert seen.tolist() == expected[: len(seen)].tolist() and seen.dtype == np.int64
    if not isinstance(dataset, Stream):
        assert len(loader) == len(batches)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": 4, "sampler": [3, 1, 20, 7, 9]},
        {"batch_sampler": [[1, 2], [0], [5, 4, 3]]},
        {"batch_size": None, "sampler": [[0, 1], [2, 3]]},
        {"batch_size": None},
    ],
)
def test_batches_are_those_of_pytorch(options, torch):
    ours = data.DataLoader(data.TensorDataset(X, Y), **options)
    dataset = torch.utils.data.TensorDataset(torch.asarray(X), torch.asarray(Y))
    theirs = torch.utils.data.DataLoader(dataset, **options)
    found = [[part.tolist() for part in batch] for batch in ours]
    assert found == [[part.tolist() for part in batch] for batch in theirs]
    assert len(ours) == len(theirs) == len(found)


def test_the_order_is_that_of_training_and_changes_with_the_epoch():
    loader = data.DataLoader(data.TensorDataset(Y), 4, shuffle=True, seed=7)
    for epoch in range(3):
        found = [batch[0].tolist() for batch in loader]
        assert found == [rows.tolist() for rows in data.batches(23, 4, seed=7, epoch=epoch)]
    with contextlib.suppress(StopIteration):
        next(iter(loader))
    # an epoch that was left in the middle does not go on
    assert np.concatenate([batch[0] for batch in loader]).tolist() == data.epoch_order(7, 4, 23).tolist()


def test_batches_are_taken_at_once_and_as_one_by_one(place):
    arrays = place(X), agrad.asarray(place(Y))
    whole = data.TensorDataset(*arrays)
    rows = [4, -1, 0, 9]
    ((x, y),) = data.DataLoader(whole, sampler=rows, batch_size=4)
    ((x1, y1),) = data.DataLoader(whole, sampler=rows, batch_size=4, collate_fn=data.default_collate)
    assert isinstance(y, agrad.Tensor) and type(x) is type(x1)
    assert text((x, y)) == text((x1, y1)) == text((X[rows], Y[rows]))
    (part,) = data.DataLoader(data.Subset(data.Subset(whole, [1, 2, 3, 4]), [3, 0]), batch_size=2)
    assert text(part) == text((X[[4, 1]], Y[[4, 1]]))


def test_a_batch_shares_no_memory_with_the_data():
    for rows in (range(23), [0]):
        for batch in data.DataLoader(data.TensorDataset(X), 23, sampler=rows):
            assert not np.shares_memory(batch[0], X)


def test_a_class_with_examples_of_its_own_is_asked_for_them():
    class Scaled(data.TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[0] * 10

    class AtOnce(Pictures):
        def __getitems__(self, indices):
            return [{"x": X[k], "y": -k} for k in indices]

    (first,) = data.DataLoader(Scaled(X), 23)
    assert np.array_equal(first, X * 10)
    assert next(iter(data.DataLoader(data.Subset(AtOnce(), [3, 4]), 2)))["y"].tolist() == [-3, -4]


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_put_on_a_backend(backend, workers):
    device = agrad.zeros(1).device
    loader = data.DataLoader(Pictures(), 4, num_workers=workers, backend=agrad.get_backend(), device=device)
    batch = next(iter(loader))
    for leaf, expected in zip(agrad.tree.leaves(batch), (X[:4], Y[:4]), strict=True):
        there = agrad.asarray(leaf)
        assert not isinstance(leaf, agrad.Tensor)
        assert (there.backend, there.device) == (agrad.get_backend(), device)
        assert np.array_equal(there.numpy(), expected)


def test_threads_make_new_arrays_on_the_backend_of_the_loop(backend):
    loader = data.DataLoader([1.0, 2.0], 2, num_workers=2, collate_fn=lambda xs: agrad.asarray(xs))
    (batch,) = loader
    assert (batch.backend, batch.device) == (agrad.get_backend(), agrad.zeros(1).device)


class OnStreams(Pictures):
    """Examples that tell on which stream and device they are made."""

    def __getitem__(self, number):
        import cupy

        return np.array([cupy.cuda.get_current_stream().ptr, cupy.cuda.Device().id])


@pytest.mark.needs("cupy")
def test_threads_make_arrays_on_the_stream_of_the_loop():
    import cupy

    agrad.backends.load("cupy")

    class Spied(cupy.cuda.Stream):
        waited = 0

        def wait_event(self, event):
            self.waited += 1
            super().wait_event(event)

    one, other = Spied(non_blocking=True), Spied(non_blocking=True)
    loader = data.DataLoader(OnStreams(), batch_size=4, num_workers=2, backend="cupy")
    with one:
        batches = iter(loader)
        for _ in range(2):
            assert (next(batches).get() == [one.ptr, cupy.cuda.Device().id]).all()
    assert one.waited == 0
    with other:  # four batches are made ahead, on the first stream
        found = [int(batch[0, 0]) for batch in batches]
    assert set(found) == {one.ptr}
    assert other.waited == len(found) == 4


@pytest.mark.needs("cupy")
def test_a_stream_of_each_threads_own_is_waited_for_by_the_thread():
    import cupy

    agrad.backends.load("cupy")
    loader = data.DataLoader(data.TensorDataset(X, Y), batch_size=4, num_workers=2, backend="cupy")
    with cupy.cuda.Stream.ptds:
        np.testing.assert_array_equal(np.concatenate([x.get() for x, _ in loader]), X)


# -- a loop that is continued --


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize(
    ("dataset", "options"),
    [
        (data.TensorDataset(X, Y), {"shuffle": True, "batch_size": 4}),
        (Pictures(), {"shuffle": True, "batch_size": 4, "seed": 3}),
        (Pictures(), {"batch_sampler": data.BatchSampler(data.WeightedRandomSampler(Y + 1.0, 21), 4)}),
        (Stream(), {"batch_size": 4}),
    ],
)
def test_a_loop_goes_on_bit_for_bit(dataset, options, workers):
    def loop(loader, epochs, stop=None):
        found = []
        while int(loader.state_dict()["epoch"]) < epochs:
            for batch in loader:
                found.append(text(batch))
                if len(found) == stop:
                    return found
        return found

    whole = loop(data.DataLoader(dataset, num_workers=workers, **options), 3)
    assert len(whole) == 18
    assert (whole[0] == whole[6]) == isinstance(dataset, Stream)
    for stop in (0, 6, 8, 17):
        first = data.DataLoader(dataset, num_workers=workers, **options)
        found = loop(first, 3, stop) if stop else []
        state = {name: value.copy() for name, value in first.state_dict().items()}
        second = data.DataLoader(dataset, num_workers=3 - workers, **options)
        second.load_state_dict(state)
        assert second.state_dict() == state
        assert found + loop(second, 3) == whole


def test_the_state_is_of_the_newest_iterator():
    loader = data.DataLoader(Y, 4, shuffle=True)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    next(newer), next(newer), next(older)
    state = {name: int(value) for name, value in loader.state_dict().items() if name != "order"}
    shape = {"batches": 6, "batch_size": 4, "drop_last": 0, "examples": 23}
    assert state == {"epoch": 1, "batch": 2, "seed": 0, **shape}
    assert len(list(older)) == 4 and int(loader.state_dict()["batch"]) == 2
    assert np.concatenate(list(newer)).tolist() == data.epoch_order(0, 1, 23)[8:].tolist()
    assert int(loader.state_dict()["epoch"]) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "expected seed = 0 as here, found 1"),
        ({"batches": 7}, "expected batches = 6 as here, found 7"),
        ({"epoch": -1}, "found batch = 2, batches = 6, epoch = -1"),
        ({"more": 1}, "expected batch, batches, epoch, seed"),
        ({"epoch": "x"}, "expected integers"),
        ({"batch_size": 3}, "expected batch_size = 4 as here, found 3"),
        ({"examples": 22}, "expected examples = 23 as here, found 22"),
        ({"order": int(data.DataLoader(Y, 4, shuffle=True).state_dict()["order"])}, "expected order"),
    ],
)
def test_another_state_is_refused(change, message):
    loader = data.DataLoader(Y, 4)
    good = {"epoch": 1, "batch": 2, "seed": 0, "batches": 6}
    loader.load_state_dict(good)
    fails(DataError, message, loader.load_state_dict, good | change)
    assert good.items() <= {name: int(value) for name, value in loader.state_dict().items()}.items()


# -- threads --


class Zeros:
    def __iter__(self):
        return (1 / number for number in (1, 0))


class Bad(Pictures):
    def __init__(self, error):
        self.error = error

    def __getitem__(self, index):
        if index == 9:
            raise self.error
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_names_the_example_and_the_data_set(workers):
    loader = data.DataLoader(Bad(FileNotFoundError("picture 9")), 4, num_workers=workers)
    batches = iter(loader)
    next(batches), next(batches)
    note = "DataLoader: raised by example 9 of the data set Bad"
    assert fails(FileNotFoundError, "picture 9", next, batches).__notes__ == [note]
    assert list(batches) == [] and int(loader.state_dict()["batch"]) == 2 and int(loader.state_dict()["epoch"]) == 0
    # that of an iterator ends no epoch
    ended = fails(RuntimeError, ".", list, data.DataLoader(Bad(StopIteration()), 4, num_workers=workers))
    assert ended.__cause__.__notes__ == [note]
    for dataset, collate, note in (
        (Pictures(), lambda examples: examples[9], "the batch of the examples 0, 1, 2, 3 of the data set Pictures"),
        (Stream(), lambda examples: examples[9], "a batch of the data set Stream"),
        (Zeros(), None, "an example of the data set Zeros"),
        (data.TensorDataset(X), None, "the examples 99, 0 of the data set TensorDataset"),
    ):
        rows = {"sampler": [99, 0]} if isinstance(dataset, data.TensorDataset) else {}
        loader = data.DataLoader(dataset, 4, collate_fn=collate, num_workers=workers, **rows)
        error = fails((IndexError, ZeroDivisionError), "zero|range|less than", lambda loader=loader: next(iter(loader)))
        assert error.__notes__ == [f"DataLoader: raised by {note}"]


def test_an_iterator_that_is_left_ends_its_threads():
    loader = data.DataLoader(Pictures(), 2, num_workers=3)
    for _ in loader:
        assert len(threads()) == 3
        break
    wait_for_threads()
    batches = iter(loader)
    next(batches)
    del batches
    wait_for_threads()
    with pytest.raises(RuntimeError, match="stop"):
        for _ in loader:
            raise RuntimeError("stop")


def test_no_more_is_loaded_ahead_than_asked_for():
    asked = []

    class Counted(Pictures):
        def __getitem__(self, index):
            asked.append(index)
            return index

    batches = iter(data.DataLoader(Counted(), 1, num_workers=2, prefetch_factor=3))
    next(batches)
    time.sleep(0.1)
    assert sorted(asked) == list(range(7))
    batches = iter(data.DataLoader(Counted(), 1))
    asked.clear()
    next(batches)
    assert asked == [0]
    del batches


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_goes_on_by_itself():
    loader = data.DataLoader(Pictures(), 4, shuffle=True, num_workers=2)
    batches = iter(loader)
    next(batches)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with os.fdopen(write, "w") as file:
            file.write(repr([text(batch) for batch in batches]))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        found = file.read()
    assert os.waitpid(child, 0)[1] == 0
    assert found == repr([text(batch) for batch in batches])


LOOP = """
import time
from agrad import data

class Slow(data.Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.3 if index else 0)
        return index

for batch in data.DataLoader(Slow(), 100, sampler=[0] * 100 + list(range(900)), num_workers=2):
    print("ready", flush=True)
"""


def test_ctrl_c_ends_a_loop_at_once():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", LOOP], text=True, **pipes)
    assert process.stdout.readline() == "ready\n"
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors and process.returncode != 0
    assert time.monotonic() - start < 10  # the batch under way takes 30 s
