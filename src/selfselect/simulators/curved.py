"""A rule with curved explaining sets: neither boxes nor polyhedra."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.rules import ConvexRule
from selfselect.seeds import generator
from selfselect.simulators._sizes import check_sizes
from selfselect.simulators.sample import Sample, simulate

__all__ = ["curved", "curved_rule"]

Array = NDArray[np.float64]

COEFFICIENTS = {
    "a": {"Intercept": 0.6, "x1": 0.8, "x2": -0.3},
    "b": {"Intercept": 0.4, "x1": -0.5, "x2": 0.6},
    "c": {"Intercept": 0.3, "x1": 0.3, "x2": 0.5},
    "d": {"Intercept": 0.4, "x1": -0.6, "x2": -0.4},
}


@dataclass(frozen=True)
class _CurvedChoice:
    """The choice of the curved rule, as a function with a parameter."""

    weight: float

    def __call__(self, latent: Array) -> NDArray[np.intp]:
        first, second, third, fourth = latent.T
        with np.errstate(over="ignore"):
            ahead = np.exp(first) >= np.exp(second) + self.weight * (third + fourth)
        chosen = np.where(ahead, 0, 1)
        chosen[fourth > 1.0] = 3
        chosen[third > 1.0] = 2
        return chosen


def curved_rule(weight: float = 0.5) -> ConvexRule:
    r"""Return the curved rule of four alternatives, known by its `choose` alone.

    The third is chosen if its outcome exceeds 1, else the fourth if its own does, else the first if
    :math:`e^{y_1} \ge e^{y_2} + w (y_3 + y_4)`, else the second. Every explaining set is convex.

    Parameters
    ----------
    weight : :math:`w`, at least zero.

    Examples
    --------
    >>> import selfselect as ss
    >>> bool(ss.rules.check(ss.simulators.curved_rule(), 4))
    True
    """
    return ConvexRule(_CurvedChoice(weight), label="chosen by the curved rule of four alternatives")


def curved(n_rows: int = 2_000, *, scale: float = 1.0, seed: int = 0) -> Sample:
    """Simulate two covariates and four alternatives of which the curved rule chooses one.

    Parameters
    ----------
    n_rows : how many rows.
    scale : of the noise.
    seed : of the random draws.

    Examples
    --------
    >>> from selfselect.simulators import curved
    >>> curved(100, seed=1).data.shape
    (100, 4)
    """
    check_sizes(n_rows)
    covariates = generator(seed, 11).standard_normal((n_rows, 2))
    table = {"x1": covariates[:, 0], "x2": covariates[:, 1]}
    return simulate(COEFFICIENTS, table, scales=scale, rule=curved_rule(), seed=seed)
