"""Moving rows to a device, as tensors in internal units."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from selfselect.problem.batch import Batch
from selfselect.problem.problem import Problem

if TYPE_CHECKING:
    from torch import Tensor

    from selfselect.kernels.torch_rows import TensorRows

__all__ = ["Moved", "bytes_per_row", "move", "move_on_clock", "own_limits"]

ALIGNED = 16
"""Rows of the table start at multiples of this many numbers, so that a card reads two at a time."""

MOVED_AT_ONCE = 2**27
"""Bytes of rows that are moved to the device in one go."""


@dataclass(frozen=True)
class Moved:
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


def move_on_clock(problem: Problem, batch: Batch, device: str) -> tuple[TensorRows, Moved]:
    """Do what `move` does, and say what it took."""
    import torch

    begun = time.perf_counter()
    rows = move(problem, batch, device)
    if device != "cpu":
        torch.cuda.synchronize(device)
    return rows, Moved(device, rows.n_bytes, time.perf_counter() - begun)


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

    from selfselect.kernels.status import BETWEEN
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
