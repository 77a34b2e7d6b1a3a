"""Rows on a graphics card."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.engines.base import ROWS_AT_ONCE, Sum, spread_evenly, times_drawn
from selfselect.engines.memory import Memory, RowsInMemory
from selfselect.errors import EngineError, MissingDependencyError, OptionError
from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem
from selfselect.threads import parallel_map

if TYPE_CHECKING:
    from torch import Tensor

    from selfselect.kernels.torch_rows import TensorRows


# Devices of PyTorch: which are there, and what is free on them.


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "The Torch engine needs PyTorch: pip install 'selfselect[torch]'"
        ) from error
    return torch


def as_device(given: Any) -> str:
    """Return the name of a device that is there."""
    torch = _torch()
    there = torch.cuda.is_available()
    if given is None:
        return "cuda" if there else "cpu"
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError) as error:
        raise OptionError(
            f"device={given!r} is not a device of PyTorch. Use 'cuda', 'cuda:1' or 'cpu', or None "
            "for the card if there is one."
        ) from error
    if device.type not in ("cuda", "cpu"):
        raise OptionError(
            f"device={given!r} is not possible: the Torch engine sums in double precision on "
            "'cuda' or 'cpu'."
        )
    if device.type == "cuda" and not there:
        raise OptionError(
            f"device={given!r} is not possible: PyTorch finds no CUDA card here. Install a build "
            "of PyTorch for CUDA and a driver, or use device='cpu'."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise OptionError(
            f"device={given!r} is not possible: there are {torch.cuda.device_count()} cards, "
            "counted from 0."
        )
    return str(device)


def free_bytes(device: str) -> int | None:
    """Return how many bytes are free on a card; None where that is the host's own memory."""
    if device == "cpu":
        return None
    torch = _torch()
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + unused)


def out_of_memory() -> type[Exception]:
    """Return the error PyTorch raises where a device has no memory left."""
    kind: type[Exception] = _torch().OutOfMemoryError
    return kind


# Moving rows to a device, as tensors in internal units.


ALIGNED = 16
"""Rows of the table start at multiples of this many numbers, so that a card reads two at a time."""

MOVED_AT_ONCE = 2**27
"""Bytes of rows that are moved to the device in one go."""


@dataclass(frozen=True)
class MovedRows:
    """What moving rows to a device took.

    Attributes
    ----------
    device : where they were moved to.
    n_bytes : how much memory they take there.
    seconds : how long it took, from rows as they are in a frame to tensors in internal units.
    """

    device: str
    n_bytes: int
    seconds: float

    def __str__(self) -> str:
        size = f"{self.n_bytes / 1e9:.2f} GB" if self.n_bytes >= 1e7 else f"{self.n_bytes:,} bytes"
        return f"Moving {size} of rows to {self.device} took {1e3 * self.seconds:,.1f} ms."


def move_on_clock(problem: Problem, batch: Batch, device: str) -> tuple[TensorRows, MovedRows]:
    """Do what `move` does, and say what it took."""
    import torch

    begun = time.perf_counter()
    rows = move(problem, batch, device)
    if device != "cpu":
        torch.cuda.synchronize(device)
    return rows, MovedRows(device, rows.n_bytes, time.perf_counter() - begun)


def own_limits(batch: Batch) -> bool:
    """Say whether alternatives have limits of their own."""
    return batch.observation.limit.shape[1] > 1 or batch.observation.upper is not None


def bytes_per_row(problem: Problem, batch: Batch) -> int:
    """Return how much of the device's memory a row takes."""
    n_alternatives, n_covariates = problem.equations.n_alternatives, batch.rows.covariates.shape[1]
    doubles = n_covariates + 2 + (batch.rows.weights is not None)
    if own_limits(batch):
        doubles += n_alternatives
    if batch.observation.upper is not None:
        doubles += n_alternatives
    return 8 * doubles + n_alternatives


