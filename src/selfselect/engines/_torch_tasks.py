"""Tasks that have a twin for tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from selfselect.errors import SelfSelectWarning, warn_user
from selfselect.kernels import torch_card, torch_known
from selfselect.kernels.torch_card import card
from selfselect.kernels.torch_known import pairs_of
from selfselect.kernels.torch_rows import WIDEST_GRAMS, weighted_grams
from selfselect.kernels.unknown_index import Curvature
from selfselect.likelihoods import evaluate, evaluate_places, sum_chances
from selfselect.problem.batch import Evaluation, Parts
from selfselect.problem.problem import Problem, sum_columns, sum_grams
from selfselect.problem.units import Units

if TYPE_CHECKING:
    from selfselect.engines.torch import OnDevice
    from selfselect.kernels.torch_rows import TensorRows


# Which kernels sum tensors of a device: those written for a card, or operations of PyTorch.


@dataclass(frozen=True)
class Kernels:
    """Sums over rows of the two kinds of likelihood.

    Attributes
    ----------
    known, unknown : at one place.
    places : of the unknown index at several places, without curvature.
    room : shared memory of a card's multiprocessors, where its own kernels read rows into it.
    """

    known: Callable[..., Any]
    unknown: Callable[..., Any]
    places: Callable[..., Any]
    room: int = 0

    def doubles_per_row(
        self,
        n_alternatives: int,
        width: int,
        *,
        known: bool,
        curvature: Curvature,
        own_limits: bool,
    ) -> int:
        """Return how many numbers a pass keeps per row beside the rows themselves."""
        k = n_alternatives
        if not own_limits and torch_card.fits(
            width, k, known=known, curvature=curvature, room=self.room
        ):
            return 0
        narrow = self.room > 0 and width <= WIDEST_GRAMS
        n_grams = 0 if curvature == "none" else k if known else k * (k + 1) // 2
        return k * (20 + k) + (0 if narrow else n_grams * width)


OLDEST = (8, 0)
"""The first cards (Ampere) with matrix units for double precision, and copies to shared memory."""

PLAIN = Kernels(
    torch_known.sum_known_rows,
    torch_known.sum_unknown_rows,
    torch_known.sum_unknown_places,
)
"""By operations of PyTorch alone, on any device."""


@cache
def kernels_for(device: str) -> Kernels:
    """Return the kernels for a device; compiled ones where there is a compiler for it."""
    if device == "cpu" or torch.version.cuda is None:
        return PLAIN
    if torch.cuda.get_device_capability(device) < OLDEST:
        return PLAIN
    return Kernels(
        _or_else(torch_card.sum_known_rows, PLAIN.known),
        _or_else(torch_card.sum_unknown_rows, PLAIN.unknown),
        _or_else(torch_card.sum_unknown_places, PLAIN.places),
        card(torch.device(device).index or 0).shared_bytes,
    )


def _or_else(compiled: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return kernels that go on by operations of PyTorch where a card's compiler gives up."""
    broken = False
    # Solvers climb from several starts at once; a compiler is no place to meet.
    one_by_one = Lock()

    def kernel(*args: Any, **options: Any) -> Any:
        nonlocal broken
        if not broken:
            try:
                with one_by_one:
                    return compiled(*args, **options)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                broken = True
                warn_user(
                    "The kernels for this card could not be compiled; sums are done by operations "
                    f"of PyTorch, several times slower. ({type(error).__name__}: {error})",
                    SelfSelectWarning,
                )
        return plain(*args, **options)

    return kernel


# Tasks that have a twin for tensors, and what becomes of its sums.
#
# A task is a function with its first arguments filled in. `TWINS` says what does the same on a
# device. Kernels there know every alternative by (D + 2) parameters, one for each row of the
# table; what an equation leaves out is zero, and left out of the result.


Array = NDArray[np.float64]

HALF_LOG_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)


