"""The ranks of an MPI program: their numbers, checks and end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

import agrad
from agrad import tree
from agrad.errors import ConfigurationError, MissingExtraError
from agrad.nn.seeding import STREAM
from agrad.optim import Optimizer
from agrad.parallel.optimizer import ParallelOptimizer

_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
"""The environment variables in which launchers of MPI programs store the number of processes."""
_WORLDS: list[World] = []

PATIENCE = 0.5
"""Seconds that other ranks wait for rank 0, which often fails for the same reason, to print the error."""


class World:
    """The ranks of this program, as :func:`agrad.parallel.world` returns them.

    Attributes
    ----------
    rank : int
        Index of this process, from 0.
    size : int
        Number of processes.
    cuda_aware : bool
        True if MPI can access GPU memory. By default, arrays on GPUs are copied to the host.

    Examples
    --------
    >>> world = agrad.parallel.world()
    >>> isinstance(world, agrad.parallel.World), world.rank, world.size
    (True, 0, 1)
    """

    def __init__(self, comm: Any = None) -> None:
        self.comm = comm
        self.rank, self.size = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
        self.cuda_aware = False
        self.place: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size}>"

    # ------------------------------------------------------------------ training

    def optimizer(self, optimizer: Optimizer) -> ParallelOptimizer:
        """Return an optimizer that steps by the mean of the gradients of all ranks.

        All ranks receive the parameters and the state of rank 0.

        Parameters
        ----------
        optimizer : Optimizer
            Optimizer of this rank.

        Returns
        -------
        ParallelOptimizer
            Optimizer whose ``step`` accepts the number of examples of this rank.

        Raises
        ------
        ConfigurationError
            If the ranks disagree on the version of agrad, the shapes of parameters or the options.

        Examples
        --------
        >>> w = agrad.nn.Parameter(np.array([1.0, 2.0]))
        >>> optimizer = agrad.parallel.world().optimizer(agrad.optim.SGD([w], lr=0.25))
        >>> (w * w).sum().backward()
        >>> optimizer.step(count=1)
        >>> w.detach()
        Tensor([0.5, 1.0], dtype=float64, backend=numpy, device=cpu)
        """
        return ParallelOptimizer(self, optimizer)

    def shard(self, batches: Iterable[Any]) -> Shard:
        """Return the rows ``rank::size`` of each batch.

        Parameters
        ----------
        batches : iterable
            Batches in the same order on every rank, for example a ``DataLoader``: pytrees of arrays with the examples
            along the first axis.

        Returns
        -------
        iterable
            Batches of this rank, which may have no rows. You can iterate over it as often as over ``batches``.

        Raises
        ------
        ConfigurationError
            At the start of an epoch, if the ranks disagree on the number of batches or the state of the loader.

        Examples
        --------
        >>> loader = agrad.data.DataLoader(np.arange(5.0), batch_size=2)
        >>> [batch.tolist() for batch in agrad.parallel.world().shard(loader)]
        [[0.0, 1.0], [2.0, 3.0], [4.0]]
        """
        return Shard(self, batches)

    # ------------------------------------------------------------------ agreement

    def check(self, **facts: Any) -> None:
        """Raise an error on every rank if a value differs between ranks.

        Parameters
        ----------
        **facts : object
            Values, which are compared by their ``repr``.

        Raises
        ------
        ConfigurationError
            If a value differs. The message contains the name, two ranks and their values.

        Examples
        --------
        >>> agrad.parallel.world().check(seed=3, examples=1000)
        """
        if self.comm is None:
            return
        mine = {"agrad": agrad.__version__} | {name: repr(value) for name, value in facts.items()}
        everyone = self.comm.allgather(mine)
        for name in everyone[0]:
            for rank, theirs in enumerate(everyone):
                if theirs.get(name) != everyone[0][name]:
                    raise ConfigurationError(
                        f"parallel: {name} must be equal on all ranks, got {everyone[0][name]} on rank 0 and "
                        f"{theirs.get(name)} on rank {rank}. Start all ranks with the same program, data and options."
                    )

    def any(self, value: bool) -> bool:
        """Return True on all ranks if the value is true on one of them.

        Parameters
        ----------
        value : bool
            Value of this rank.

        Returns
        -------
        bool
            The same value on all ranks.

        Examples
        --------
        >>> agrad.parallel.world().any(False)
        False
        """
        return bool(value) if self.comm is None else any(self.comm.allgather(bool(value)))

    def share(self, *things: Any) -> None:
        """Send the state of rank 0 to all ranks.

        Parameters
        ----------
        *things : Module, Optimizer or other object
            Objects with ``state_dict`` and ``load_state_dict``.

        Examples
        --------
        >>> agrad.parallel.world().share(agrad.nn.Linear(2, 1))
        """
        if self.comm is None:
            return
        states = self.comm.bcast([thing.state_dict() for thing in things] if self.rank == 0 else None)
        for thing, state in zip(things, states, strict=True):
            if self.rank:
                thing.load_state_dict(state)

    def sum(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the sums of NumPy arrays over all ranks, with the same bits on all ranks.

        Parameters
        ----------
        arrays : sequence of numpy.ndarray
            Arrays of this rank. Arrays of one dtype are sent as one message.

        Returns
        -------
        list of numpy.ndarray
            Sums, as new arrays.

        Examples
        --------
        >>> agrad.parallel.world().sum([np.array([1.0, 2.0])])
        [array([1., 2.])]
        """
        out: list[Any] = [None] * len(arrays)
        for dtype in dict.fromkeys(a.dtype for a in arrays):
            places = [i for i, a in enumerate(arrays) if a.dtype == dtype]
            flat = np.concatenate([arrays[i].reshape(-1) for i in places])
            total = self._total(flat)
            ends = np.cumsum([0, *(arrays[i].size for i in places)])
            for i, start, stop in zip(places, ends, ends[1:], strict=False):
                out[i] = total[start:stop].reshape(arrays[i].shape)
        return out

    def _total(self, flat: Any) -> Any:
        """Return the sum of an array over all ranks, computed by rank 0, so that all ranks have the same bits."""
        if self.comm is None:
            return flat
        total = np.empty_like(flat) if isinstance(flat, np.ndarray) else flat + 0
        self.comm.Reduce(flat, total, root=0)
        self.comm.Bcast(total, root=0)
        return total

    # ------------------------------------------------------------------ the end

    def note(self, **place: Any) -> None:
        """Store the position of the run for error messages.

        Parameters
        ----------
        **place : object
            Values such as ``epoch``, ``step`` and ``checkpoint``, the last file.

        Examples
        --------
        >>> agrad.parallel.world().note(epoch=1, checkpoint="run.safetensors")
        """
        self.place |= place

    def describe(self) -> str:
        """Return the rank and the position of the run as text.

        Returns
        -------
        str
            For example "rank 2 of 4, epoch 1, step 7, last checkpoint run.safetensors".

        Examples
        --------
        >>> agrad.parallel.World().describe()
        'rank 0 of 1, no checkpoint'
        """
        place = {name: value for name, value in self.place.items() if name != "checkpoint"}
        last = self.place.get("checkpoint")
        words = [f"rank {self.rank} of {self.size}", *[f"{name} {value}" for name, value in place.items()]]
        return ", ".join([*words, "no checkpoint" if last is None else f"last checkpoint {last}"])

    def abort(self, text: str, code: int = 1) -> None:
        """Print a text to the standard error, and end all ranks, unless there is one.

        Parameters
        ----------
        text : str
            Text to print.
        code : int, default 1
            Exit code.

        Examples
        --------
        >>> agrad.parallel.World().abort("nothing happens")
        """
        if self.comm is None:
            return
        time.sleep(PATIENCE if self.rank else 0)
        sys.stdout.flush()
        print(text, file=sys.stderr, flush=True)
        time.sleep(0.1)  # the launcher passes on what it has read
        self.comm.Abort(code)

    def _failed(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Print an uncaught error, and end the other ranks, which would wait for this one."""
        time.sleep(PATIENCE if self.rank else 0)
        sys.__excepthook__(kind, error, trace)
        self.abort(f"agrad: {self.describe()}: {kind.__name__}; all ranks end", 130 if kind is KeyboardInterrupt else 1)


class Shard:
    """The rows of one rank of each batch; see `World.shard`."""

    def __init__(self, world: World, batches: Iterable[Any]) -> None:
        self.world: World = world
        self.batches: Iterable[Any] = batches
        self.epochs: int = 0

    def __iter__(self) -> Iterator[Any]:
        world, batches = self.world, self.batches
        state: Mapping[str, Any] = batches.state_dict() if hasattr(batches, "state_dict") else {}
        count = len(batches) if hasattr(batches, "__len__") else None
        world.check(loader={"length": count} | {name: np.asarray(value).tolist() for name, value in state.items()})
        self.epochs += 1
        world.note(epoch=self.epochs)
        for batch in batches:
            yield tree.map(lambda leaf: leaf[world.rank :: world.size, ...] if world.comm else leaf, batch)

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]


def world() -> World:
    """Return the ranks of this program.

    If a launcher (``mpiexec``) started several processes, the first call starts MPI. An uncaught exception in one rank
    then ends all ranks. Otherwise there is a single rank, and MPI is not imported.

    Returns
    -------
    World
        The same object at each call.

    Raises
    ------
    MissingExtraError
        If there are several processes and mpi4py is not installed.
    ConfigurationError
        If mpi4py uses another MPI library than the launcher.

    Examples
    --------
    >>> agrad.parallel.world()
    <rank 0 of 1>
    """
    if not _WORLDS:
        _WORLDS.append(_started(os.environ))
    return _WORLDS[0]


def _started(variables: Mapping[str, str]) -> World:
    """Return the ranks that the environment variables of a launcher describe."""
    counts = [int(variables[name]) for name in _SIZES if variables.get(name, "").isdigit()]
    if "PMIX_RANK" in variables and variables.get("SLURM_STEP_NUM_TASKS", "").isdigit():
        counts.append(int(variables["SLURM_STEP_NUM_TASKS"]))
    if max(counts, default=1) < 2:
        return World()
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MissingExtraError(
            f"parallel: a launcher started {max(counts)} processes, and mpi4py cannot be imported: {error}. "
            "Install it with: pip install 'agrad[parallel]'"
        ) from error
    if MPI.COMM_WORLD.Get_size() != max(counts):
        raise ConfigurationError(
            f"parallel: mpi4py must belong to the MPI of the launcher, got {MPI.COMM_WORLD.Get_size()} ranks for "
            f"{max(counts)} processes. Start the program with the mpiexec of {MPI.Get_library_version().split(',')[0]}."
        )
    made = World(MPI.COMM_WORLD)
    STREAM[0] = made.rank
    sys.excepthook = made._failed
    return made