def move(problem: Problem, batch: Batch, device: str) -> TensorRows:
    """Turn rows into tensors in internal units, a portion at a time."""
    import torch

    from selfselect.kernels.known_index import BETWEEN
    from selfselect.kernels.torch_rows import TensorRows, pack

    rows, observation, units = batch.rows, batch.observation, problem.units
    assert rows.outcome is not None
    n_rows, n_covariates = rows.covariates.shape
    aligned = -(-n_rows // ALIGNED) * ALIGNED
    table = torch.empty((n_covariates + 2, aligned), dtype=torch.float64, device=device)
    table = table[:, :n_rows]
    status = torch.empty(observation.status.shape[::-1], dtype=torch.int8, device=device)
    own = own_limits(batch)
    limits = torch.empty(status.shape, dtype=table.dtype, device=device) if own else None
    upper = None if observation.upper is None else torch.empty_like(limits)
    weights = None if rows.weights is None else _tensor(rows.weights).to(device)
    shift, unit = (_tensor(one[1:]).to(device)[:, None] for one in (units.shift, units.unit))
    table[-2] = 1.0
    step = max(1, MOVED_AT_ONCE // (8 * (n_covariates + 1)))
    for first in range(0, n_rows, step):
        here = slice(first, first + step)
        part = _tensor(rows.covariates[here]).to(device).T
        table[:-2, here] = part.sub(shift).div_(unit)
        table[-1, here] = -_inside(_tensor(rows.outcome[here]).to(device), units)
        status[:, here] = _tensor(observation.status[here]).to(device).T
        for target, source in ((limits, observation.limit), (upper, observation.upper)):
            if target is not None and source is not None:
                limited = status[:, here] <= BETWEEN
                value = _inside(_tensor(source[here]).to(device).T, units)
                # Where a limit means nothing it may be anything, and 0 * nan is not 0.
                target[:, here] = torch.where(limited, value, 0.0)
    codes = None if device == "cpu" else pack(status)
    return TensorRows(table, status, weights, limits, upper, codes)


def _inside(values: Tensor, units: Any) -> Tensor:
    """Return outcomes or limits in internal units."""
    return (values - units.outcome_shift) / units.outcome_unit


def _tensor(values: NDArray[Any]) -> Tensor:
    """Return an array as a tensor of the host, without a copy where strides allow it."""
    import torch

    if not values.flags.writeable or any(stride < 0 for stride in values.strides):
        values = values.copy()
    return torch.from_numpy(values)


# Rows as tensors on a graphics card (or on the processor), summed there.
#
# The rows are moved once. Tasks that have a twin for tensors are summed on the device, and only
# their sums come back; all others run on the host, on the rows it holds anyway. A task knows
# nothing of it.


Array = NDArray[np.float64]

SHARE = 0.8
"""Share of a card's free memory that rows may take; the rest is for what a pass needs."""

PASS_BYTES = 2**30
"""Memory a pass over one chunk may take beside the rows."""

FEWEST_ROWS = 1_024
"""Rows below which chunks are not made smaller: less is no work for a device."""

CHUNK_ON_HOST = 8_192
"""Rows per chunk on the processor: what operations leave behind should stay in its cache."""


ROWS_AT_ONCE_ON_CARD = 2**24
"""Rows, times places, that climbs side by side share a pass for: it takes a card a millisecond."""


@dataclass(frozen=True)
class Torch:
    """Hold the rows as PyTorch tensors on a device and sum over them there.

    Parameters
    ----------
    device : ``"cuda"``, ``"cuda:1"``, ``"cpu"``; None for the card if there is one.
    chunk_rows : rows per chunk of a pass; None chooses them. Where the card cannot hold all rows,
        that many at a time are moved to it in every pass.

    Notes
    -----
    Sums of the exact log-likelihood (rules with bounds and independent noise, known or unknown
    index), of its derivatives, and Gram matrices are done on the device, in double precision.
    Everything else (predictions, score products of robust covariances, noise that joins
    alternatives, scales that move with covariates) is done on the host, and is the same as without
    this engine. ``fit.engine.moved`` says what moving the rows took.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> engine = ss.engines.Torch("cpu")
    >>> fit = ss.fit("income ~ height", villagers, chosen="job", engine=engine)
    >>> fit.converged
    True
    >>> print(fit.engine.moved)  # doctest: +ELLIPSIS
    Moving 13,000 bytes of rows to cpu took ... ms.
    """

    threads: ClassVar[int | None] = None

    device: Any = None
    chunk_rows: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", as_device(self.device))
        if self.chunk_rows is not None and not (
            isinstance(self.chunk_rows, int) and self.chunk_rows >= 1
        ):
            raise OptionError(
                f"chunk_rows={self.chunk_rows!r} is not possible: give a positive number of rows, "
                "or None to have it chosen."
            )

    def open(self, data: Any) -> None:
        """Leave tables as they are: they are read at once."""

    def load(self, problem: Problem, rows: Rows) -> OnDevice:
        """Observe all rows and move them to the device."""
        host = Memory().load(problem, rows)
        return OnDevice.place(self, problem, partial(_itself, host), len(rows))


@dataclass(frozen=True, eq=False)
class OnDevice:
    """Rows on a device, with the way back to those on the host.

    Attributes
    ----------
    choice : device and chunks.
    problem : the one the rows were observed for; its units are those of the tensors.
    make_host : makes the engine that holds the same rows on the host, when it is needed.
    resident : the rows as tensors; None where they do not fit and are moved in every pass.
    n_rows : how many rows there are.
    moved : what moving all rows took; None where they are moved in every pass.
    """

    choice: Torch
    problem: Problem = field(repr=False)
    make_host: Callable[[], RowsInMemory] = field(repr=False)
    resident: TensorRows | None = field(repr=False)
    n_rows: int
    moved: MovedRows | None = None

    @classmethod
    def place(
        cls, choice: Torch, problem: Problem, make_host: Callable[[], RowsInMemory], n_rows: int
    ) -> OnDevice:
        """Move rows to the device, or leave them on the host where they do not fit."""
        streamed = cls(choice, problem, make_host, None, n_rows)
        if not _has_twins(problem):
            return streamed
        room, batch = free_bytes(choice.device), streamed.host.batch
        if room is not None and n_rows * bytes_per_row(problem, batch) > SHARE * room:
            return streamed
        try:
            resident, moved = move_on_clock(problem, batch, choice.device)
        except out_of_memory():
            return streamed
        return replace(streamed, resident=resident, moved=moved)

    @cached_property
    def host(self) -> RowsInMemory:
        """The same rows on the host."""
        return self.make_host()

    @property
    def holds_rows(self) -> bool:
        return True

    @property
    def rows_at_once(self) -> int:
        return ROWS_AT_ONCE if self.choice.device == "cpu" else ROWS_AT_ONCE_ON_CARD

    @property
    def rows(self) -> Rows:
        return self.host.rows

    @cached_property
    def weight_total(self) -> float:
        if self.resident is None:
            return self.host.weight_total
        weights = self.resident.weights
        return float(self.n_rows if weights is None else weights.sum())

    @cached_property
    def own_limits(self) -> bool:
        """Whether alternatives have limits of their own."""
        if self.resident is not None:
            return self.resident.limits is not None
        return own_limits(self.host.batch)

    def sum(self, task: Callable[[Batch], Sum]) -> Sum:
        from selfselect.engines._torch_tasks import twin_of

        twin = twin_of(task, self.problem)
        if twin is None:
            return self.host.sum(task)
        found: Sum = twin(self)
        return found

    def collect(self, task: Callable[[Batch], Array]) -> Array:
        return self.host.collect(task)

    def map(self, task: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        # Threads would take turns on a card, and in Python between its passes.
        yield from parallel_map(task, *items, n_threads=None if self.choice.device == "cpu" else 1)

    def sample(self, n_rows: int, rng: Generator) -> OnDevice | RowsInMemory:
        part = self
        if n_rows < self.n_rows:
            part = self._taking(spread_evenly(self.n_rows, n_rows, rng))
        # A search from many starts is no work for operations of PyTorch on the processor.
        searched = self.choice.device == "cpu" and not self.problem.likelihood.concave
        return part.host if searched else part

    def recorded(self) -> OnDevice:
        outcome = self.rows.outcome
        assert outcome is not None
        lacking = np.isnan(outcome)
        return self if not lacking.any() else self._taking(np.flatnonzero(~lacking))

    def _taking(self, which: NDArray[np.intp]) -> OnDevice:
        """Keep some rows: on the device where they are there, on the host when it is asked."""
        make_host = partial(_taken, self, which)
        if self.resident is None:
            return OnDevice.place(self.choice, self.problem, make_host, len(which))
        import torch

        at = torch.from_numpy(which).to(self.choice.device)
        return replace(
            self, make_host=make_host, resident=self.resident.take(at), n_rows=len(which)
        )

    def reweighted(self, factor: Array) -> OnDevice:
        make_host = partial(_reweighted, self, factor)
        if self.resident is None:
            return replace(self, make_host=make_host)
        import torch

        weights = torch.from_numpy(np.ascontiguousarray(factor)).to(self.choice.device)
        if self.resident.weights is not None:
            weights = weights * self.resident.weights
        return replace(self, make_host=make_host, resident=replace(self.resident, weights=weights))

    def resampled(self, rng: Generator, *, repeated: bool, n_clusters: int) -> OnDevice:
        return self.reweighted(
            times_drawn(self.rows, rng, repeated=repeated, n_clusters=n_clusters)
        )

    def single_threaded(self) -> OnDevice:
        return replace(self, make_host=partial(_single_threaded, self))

    def add_up(self, kernel: Callable[[TensorRows], Tensor], n_doubles: int) -> Array:
        """Add what `kernel` returns for every chunk, in the order of the chunks.

        It keeps `n_doubles` numbers per row beside the rows. Chunks are made smaller where the
        device has no room for them.
        """
        step = self.choice.chunk_rows or self._chunk_rows(n_doubles)
        while True:
            try:
                return self._add_up(kernel, step)
            except out_of_memory() as error:
                if step <= FEWEST_ROWS:
                    raise EngineError(self._no_room(step)) from error
                step = max(FEWEST_ROWS, min(step, self.n_rows) // 4)

    def _chunk_rows(self, n_doubles: int) -> int:
        if self.choice.device == "cpu":
            return CHUNK_ON_HOST
        step = PASS_BYTES // (8 * n_doubles) if n_doubles else self.n_rows
        if self.resident is None:
            # Asking a card takes it longer than a short pass.
            room = free_bytes(self.choice.device)
            per_row = 8 * n_doubles + 2 * bytes_per_row(self.problem, self.host.batch)
            step = step if room is None else min(step, int(SHARE * room) // per_row)
        return max(FEWEST_ROWS, step)

    def _add_up(self, kernel: Callable[[TensorRows], Tensor], step: int) -> Array:
        total: Tensor | None = None
        for chunk in self._chunks(step):
            part = kernel(chunk)
            total = part if total is None else total.add_(part)
        assert total is not None
        return total.cpu().numpy()

    def _chunks(self, step: int) -> Iterator[TensorRows]:
        for first in range(0, max(self.n_rows, 1), step):
            if self.resident is not None:
                yield self.resident.slice(first, first + step)
            else:
                batch = self.host.batch.take(slice(first, first + step))
                yield move(self.problem, batch, self.choice.device)

    def _no_room(self, step: int) -> str:
        needed = step * bytes_per_row(self.problem, self.host.batch)
        free = free_bytes(self.choice.device)
        room = "" if free is None else f" of which {free / 2**20:.0f} MiB are free,"
        return (
            f"The memory of device {self.choice.device!r},{room} does not hold even {step:,} rows "
            f"({needed / 2**20:.0f} MiB) and what a pass over them needs. Free memory on it (other "
            "processes may hold some), or leave `engine` out to sum in this machine's memory."
        )


def _itself(host: RowsInMemory) -> RowsInMemory:
    return host


def _taken(parent: OnDevice, which: NDArray[np.intp]) -> RowsInMemory:
    return parent.host.take(which)


def _reweighted(parent: OnDevice, factor: Array) -> RowsInMemory:
    return parent.host.reweighted(factor)


def _single_threaded(parent: OnDevice) -> RowsInMemory:
    return parent.host.single_threaded()


def _has_twins(problem: Problem) -> bool:
    """Say whether the likelihood is one the device evaluates; else rows need not be there."""
    return problem.likelihood.on_device
