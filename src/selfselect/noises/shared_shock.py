"""Normal noise with a shock that all alternatives share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.noises.base import COMMON, Extra
from selfselect.noises.independent import Independent
from selfselect.plain import archived
from selfselect.rules._labels import by_alternative
from selfselect.rules.base import Label

__all__ = ["LOADING", "SharedShock"]

Array = NDArray[np.float64]

LOADING = "loading"
"""The term of a loading on the shared shock in tables of results."""


@archived("shared shock")
@dataclass(frozen=True)
class SharedShock:
    r"""Normal noise made of a shock that all alternatives of a row share, and one of their own.

    .. math:: y_{ij} = x_{ij}'w_j + b_j u_i + \sigma_j e_{ij}

    Scales are those of the own part. The sign of u is free: the largest loading is made
    positive. As the own parts vanish, what is seen becomes max-affine regression,
    :math:`\max_j (x'w_j) + b u`.

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

    def __post_init__(self) -> None:
        Independent(self.scale)
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
