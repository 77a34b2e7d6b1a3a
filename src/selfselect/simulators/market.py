"""A market in disequilibrium: the short side decides what is traded."""

from __future__ import annotations

import pandas as pd

from selfselect.seeds import generator
from selfselect.simulators._sizes import check_sizes
from selfselect.simulators.sample import Sample, simulate

__all__ = ["market"]


def market(n_rows: int = 1_000, *, seed: int = 0) -> Sample:
    """Simulate a market whose price does not clear it (Fair and Jaffee 1972).

    The quantity traded is the smaller of demand and supply. Demand falls with the rate and with
    the stock already built, supply rises with the rate and with deposits. The column ``side``
    says which one was short; leave it out of the fit to treat it as unknown.

    Parameters
    ----------
    n_rows : periods.
    seed : of the random draws.

    Examples
    --------
    >>> import selfselect as ss
    >>> sample = ss.simulators.market(600, seed=1)
    >>> result = ss.fit(sample.formula, sample.data, rule="min")
    >>> result.converged
    True
    """
    check_sizes(n_rows)
    rng = generator(seed, 1972)
    covariates = pd.DataFrame(
        {
            "rate": rng.normal(6.0, 1.0, n_rows),
            "stock": rng.normal(0.0, 1.0, n_rows),
            "deposits": rng.normal(0.0, 1.0, n_rows),
        }
    )
    return simulate(
        {
            "demand": {"Intercept": 16.0, "rate": -1.0, "stock": -0.8},
            "supply": {"Intercept": 5.2, "rate": 0.8, "deposits": 0.9},
        },
        covariates,
        scales=1.0,
        rule="min",
        outcome="quantity",
        chosen="side",
        seed=seed,
    )
