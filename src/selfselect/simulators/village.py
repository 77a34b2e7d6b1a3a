"""Roy's village: everyone either hunts or fishes, whichever earns more."""

from __future__ import annotations

import pandas as pd

from selfselect.seeds import generator
from selfselect.simulators._sizes import check_sizes
from selfselect.simulators.sample import Sample, simulate

__all__ = ["village"]


def village(n_rows: int = 2_000, *, seed: int = 0) -> Sample:
    """Simulate villagers who hunt or fish, whichever earns them more (Roy 1951).

    Height helps in hunting and hardly in fishing; weight is the opposite. Those who hunt happened
    to be good at it, so among hunters even the short ones earn well, and least squares understates
    the effect of height.

    Parameters
    ----------
    n_rows : how many villagers.
    seed : of the random draws.

    Examples
    --------
    >>> from selfselect.simulators import village
    >>> sorted(village(100, seed=1).data["job"].unique())
    ['fishing', 'hunting']
    """
    check_sizes(n_rows)
    rng = generator(seed, 1951)
    height = rng.normal(170.0, 10.0, n_rows)
    weight = 70.0 + 0.5 * (height - 170.0) + rng.normal(0.0, 9.0, n_rows)
    return simulate(
        {
            "hunting": {"Intercept": -120.0, "height": 1.2, "weight": -0.3},
            "fishing": {"Intercept": 10.0, "height": 0.1, "weight": 0.6},
        },
        pd.DataFrame({"height": height.round(1), "weight": weight.round(1)}),
        scales={"hunting": 14.0, "fishing": 9.0},
        outcome="income",
        chosen="job",
        seed=seed,
    )
