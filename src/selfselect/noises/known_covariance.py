"""Normal noise whose covariance across alternatives is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.noises.base import FittedNoise
from selfselect.plain import archived
from selfselect.rules.base import Label, by_alternative

Array = NDArray[np.float64]


@archived("known covariance")
@dataclass(frozen=True)
class KnownCovariance(FittedNoise):
    r"""Normal noise with a known covariance across alternatives, independent across rows.

    .. math:: y_i = (x_{i1}'w_1, \dots, x_{ik}'w_k) + e_i, \qquad e_i \sim N(0, \Sigma)

    For convex explaining sets the log-likelihood is concave in the coefficients for any
    :math:`\Sigma` (Prékopa). It is fitted by `solvers.MonteCarloNewton`, for any such rule. For
    rules with bounds `noises.Correlated` with fixed scales and correlations is the same noise,
    fitted without draws for two alternatives.

    Parameters
    ----------
    matrix : :math:`\Sigma`, rows and columns in the order of the alternatives (that of the
        formulas, else sorted); or by label, ``{alternative: {alternative: covariance}}``.

    Examples
    --------
    >>> from selfselect.noises import KnownCovariance
    >>> KnownCovariance([[1.0, 0.5], [0.5, 1.0]]).name
    'normal, covariance across alternatives known'
    """

    matrix: Any

    def __post_init__(self) -> None:
        if isinstance(self.matrix, Mapping):
            plain = {key: dict(row) for key, row in self.matrix.items()}
            object.__setattr__(self, "matrix", plain)
            return
        object.__setattr__(self, "matrix", tuple(map(tuple, _checked(self.matrix).tolist())))

    @property
    def name(self) -> str:
        """A few words for summaries."""
        return "normal, covariance across alternatives known"

    def covariance(self, alternatives: Sequence[Label]) -> Array:
        """Return the covariance (k, k) in the order of `alternatives`."""
        if not isinstance(self.matrix, Mapping):
            if len(self.matrix) != len(alternatives):
                raise OptionError(
                    f"The covariance has {len(self.matrix)} rows but there are "
                    f"{len(alternatives)} alternatives: {', '.join(map(str, alternatives))}."
                )
            return np.array(self.matrix)
        given = by_alternative(self.matrix, alternatives, what="covariance")
        known = {
            label: by_alternative(row, alternatives, what="covariance")
            for label, row in given.items()
        }

        def entry(one: Label, other: Label) -> float:
            found = [known[a][b] for a, b in ((one, other), (other, one)) if b in known.get(a, {})]
            if not found:
                raise OptionError(
                    f"No covariance is given for {one!r} and {other!r}. Give all of them."
                )
            return float(found[0])

        return _checked([[entry(one, other) for other in alternatives] for one in alternatives])

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array:
        """Return the scales (k,), which are known."""
        return np.sqrt(np.diag(self.covariance(alternatives)))

    def known_correlation(self, alternatives: Sequence[Label]) -> Array | None:
        """Return the correlation (k, k); None where the covariance is diagonal."""
        matrix = self.covariance(alternatives)
        if np.count_nonzero(matrix - np.diag(np.diag(matrix))) == 0:
            return None
        scales = np.sqrt(np.diag(matrix))
        correlation: Array = matrix / np.outer(scales, scales)
        return correlation

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        """Draw noise (n, k)."""
        del scales
        root = np.linalg.cholesky(self.covariance(alternatives))
        return rng.standard_normal((n_rows, len(alternatives))) @ root.T

    def draw_standard(
        self, n_rows: int, extras: Array, h: Array, alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        del extras, h
        scales = np.sqrt(np.diag(self.covariance(alternatives)))
        return self.draw(n_rows, scales.tolist(), alternatives, rng) / scales


def _checked(values: Any) -> Array:
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(f"A covariance must hold numbers: {error}.") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise OptionError(
            f"A covariance must be a square matrix of finite numbers; it has shape {matrix.shape}."
        )
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0.0):
        raise OptionError("The covariance is not symmetric. Give (S + S.T) / 2.")
    if np.linalg.eigvalsh(matrix)[0] <= 1e-12 * np.abs(np.diag(matrix)).max():
        raise OptionError(
            "The covariance is not positive definite: some combination of the noises would have "
            "no spread. Check the correlations."
        )
    return matrix
