"""US housing starts, a market that does not clear (Fair and Jaffee 1972)."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pandas as pd

__all__ = ["housing"]


def housing() -> pd.DataFrame:
    """Load monthly US housing starts from 1958 to 1969 with the usual derived columns (144 rows).

    Columns: ``date``, ``starts`` (thousands), ``rate`` (mortgage rate, basis points) and its lags
    ``rate_lag1`` and ``rate_lag2``, ``stock`` (sum of all starts before the month), ``deposits``
    (change of savings deposits, mean of six months, lagged once), ``advances`` (change of the home
    loan banks' advances, mean of three months, lagged twice), ``trend``, ``month`` (January to
    December as text) and ``working_days``. Lags leave the first months incomplete.

    Starts are the smaller of demand and supply, and nobody recorded which: with 127 complete
    months and slowly moving covariates this data cannot determine everything a model asks of it.

    Source: Fair (1971) and Fair and Jaffee (1972, Econometrica 40), as shipped by the R package
    `markets` (MIT licence).

    Examples
    --------
    >>> from selfselect.datasets import housing
    >>> len(housing())
    144
    """
    with files(__package__).joinpath("housing.csv").open("rb") as file:
        raw = pd.read_csv(file)
    date = pd.to_datetime("19" + raw["DATE"])
    deposits = (raw["DSLA"] + raw["DMSB"]).diff()
    advances = raw["DHLB"].diff()
    return pd.DataFrame(
        {
            "date": date,
            "starts": raw["HS"],
            "rate": raw["RM"],
            "rate_lag1": raw["RM"].shift(1),
            "rate_lag2": raw["RM"].shift(2),
            "stock": raw["HS"].cumsum().shift(1),
            "deposits": deposits.rolling(6).mean().shift(1),
            "advances": advances.rolling(3).mean().shift(2),
            "trend": np.arange(1, len(raw) + 1),
            "month": date.dt.month_name().str[:3],
            "working_days": raw["W"],
        }
    )
