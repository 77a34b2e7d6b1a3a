"""Normal noise with a shock that all alternatives share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.kernels.fused_unknown import is_steep
from selfselect.kernels.joint import (
    Indices,
    JointTerms,
    Sides,
    shared_shock_atoms,
    shared_shock_means,
)
from selfselect.noises._shaped import name_limit
from selfselect.noises.base import COMMON, Begin, Extra, FittedNoise, Points
from selfselect.noises.independent import Independent
from selfselect.plain import archived
from selfselect.rules.base import Label, by_alternative

Array = NDArray[np.float64]

LOADING = "loading"
"""The term of a loading on the shared shock in tables of results."""

BEGINS = (0.5, 1.5)
"""Where searches begin with the loadings, in units of the own scales."""

MOST_NODES = 121

NEARLY_ONE = 0.995
"""A correlation this close to 1 or -1 may be running to its limit."""

VANISHED = 1e-3
"""Share of an alternative's noise variance that is its own; below it all is the shared shock."""


@archived("shared shock")
@dataclass(frozen=True)
class SharedShock(FittedNoise):
    r"""Normal noise made of a shock that all alternatives of a row share, and one of their own.

    .. math:: y_{ij} = x_{ij}'w_j + b_j u_i + \sigma_j e_{ij}

    Scales are those of the part of each alternative alone. The sign of u is not identified: the
    largest loading is made positive. As the own parts vanish, the observed outcome becomes
    max-affine regression, :math:`\max_j (x'w_j) + b u`. With ``panel=`` all rows of a person share
    the shock, which makes it a random effect.

    Parameters
    ----------
    scale : of the own part, as in `Independent`.
    loading : ``"each"`` estimates one :math:`b_j` per alternative, ``"common"`` one for all; None
        takes ``"each"`` for three or more alternatives and ``"common"`` for two, where two loadings
        and two scales could not be told apart. A number fixes all, a mapping by alternative some.
    nodes : points of the quadrature over the shock to begin with; the solver adds more where
        estimates move.

    Examples
    --------
    >>> from selfselect.noises import SharedShock
    >>> SharedShock(loading="common").name
    'normal with a shock shared by all alternatives, one loading for all; one scale per alternative'
    """

    scale: str | float | Mapping[Any, float] | Sequence[float] = "each"
    loading: Any = None
    nodes: int = 15

    joint: ClassVar[bool] = True
    one_sided: ClassVar[bool] = True
    extras_in_scales: ClassVar[bool] = True
    grouped: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if Independent(self.scale).spread is not None:
            raise OptionError(
                f"The scale {self.scale!r} moves with covariates, which SharedShock does not have: "
                "its shock has one loading for all rows. Use noises.Correlated or "
                "noises.Independent with that scale."
            )
        given = self.loading
        numbers = list(given.values()) if isinstance(given, Mapping) else [given]
        if isinstance(given, str):
            known = given in ("each", "common")
        else:
            known = given is None or all(isinstance(v, int | float | np.number) for v in numbers)
        if not known:
            raise OptionError(
                f"There is no loading {given!r}. Use 'each' (one unknown per alternative), "
                "'common' (one unknown for all), a number, or numbers by alternative, as in "
                "{'fishing': 0.5}."
            )
        for value in numbers:
            if not (value is None or isinstance(value, str) or np.isfinite(value)):
                raise OptionError(f"A loading must be a finite number, not {value!r}.")
        if not (isinstance(self.nodes, int | np.integer) and self.nodes >= 3):
            raise OptionError(f"nodes={self.nodes!r} is too few. Use at least 3.")

    @property
    def gaussian(self) -> bool:
        return True

    @property
    def name(self) -> str:
        scale = Independent(self.scale).name.split("; ")[1]
        how = ""
        if isinstance(self.loading, str) and self.loading == "common":
            how = ", one loading for all"
        elif isinstance(self.loading, int | float | np.number):
            how = f", loading fixed at {self.loading:g}"
        elif isinstance(self.loading, Mapping):
            how = ", some loadings fixed"
        return f"normal with a shock shared by all alternatives{how}; {scale}"

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array | None:
        return Independent(self.scale).fixed_scales(alternatives)

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        given = self.loading
        if given is None:
            given = "each" if len(alternatives) > 2 else "common"
        if given == "each" and len(alternatives) == 2 and self.scale == "each":
            raise OptionError(
                "With two alternatives, two loadings and two scales cannot be told apart: the data "
                "determine two variances and one covariance. Use loading='common', "
                "scale='common', or noises.Correlated()."
            )
        fixed: Mapping[Any, float] = {}
        if isinstance(given, Mapping):
            fixed = by_alternative(given, alternatives, what="loading")
        elif not isinstance(given, str):
            fixed = dict.fromkeys(alternatives, float(given))
        common = isinstance(given, str) and given == "common"
        return tuple(
            Extra(
                (COMMON if common else label, LOADING),
                # At zero the likelihood is flat in the loadings: u and -u are alike.
                start=0.5,
                fixed=fixed.get(label),
                tied_to=0 if common and j else None,
                in_outcome_units=True,
            )
            for j, label in enumerate(alternatives)
        )

    def renumbered(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        return order

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        known = [extra.fixed for extra in self.extras(alternatives) if extra.fixed is not None]
        if len(known) < len(alternatives):
            raise OptionError(
                "To draw noise with a shared shock every loading must be known. Give "
                "SharedShock(loading=...) a number, or one per alternative."
            )
        own = rng.standard_normal((n_rows, len(alternatives))) * np.asarray(scales, float)
        drawn: Array = own + rng.standard_normal((n_rows, 1)) * np.asarray(known)
        return drawn

    def standard_covariance(self, extras: Array, inverse_scales: Array) -> Array:
        k = len(inverse_scales)
        loadings = extras[:k] * inverse_scales
        return np.eye(k) + np.outer(loadings, loadings)

    def compiled(self, n_alternatives: int, index: str) -> bool:
        del n_alternatives
        return index == "known"

    def possible(self, extras: Array) -> bool:
        return not is_steep(extras)

    def points(self, n_alternatives: int) -> Points | None:
        del n_alternatives
        return Points(int(self.nodes), MOST_NODES, "nodes", alike=True)

    def with_points(self, number: int) -> Self:
        return replace(self, nodes=number)

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
        del keys
        loadings = extras[: a.shape[1]]
        return shared_shock_atoms(a, chosen, side, loadings, nodes=self.nodes, curvature=curvature)

    def hermite_means(
        self, a: Array, chosen: Indices, side: Sides, extras: Array, *, keys: Any
    ) -> Array:
        del keys
        return shared_shock_means(a, chosen, side, extras[: a.shape[1]], nodes=self.nodes)

    def begins(self, free: NDArray[np.bool_], inverse_scales: Array) -> list[Begin]:
        if not free.any():
            return []
        return [Begin(f"loading {b:g}", b / inverse_scales) for b in BEGINS]

    def boundary(
        self,
        alternatives: Sequence[Label],
        covariance: Array,
        extras: Array,
        *,
        known_scales: bool,
    ) -> str | None:
        del extras
        # A shock beside known scales makes no correlation that the data could not refuse.
        if known_scales:
            return None
        own = 1.0 / np.diag(covariance)
        if own.min() < VANISHED:
            return (
                f"the own part of the noise of {alternatives[int(own.argmin())]!r} vanishes, "
                f"{100 * own.min():.2g}% of its variance is left and the rest is the shared "
                "shock. Such an estimate has no standard errors. The noise may have correlations "
                "that a shared shock cannot produce: try noises.Correlated()."
            )
        free = [True for _ in combinations(alternatives, 2)]
        return name_limit(alternatives, covariance, free, NEARLY_ONE)

    def turned(self, extras: Array) -> bool:
        return bool(extras[np.abs(extras).argmax()] < 0)

    def why_no_score_test(self) -> str | None:
        return (
            "a loading of zero is where the sign of the shock is lost; use lr_test against the fit "
            "with independent noise"
        )
