"""Independent noise whose distribution is a mixture of normal ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from selfselect.errors import OptionError
from selfselect.noises._shaped import Shaped
from selfselect.noises.base import FittedNoise
from selfselect.noises.independent import Independent
from selfselect.noises.shapes import Shape
from selfselect.noises.shapes._mixture import MixtureFamily
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.plain import archived

MOST = 8
"""Components that are tried at most."""

TRIED = 4
"""Numbers of components among which BIC chooses: 1 up to this."""

ROWS_EACH = 25
"""Rows that a component needs at least."""


@archived("mixture")
@dataclass(frozen=True)
class Mixture(Shaped):
    r"""Independent noise of any shape that a mixture of normal distributions can take.

    .. math:: y_{ij} = x_{ij}'w_j + \sigma_j e_{ij}, \qquad
       f(e) = \sum_m \pi_m N(e; \mu_m, s_m^2)

    with :math:`\sum\pi_m\mu_m = 0` and :math:`\sum\pi_m(s_m^2 + \mu_m^2) = 1`: an intercept is that
    of a mean, and a scale is a standard deviation. The estimates include the share, the mean and
    the spread of every component but the first, in units of the scale. The first component has the
    largest share; its numbers follow from the others.

    Two components can model heavy tails (equal means, unequal spreads) or skewness. The likelihood
    has several optima: searches begin with heavy tails and with skewness to either side.

    Parameters
    ----------
    components : how many. Where the data do not show the last one (it has almost no spread, or
        cannot be told from the others), the estimates are those with one component fewer, and the
        status says so. ``"bic"`` fits 1 to 4 and keeps the fit with the smallest BIC. One
        component is normal noise.
    each : whether every alternative has a mixture of its own; else one is that of all.
    scale : as in `Independent`.

    Examples
    --------
    >>> from selfselect.noises import Mixture
    >>> Mixture(2).name
    'mixture of 2 normals, independent across alternatives (assumed); one scale per alternative'
    """

    components: int | str = 2
    each: bool = False
    scale: str | float | Mapping[Any, float | str] | Sequence[float] = "each"

    def __post_init__(self) -> None:
        self._check_scale()
        given = self.components
        whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
        if not (given == "bic" or (whole and 1 <= int(given) <= MOST)):
            raise OptionError(
                f"components={given!r} is not a number of components. Use a whole number from 1 to "
                f"{MOST}, or 'bic' to have it chosen among 1 to {TRIED}."
            )
        if not isinstance(self.each, bool):
            raise OptionError(
                f"each={self.each!r} must be True (a mixture for every alternative) or False (one "
                "for all)."
            )

    @property
    def family(self) -> MixtureFamily | None:
        if self.components == 1:
            return None
        return MixtureFamily(2 if isinstance(self.components, str) else int(self.components))

    @property
    def candidates(self) -> tuple[FittedNoise, ...]:
        if self.components != "bic":
            return ()
        return tuple(replace(self, components=m) for m in range(1, TRIED + 1))

    @property
    def simpler(self) -> FittedNoise | None:
        if isinstance(self.components, str) or self.components == 1:
            return None
        return replace(self, components=int(self.components) - 1)

    @property
    def settled(self) -> Shape | None:
        return NORMAL if self.components == 1 else None

    @property
    def name(self) -> str:
        if self.components == "bic":
            scale = Independent(self.scale).name.split("; ")[1]
            return f"mixture of normals, as many as BIC chooses; {scale}"
        return super().name

    def fewest_rows(self, n_alternatives: int) -> int:
        if isinstance(self.components, str) or self.components == 1:
            return 0
        return ROWS_EACH * int(self.components) * (n_alternatives if self.each else 1)