def twin_of(task: Any, loaded: Problem) -> Callable[[OnDevice], Any] | None:
    """Return what does a task on a device, or None where only the host can."""
    if not isinstance(task, partial) or task.func not in TWINS or not task.args:
        return None
    problem = task.args[0]
    # Tensors are in the units of the problem they were made for.
    if problem.index != loaded.index or not _same_units(problem.units, loaded.units):
        return None
    if not problem.likelihood.on_device:
        return None
    return partial(TWINS[task.func], *task.args, **task.keywords)


def _same_units(one: Units, other: Units) -> bool:
    return one is other or all(
        np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
    )


@dataclass(frozen=True, eq=False)
class Places:
    """Where natural parameters stand among those of the kernels, (k, D + 2) of them.

    Attributes
    ----------
    shape : (k, D + 2).
    kept : (n_natural,) flat position of each.
    """

    shape: tuple[int, int]
    kept: NDArray[np.intp]

    @property
    def own(self) -> list[NDArray[np.intp]]:
        """Per alternative the table's rows that enter it, the outcome last."""
        alternative, place = np.divmod(self.kept, self.shape[1])
        return [place[alternative == j] for j in range(self.shape[0])]


@lru_cache(maxsize=64)
def _places(problem: Problem) -> Places:
    n_covariates = len(problem.units.shift) - 1
    width = n_covariates + 2
    kept = [
        j * width
        + np.append([n_covariates if c == 0 else c - 1 for c in equation.columns], width - 1)
        for j, equation in enumerate(problem.equations.each)
    ]
    return Places((len(kept), width), np.concatenate(kept).astype(np.intp))


def _evaluate(
    problem: Problem, natural: Array, engine: OnDevice, *, curvature: Curvature = "exact"
) -> Evaluation:
    """Do what `evaluate` does."""
    places, known = _places(problem), problem.index == "known"
    n_alternatives, width = places.shape
    size = n_alternatives * width
    h = natural[problem.layout.inverse_scale_positions]
    sums = _likelihood_sums(problem, natural, engine, curvature)
    loglik, counts = float(sums[0]), sums[1 : n_alternatives + 1]
    score = sums[n_alternatives + 1 : n_alternatives + 1 + size].reshape(places.shape)
    rest = sums[n_alternatives + 1 + size :]
    score[:, -1] += counts / h
    if known:
        chosen = counts != 0.0
        loglik += float(counts[chosen] @ (np.log(h[chosen]) - HALF_LOG_TWO_PI))
    loglik -= engine.weight_total * math.log(problem.units.outcome_unit)
    score = score.reshape(-1)[places.kept]
    if curvature == "none":
        return Evaluation(loglik, score, np.zeros((len(score), len(score))))
    hessian = np.zeros((n_alternatives, width, n_alternatives, width))
    own = -rest[: size * width].reshape(n_alternatives, width, width)
    if curvature == "exact" and not known:
        counts = _cross_blocks(rest[size * width :], h, hessian)
    own[:, -1, -1] -= counts / h**2
    each = np.arange(n_alternatives)
    hessian[each, :, each] = own
    whole = hessian.reshape(size, size)[np.ix_(places.kept, places.kept)]
    return Evaluation(loglik, score, whole)


def _likelihood_sums(
    problem: Problem, natural: Array, engine: OnDevice, curvature: Curvature
) -> Array:
    """Return what the kernels of the likelihood add up."""
    places, known = _places(problem), problem.index == "known"
    parameters = np.zeros(places.shape)
    parameters.reshape(-1)[places.kept] = natural
    at = torch.from_numpy(parameters).to(engine.choice.device)
    kernels = kernels_for(engine.choice.device)
    kernel: Callable[[TensorRows], Any]
    if known:
        kernel = partial(kernels.known, parameters=at, curved=curvature != "none")
    else:
        kernel = partial(kernels.unknown, parameters=at, side=problem.side, curvature=curvature)
    n_doubles = kernels.doubles_per_row(
        *places.shape, known=known, curvature=curvature, own_limits=engine.own_limits
    )
    return engine.add_up(kernel, n_doubles)


