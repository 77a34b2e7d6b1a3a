"""Normal noise of outcomes that a selection equation selects, correlated with its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.noises.base import COMMON, Extra, FittedNoise
from selfselect.noises.correlated import CORRELATION
from selfselect.plain import archived
from selfselect.rules.base import Label

Array = NDArray[np.float64]

MILLS = "mills ratio"
"""The term, in tables of two-step estimates, of the Mills ratio's coefficient."""

BOUNDARY = 1.0 - 1e-12
"""The largest correlation with the selection that is tried: the log-likelihood there is that of the
limit to a few thousandths. In the limit it is concave, with linear restrictions: that no row's
noise contradicts its selection."""

SIGN_BOUNDARY = 1.0 - 1e-6
"""The same for a binary outcome, whose likelihood is smooth up to a correlation of one."""

NEARLY_ONE = 0.99
"""Size from which a correlation with the selection may be at its boundary."""


class SelectionCovariance(NamedTuple):
    """Covariances (k,) of the outcomes' noises with that of the selection, and their derivatives.

    Attributes
    ----------
    value : (k,) in units of the outcome.
    by_scale : (k,) each in the scale of its own outcome.
    by_extra : (k, e) in the noise's extras.
    """

    value: Array
    by_scale: Array
    by_extra: Array


@archived("selection")
@dataclass(frozen=True)
class Selection(FittedNoise):
    r"""Normal noise with one scale and one correlation with the selection's noise per outcome.

    A row is selected by the sign of :math:`z'\gamma + u`. The noise of outcome j has scale
    :math:`\sigma_j` and correlation :math:`\rho_j` with u. The likelihood does not depend on the
    correlation of two outcomes' noises, because no row shows both. This is the noise of
    `selfselect.sample_selection` and `selfselect.switching`.

    Parameters
    ----------
    common : whether the noise is the same in all outcomes: one scale and one correlation.

    Examples
    --------
    >>> from selfselect.noises import Selection
    >>> [extra.label for extra in Selection().extras(["union", "other"])]
    [('union', 'correlation'), ('other', 'correlation')]
    """

    common: bool = False

    selected: ClassVar[bool] = True

    @property
    def scale(self) -> str:
        return "common" if self.common else "each"

    @property
    def name(self) -> str:
        which = "the same for all outcomes" if self.common else "one scale per outcome"
        return f"normal, correlated with the noise of the selection; {which}"

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array | None:
        """Return None: scales are estimated."""
        del alternatives
        return None

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        if self.common:
            one = Extra((COMMON, CORRELATION), 0.0, turned=True, limit=BOUNDARY)
            return (one, *(replace(one, tied_to=0) for _ in alternatives[1:]))
        return tuple(
            Extra((label, CORRELATION), 0.0, turned=True, limit=BOUNDARY, alternative=j)
            for j, label in enumerate(alternatives)
        )

    def with_selection(self, scales: Array, extras: Array) -> SelectionCovariance:
        """Return covariances with the selection's noise, at scales and extras as users read them.

        Only the noise's own extras are read.
        """
        correlations = extras[: len(scales)]
        return SelectionCovariance(correlations * scales, correlations, np.diag(scales))

    def n_noises(self, n_alternatives: int) -> int:
        """Return how many noises a row has: those of the outcomes, and the selection's."""
        return n_alternatives + 1

    def from_normal(self, z: Array, extras: Array, inverse_scales: Array) -> Array:
        """Make noises of independent normal numbers; the last column is the selection's noise.

        The noises of two outcomes are correlated by the selection alone. No row shows both, so
        nothing depends on it.
        """
        correlations = self.correlations(extras, len(inverse_scales))
        noise = z.copy()
        noise[:, :-1] *= np.sqrt(1.0 - correlations**2)
        noise[:, :-1] += correlations * z[:, -1:]
        return noise

    def correlations(self, extras: Array, n_alternatives: int) -> Array:
        """Return the correlation of each outcome's noise with that of the selection."""
        return np.tanh(extras[:n_alternatives])

    def why_no_score_test(self) -> str:
        return "no row shows two outcomes, so their correlation is not identified"

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> NoReturn:
        """Refuse: nothing says how the noises of two outcomes are correlated."""
        del n_rows, scales, alternatives, rng
        raise UnsupportedError(
            "The noises of outcomes that a selection equation selects cannot be drawn together: "
            f"{self.why_no_score_test()}."
        )


@archived("selection of a sign")
@dataclass(frozen=True)
class SelectionSign(Selection):
    """The same noise of a binary outcome: its scale is one, because only its sign is recorded.

    This is the noise of `selfselect.sample_selection` with ``binary=True``.
    """

    sign_only: ClassVar[bool] = True

    @property
    def scale(self) -> str:
        return "known"

    @property
    def name(self) -> str:
        return "standard normal, correlated with the noise of the selection"

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array:
        return np.ones(len(alternatives))

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        return tuple(replace(one, limit=SIGN_BOUNDARY) for one in super().extras(alternatives))


@archived("two steps")
@dataclass(frozen=True)
class TwoSteps(Selection):
    """The same noise as two steps estimate it: by the coefficient of each outcome's Mills ratio.

    That is the covariance with the selection's noise. The correlation follows from it and the
    scale, and may come out beyond one.
    """

    method: ClassVar[str] = "two-step"

    def correlations(self, extras: Array, n_alternatives: int) -> Array:
        found = extras[n_alternatives : 2 * n_alternatives]
        if (np.abs(found) > 1.0).any():
            raise UnsupportedError(
                "A correlation with the selection is estimated beyond one, as two steps may, and "
                "no noise has such a one to be drawn with. Fit with method='ml'."
            )
        return found

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        labels = list(enumerate(alternatives))
        return (
            *(
                Extra((label, MILLS), 0.0, in_outcome_units=True, alternative=j, before_scale=True)
                for j, label in labels
            ),
            *(Extra((label, CORRELATION), 0.0, alternative=j) for j, label in labels),
        )

    def with_selection(self, scales: Array, extras: Array) -> SelectionCovariance:
        k = len(scales)
        return SelectionCovariance(extras[:k], np.zeros(k), np.eye(k, 2 * k))
