"""Samples of bids and prices: auctions, markets and tenders."""

from __future__ import annotations

import numpy as np
import pandas as pd

from selfselect.noises.base import COMMON
from selfselect.rules import Minimum
from selfselect.seeds import generator
from selfselect.simulators.sample import Sample, check_sizes, simulate

# An auction: the highest bid is recorded, with or without its bidder.


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


# A market in disequilibrium: the short side decides what is traded.


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


# Tenders: the lowest bid wins and is recorded, in a long table of all who took part.


FIRMS = ("Alder", "Birch", "Cedar", "Dogwood")
TRUTH = {"Intercept": 4.0, "size": 0.5, "distance": 0.06, "backlog": 0.3, "scale": 0.4}


def tender(n_rows: int = 1_000, *, seed: int = 0) -> Sample:
    """Simulate tenders among four firms of one cost function, as long data.

    There is one row per tender and firm that took part, with the firm's ``distance`` and
    ``backlog`` and the ``size`` of the work. The (log) bid is recorded in the row of the firm that
    ``won``, the lowest one. Fit with ``case="tender"``, ``alternatives="firm"``,
    ``shared="all"`` and ``rule="min"``.

    Parameters
    ----------
    n_rows : tenders.
    seed : of the random draws.

    Examples
    --------
    >>> from selfselect.simulators import tender
    >>> list(tender(200, seed=1).data.columns)
    ['tender', 'firm', 'size', 'distance', 'backlog', 'bid', 'won']
    """
    check_sizes(n_rows)
    rng = generator(seed, 1994)
    shape = (n_rows, len(FIRMS))
    takes_part = rng.random(shape) < 0.8
    takes_part[np.arange(n_rows), rng.integers(0, len(FIRMS), n_rows)] = True
    size = rng.normal(0.0, 1.0, n_rows)
    distance, backlog = rng.uniform(0.0, 20.0, shape), rng.normal(0.0, 1.0, shape)
    mean = TRUTH["Intercept"] + TRUTH["size"] * size[:, None]
    mean = mean + TRUTH["distance"] * distance + TRUTH["backlog"] * backlog
    bid = mean + TRUTH["scale"] * rng.standard_normal(shape)
    won = np.where(takes_part, bid, np.inf).argmin(axis=1)[:, None] == np.arange(len(FIRMS))
    number, firm = np.nonzero(takes_part)
    data = pd.DataFrame(
        {
            "tender": number + 1,
            "firm": np.array(FIRMS)[firm],
            "size": size[number],
            "distance": distance[number, firm],
            "backlog": backlog[number, firm],
            "bid": np.where(won, bid, np.nan)[number, firm],
            "won": won[number, firm],
        }
    )
    index = pd.MultiIndex.from_product([[COMMON], list(TRUTH)], names=["alternative", "term"])
    return Sample(
        data=data,
        formula="bid ~ size + distance + backlog",
        chosen="won",
        params=pd.Series(list(TRUTH.values()), index=index, name="truth"),
        latent=pd.DataFrame(np.where(takes_part, bid, np.nan), columns=list(FIRMS)),
        rule=Minimum(),
        noise=None,
    )