def _evaluate_places(problem: Problem, naturals: Array, engine: OnDevice) -> Parts:
    """Do what `evaluate_places` does."""
    if problem.index == "known":
        each = [_evaluate(problem, one, engine, curvature="none") for one in naturals]
        return Parts(
            (np.array([one.loglik for one in each]), np.stack([one.score for one in each]))
        )
    places, kernels = _places(problem), kernels_for(engine.choice.device)
    n_places, (k, width) = len(naturals), places.shape
    parameters = np.zeros((n_places, k * width))
    parameters[:, places.kept] = naturals
    at = torch.from_numpy(parameters.reshape(n_places, k, width)).to(engine.choice.device)
    n_doubles = kernels.doubles_per_row(
        k, width, known=False, curvature="none", own_limits=engine.own_limits
    )
    sums = engine.add_up(partial(kernels.places, parameters=at, side=problem.side), n_doubles)
    logliks = sums[:, 0] - engine.weight_total * math.log(problem.units.outcome_unit)
    scores = sums[:, 1 + k :].reshape(n_places, k, width)
    scores[:, :, -1] += sums[:, 1 : 1 + k] / naturals[:, problem.layout.inverse_scale_positions]
    return Parts((logliks, scores.reshape(n_places, -1)[:, places.kept]))


def _chances(problem: Problem, natural: Array, engine: OnDevice) -> Array:
    """Do what `sum_chances` does."""
    sums = _likelihood_sums(problem, natural, engine, "none")
    return sums[1 : problem.equations.n_alternatives + 1]


def _cross_blocks(rest: Array, h: Array, hessian: Array) -> Array:
    """Fill the blocks of two alternatives; return each one's sum of squared chances."""
    n_alternatives, width = hessian.shape[:2]
    n_pairs = n_alternatives**2
    products = rest[:n_pairs].reshape(n_alternatives, n_alternatives)
    mixed = rest[n_pairs : n_pairs * (1 + width)].reshape(n_alternatives, n_alternatives, width)
    grams = rest[n_pairs * (1 + width) :].reshape(-1, width, width)
    for (j, i), gram in zip(pairs_of(n_alternatives), grams, strict=True):
        block = gram.copy()
        block[:, -1] += mixed[j, i] / h[i]
        block[-1] += mixed[i, j] / h[j]
        block[-1, -1] += products[j, i] / (h[j] * h[i])
        hessian[j, :, i], hessian[i, :, j] = -block, -block.T
    return np.diag(products)


def _grams(problem: Problem, engine: OnDevice) -> Parts:
    """Do what `sum_grams` does."""
    places = _places(problem)
    width = places.shape[1]
    gram = engine.add_up(_gram_of, 2 * width).reshape(width, width)
    gram[-1] *= -1.0
    gram[:, -1] *= -1.0
    return Parts(gram[np.ix_(own, own)] for own in places.own)


def _columns(problem: Problem, engine: OnDevice) -> Array:
    """Do what `sum_columns` does."""
    return engine.add_up(_columns_of, 0)[_places(problem).own[0][:-1]]


def _columns_of(rows: TensorRows) -> Any:
    if rows.weights is None:
        return rows.table.sum(dim=1)
    return torch.matmul(rows.table, rows.weights)


def _gram_of(rows: TensorRows) -> Any:
    if rows.weights is None:
        return torch.matmul(rows.table, rows.table.T).reshape(-1)
    return weighted_grams(rows.table, rows.weights[None]).reshape(-1)


TWINS: Final[dict[Any, Callable[..., Any]]] = {
    evaluate: _evaluate,
    evaluate_places: _evaluate_places,
    sum_chances: _chances,
    sum_columns: _columns,
    sum_grams: _grams,
}
"""The functions behind tasks, and their twins; the engine takes the place of the batch."""
