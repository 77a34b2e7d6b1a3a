"""An auction: the highest bid is recorded, with or without its bidder."""

from __future__ import annotations

import pandas as pd

from selfselect.seeds import generator
from selfselect.simulators._sizes import check_sizes
from selfselect.simulators.sample import Sample, simulate

__all__ = ["auction"]


def auction(n_rows: int = 2_000, *, seed: int = 0) -> Sample:
    """Simulate auctions among three kinds of bidders who value lots differently.

    The data have the winning (log) bid and, in the column ``winner``, the winner. Fit with
    ``chosen="winner"``, or with ``alternatives=3`` as if only the price were known.

    Parameters
    ----------
    n_rows : lots.
    seed : of the random draws.

    Examples
    --------
    >>> from selfselect.simulators import auction
    >>> sorted(auction(200, seed=1).data["winner"].unique())
    ['collector', 'dealer', 'museum']
    """
    check_sizes(n_rows)
    rng = generator(seed, 1961)
    covariates = pd.DataFrame(
        {
            "age": rng.normal(0.0, 1.0, n_rows),
            "size": rng.normal(0.0, 1.0, n_rows),
            "condition": rng.normal(0.0, 1.0, n_rows),
        }
    )
    return simulate(
        {
            "dealer": {"Intercept": 4.0, "age": 0.3, "size": 0.2, "condition": 1.2},
            "museum": {"Intercept": 3.6, "age": 1.5, "size": 0.1, "condition": -0.2},
            "collector": {"Intercept": 3.8, "age": -0.3, "size": -1.3, "condition": 0.3},
        },
        covariates,
        scales=0.7,
        outcome="bid",
        chosen="winner",
        seed=seed,
    )
