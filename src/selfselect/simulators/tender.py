"""Tenders: the lowest bid wins and is recorded, in a long table of all who took part."""

from __future__ import annotations

import numpy as np
import pandas as pd

from selfselect.noises.base import COMMON
from selfselect.rules import Minimum
from selfselect.seeds import generator
from selfselect.simulators._sizes import check_sizes
from selfselect.simulators.sample import Sample

__all__ = ["tender"]

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
