"""The ranks of an MPI program: who they are, what they agree on, and how they end."""

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
"""Variables in which launchers of MPI programs say how many processes they started."""
_WORLDS: list[World] = []

PATIENCE = 0.5
"""Seconds that other ranks leave to rank 0, which often fails for the same reason, to print the error."""


class World:
    """The ranks of this program. `agrad.parallel.world` returns it.

    Attributes
    ----------
    rank : int
        The number of this process, from 0.
    size : int
        The number of processes.
    cuda_aware : bool
        True if MPI reads and writes the memory of GPUs itself. By default, arrays on GPUs are copied to the host.

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

        All ranks get the parameters and the state of rank 0.

        Parameters
        ----------
        optimizer : Optimizer
            The optimizer of this rank. Its class, options and shapes must be equal on all ranks.

        Returns
        -------
        ParallelOptimizer
            An optimizer whose ``step`` accepts the number of examples of this rank.

        Raises
        ------
        ConfigurationError
            If the ranks disagree on the version of agrad, the shapes or the options.

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
        """Return the part of each batch that belongs to this rank.

        These are the rows ``rank::size``.

        Parameters
        ----------
        batches : iterable
            Batches in the same order on every rank, such as a `DataLoader`: nested containers of arrays with the
            examples along the first axis. A rank without rows gets arrays of length 0.

        Returns
        -------
        iterable
            An object to iterate over, as often as over ``batches``.

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
            Values with a ``repr`` that says all.

        Raises
        ------
        ConfigurationError
            If a value differs; the message has the name, two ranks and their values.

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
            The value of this rank.

        Returns
        -------
        bool
            The same on all ranks.

        Examples
        --------
        >>> agrad.parallel.world().any(False)
        False
        """
        return bool(value) if self.comm is None else any(self.comm.allgather(bool(value)))

    def share(self, *things: Any) -> None:
        """Give all ranks the state of rank 0.

        Parameters
        ----------
        *things : Module, Optimizer or other object
            Objects with ``state_dict`` and ``load_state_dict``, with the same names and shapes on all ranks.

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
        """Return the sums of NumPy arrays over all ranks, with the same bits on all.

        Parameters
        ----------
        arrays : sequence of numpy.ndarray
            The arrays of this rank, with the same shapes and dtypes on all ranks. Those of one dtype are one message.

        Returns
        -------
        list of numpy.ndarray
            The sums, new arrays.

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
        """Return the sum of one array over all ranks: to rank 0, and from there to all, so that all bits are equal."""
        if self.comm is None:
            return flat
        total = np.empty_like(flat) if isinstance(flat, np.ndarray) else flat + 0
        self.comm.Reduce(flat, total, root=0)
        self.comm.Bcast(total, root=0)
        return total

    # ------------------------------------------------------------------ the end

    def note(self, **place: Any) -> None:
        """Note where the run is, for the message of a rank that fails.

        Parameters
        ----------
        **place : object
            ``epoch``, ``step`` and ``checkpoint``, the last file; and others.

        Examples
        --------
        >>> agrad.parallel.world().note(epoch=1, checkpoint="run.safetensors")
        """
        self.place |= place

    def describe(self) -> str:
        """Return the rank and the place that was noted, in words.

        Returns
        -------
        str
            Such as "rank 2 of 4, epoch 1, step 7, last checkpoint run.safetensors".

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
        """Print a text on the standard error, and end all ranks.

        On one rank it does nothing.

        Parameters
        ----------
        text : str
            The text.
        code : int
            The exit code.

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
        """Print an error that nothing caught, and end the other ranks too, which would wait for this one."""
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

    MPI is started at the first call if a launcher (``mpiexec``) started several processes. Otherwise there is one rank,
    and nothing is imported. From then on, an exception that a rank does not catch ends all ranks.

    Returns
    -------
    World
        The rank and the number of ranks, and what they do together; the same object at each call.

    Raises
    ------
    MissingExtraError
        If there are several processes and mpi4py is not installed.
    ConfigurationError
        If mpi4py belongs to another MPI than the launcher.

    Examples
    --------
    >>> agrad.parallel.world()
    <rank 0 of 1>
    """
    if not _WORLDS:
        _WORLDS.append(_started(os.environ))
    return _WORLDS[0]


def _started(variables: Mapping[str, str]) -> World:
    """Return the world that the variables of a launcher describe."""
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
