"""Normal noise that is correlated across alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.kernels.ghk import ghk_atoms, ghk_means
from selfselect.kernels.joint import (
    Indices,
    JointTerms,
    Sides,
    correlated_pair_atoms,
    correlated_pair_means,
)
from selfselect.noises._shaped import as_matrix, completed, fixed_pairs, name_limit, name_singular
from selfselect.noises.base import COMMON, Begin, Extra, FittedNoise, Points
from selfselect.noises.independent import Independent
from selfselect.plain import archived
from selfselect.rules.base import Label

Array = NDArray[np.float64]

CORRELATION = "correlation"
"""The term of a correlation in tables of results."""

BEGINS = (0.0, 0.5, -0.5)
"""Where searches begin with the correlations; negative ones are shared by all pairs."""

MOST_DRAWS = 8_192

MOMENT_DRAWS = 256
"""Points by which moments are simulated: tests sum them over rows, whose errors are unrelated."""

NEARLY_ONE = 0.995
"""A correlation this close to 1 or -1 may be running to its limit, and so may correlations whose
matrix has an eigenvalue that close to zero."""

ONE = 0.99999
"""A correlation this close to 1 or -1 is at its limit."""

CLOSER = 0.1
"""Share of the way to 1 or -1 that is left where it is asked whether the likelihood falls."""


@archived("correlated")
@dataclass(frozen=True)
class Correlated(FittedNoise):
    r"""Normal noise with correlations across alternatives, independent across rows.

    Two alternatives have a likelihood in closed form. For three and more it is simulated (GHK)
    with `draws` points that never change; the solver doubles them until the estimates stay.

    Parameters
    ----------
    scale : as in `Independent`.
    correlation : ``"each"`` estimates one per pair (the default); ``"common"`` estimates one for
        all pairs; a number fixes all of them; a mapping ``{("a", "b"): 0.5}``, or a matrix with
        nan elsewhere, fixes some and leaves the others to be estimated.
    draws : points of the simulation to begin with, for three or more alternatives.

    Examples
    --------
    >>> from selfselect.noises import Correlated
    >>> Correlated(correlation=0.5).name
    'normal, correlation across alternatives fixed at 0.5; one scale per alternative'
    """

    scale: str | float | Mapping[Any, float | str] | Sequence[float] = "each"
    correlation: Any = "each"
    draws: int = 256

    joint: ClassVar[bool] = True
    correlated: ClassVar[bool] = True
    takes_formulas: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Independent(self.scale)
        given = self.correlation
        numbers = given.values() if isinstance(given, Mapping) else np.ravel(given).tolist()
        if isinstance(given, str):
            known = given in ("each", "common")
        else:
            known = all(isinstance(value, int | float | np.number) for value in numbers)
        if not known:
            raise OptionError(
                f"There is no correlation {given!r}. Use 'each' (one unknown per pair), "
                "'common' (one unknown for all pairs), a number between -1 and 1, or a "
                "mapping or matrix that fixes some."
            )
        for value in () if isinstance(given, str) else numbers:
            on_diagonal = np.ndim(given) == 2 and value == 1.0
            if not (on_diagonal or np.isnan(value) or -1 < value < 1):
                raise OptionError(f"A correlation lies between -1 and 1, not at {value!r}.")
        if not (isinstance(self.draws, int | np.integer) and self.draws >= 16):
            raise OptionError(f"draws={self.draws!r} is too few. Use at least 16.")

    @property
    def gaussian(self) -> bool:
        return True

    @property
    def name(self) -> str:
        scale = Independent(self.scale).name.split("; ")[1]
        if isinstance(self.correlation, int | float | np.number):
            free = f"correlation across alternatives fixed at {self.correlation:g}"
        elif isinstance(self.correlation, str):
            free = "correlated across alternatives" + (
                ", one correlation for all pairs" if self.correlation == "common" else ""
            )
        else:
            free = "correlated across alternatives, some correlations fixed"
        return f"normal, {free}; {scale}"

    @property
    def spread(self) -> str | Mapping[Any, str] | None:
        return Independent(self.scale).spread

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array | None:
        return Independent(self.scale).fixed_scales(alternatives)

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        k = len(alternatives)
        fixed = fixed_pairs(self.correlation, alternatives)
        begin = completed(fixed, k)
        made = []
        for place, pair in enumerate(combinations(range(k), 2)):
            label = f"{alternatives[pair[0]]} & {alternatives[pair[1]]}"
            common = isinstance(self.correlation, str) and self.correlation == "common"
            if common and k > 2:
                label = COMMON
            made.append(
                Extra(
                    (label, CORRELATION),
                    start=float(begin[pair]),
                    fixed=fixed.get(pair),
                    tied_to=0 if common and place else None,
                )
            )
        return tuple(made)

    def renumbered(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        pairs = {pair: i for i, pair in enumerate(combinations(range(len(order)), 2))}
        moved = [tuple(sorted((int(order[j]), int(order[m])))) for j, m in pairs]
        return np.array([pairs[j, m] for j, m in moved], dtype=np.intp)

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        values = [extra.fixed for extra in self.extras(alternatives)]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            raise OptionError(
                "To draw correlated noise every correlation must be known. Give "
                "Correlated(correlation=...) a number or a full matrix."
            )
        root = np.linalg.cholesky(as_matrix(known, len(alternatives)))
        drawn: Array = rng.standard_normal((n_rows, len(alternatives))) @ root.T
        return drawn * np.asarray(scales, float)

    def standard_covariance(self, extras: Array, inverse_scales: Array) -> Array:
        k = len(inverse_scales)
        return as_matrix(extras[: k * (k - 1) // 2], k)

    def simulated(self, n_alternatives: int) -> bool:
        return n_alternatives > 2

    def compiled(self, n_alternatives: int, index: str) -> bool:
        del index
        return n_alternatives == 2

    def possible(self, extras: Array) -> bool:
        return bool(abs(extras[0]) < 1.0)

    def points(self, n_alternatives: int) -> Points | None:
        if not self.simulated(n_alternatives):
            return None
        return Points(int(self.draws), MOST_DRAWS, "draws", alike=False)

    def with_points(self, number: int) -> Self:
        return replace(self, draws=number)

    def narrowest(self, covariance: Array, extras: Array) -> float:
        del extras
        return float(np.sqrt(max(np.linalg.eigvalsh(covariance)[0], 1e-4)))

    def evaluate(
        self,
        a: Array,
        chosen: Indices,
        side: Sides,
        extras: Array,
        *,
        keys: Any,
        curvature: bool,
    ) -> JointTerms:
        k = a.shape[1]
        if k == 2:
            if not self.possible(extras):
                nothing = np.zeros((len(a), 3, 3))
                return JointTerms(np.full(len(a), -np.inf), nothing[:, 0], nothing)
            return correlated_pair_atoms(a, chosen, side, float(extras[0]), curvature=curvature)
        pairs = extras[: k * (k - 1) // 2]
        held = isinstance(self.correlation, int | float | np.number)
        return ghk_atoms(
            a, chosen, side, pairs, keys, draws=self.draws, curvature=curvature, held=held
        )

    def hermite_means(
        self, a: Array, chosen: Indices, side: Sides, extras: Array, *, keys: Any
    ) -> Array:
        k = a.shape[1]
        if k == 2:
            return correlated_pair_means(a, chosen, side, float(extras[0]))
        pairs = extras[: k * (k - 1) // 2]
        return ghk_means(a, chosen, side, pairs, keys, draws=min(self.draws, MOMENT_DRAWS))

    def begins(self, free: NDArray[np.bool_], inverse_scales: Array) -> list[Begin]:
        k = len(inverse_scales)
        if not free.any():
            return []
        # Correlations that are all negative must be small for their matrix to exist.
        values = [r if r >= 0 else r / max(1, k - 1) for r in BEGINS]
        return [Begin(f"correlation {r:g}", np.full(len(free), r)) for r in values]

    def boundary(
        self,
        alternatives: Sequence[Label],
        covariance: Array,
        extras: Array,
        *,
        known_scales: bool,
    ) -> str | None:
        del extras, known_scales
        free = [extra.fixed is None for extra in self.extras(alternatives)]
        found = name_limit(alternatives, covariance, free, NEARLY_ONE)
        return found or name_singular(alternatives, covariance, free, 1.0 - NEARLY_ONE)

    def at_limit(self, extras: Array) -> Array | None:
        near = (np.abs(extras) > NEARLY_ONE) & (np.abs(extras) < ONE)
        if near.any():
            closer = np.sign(extras) * (1.0 - CLOSER * (1.0 - np.abs(extras)))
            return np.where(near, closer, extras)
        if not isinstance(self.correlation, str):
            return None
        # All correlations times the same number: what is left of the smallest eigenvalue shrinks.
        k = round(0.5 + np.sqrt(0.25 + 2.0 * len(extras)))
        left = float(np.linalg.eigvalsh(as_matrix(extras, k))[0])
        if not 1.0 - ONE < left < 1.0 - NEARLY_ONE:
            return None
        return extras * (1.0 - CLOSER * left) / (1.0 - left)
