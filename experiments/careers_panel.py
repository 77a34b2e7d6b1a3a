"""Careers as a panel: what several years of the same men say of their wages in other occupations.

Run with ``python experiments/careers_panel.py``: the working years with a wage of the careers data
(Keane and Wolpin 1997). What to make of the numbers is in docs/studies/careers-panel.md.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

import selfselect as ss

OCCUPATIONS = ("white collar", "blue collar", "military")
FORMULA = "log_wage ~ schooling + experience + I(experience**2)"

NOISES: dict[str, Any] = {
    "independent": None,
    "random effect": ss.noises.SharedShock(loading="common"),
    "2 types, shifts each": ss.noises.Types(2),
    "3 types, shifts each": ss.noises.Types(3),
    "4 types, shifts each": ss.noises.Types(4),
    "2 types, talent and costs": ss.noises.Types(2, "talent", costs=True),
    "3 types, talent and costs": ss.noises.Types(3, "talent", costs=True),
}


def working_years() -> Any:
    """Return the working years with a recorded wage, experience being years since school."""
    table = ss.datasets.careers()
    working = table[table["choice"].isin(OCCUPATIONS) & table["wage"].gt(0)].copy()
    working["log_wage"] = np.log(working["wage"])
    working["experience"] = (working["age"] - working["schooling"] - 6).clip(lower=0)
    return working


def dummies(data: Any) -> None:
    """Print the coefficient of white collar in one wage equation, with fixed effects or not."""
    data = data[data["choice"] != "military"]
    people = data["id"].to_numpy()
    white = (data["choice"] == "white collar").astype(float)
    x = pd.DataFrame({"white": white, "schooling": data["schooling"]})
    x = x.assign(experience=data["experience"], squared=data["experience"] ** 2, one=1.0)
    table = x.assign(y=data["log_wage"])
    within = (table - table.groupby(people).transform("mean")).drop(columns="one")
    for name, rows in (("least squares", table), ("fixed effects", within)):
        values, y = rows.drop(columns="y").to_numpy(), rows["y"].to_numpy()
        slopes = np.linalg.lstsq(values, y, rcond=None)[0]
        scores = values * (y - values @ slopes)[:, None]
        sums = pd.DataFrame(scores).groupby(people).sum().to_numpy()
        inverse = np.linalg.inv(values.T @ values)
        variance = inverse @ (sums.T @ sums) @ inverse * len(sums) / (len(sums) - 1)
        print(f"{name}: {slopes[0]:.3f} ({np.sqrt(variance[0, 0]):.3f})")


def gap(fit: ss.FitResult) -> str:
    """Write the average gap between white and blue collar, and over whom it is."""
    row = fit.treatment_effects("white collar", "blue collar").table.iloc[0]
    whom = "everybody" if row["group"] == "everyone" else "types in both"
    return f"{row['estimate']:7.3f} ({row['std_error']:.3f}), {whom}"


def rejected(fit: ss.FitResult) -> str:
    """Write the statistics of the tests of shape and spread; in brackets where there is none."""
    tests = (fit.normality_test(0), fit.heteroskedasticity_test(0))
    return ", ".join(
        f"{one.statistic:.0f}" if one.possible else f"[{one.statistic:.0f}]" for one in tests
    )


def main() -> None:
    # What fits warn of is printed with them.
    warnings.simplefilter("ignore", ss.errors.ConvergenceWarning)
    data = working_years()
    print(f"{len(data)} years of {data['id'].nunique()} men; white instead of blue collar:")
    dummies(data)
    head = "white less blue collar; tests of shape, spread"
    print(f"{'noise':<28} {'log-lik.':>9} {'par.':>5} {'BIC':>9}  {head}")
    for name, noise in NOISES.items():
        fit = ss.fit(FORMULA, data, chosen="choice", panel="id", noise=noise, seed=0)
        said = f"{gap(fit)}; {rejected(fit)}" if fit.converged else fit.status
        print(f"{name:<28} {fit.llf:9.1f} {fit.n_parameters:5} {fit.bic:9.1f}  {said}", flush=True)
        if name in ("3 types, shifts each", "3 types, talent and costs"):
            print(fit.summary(), "\n", fit.types(), sep="")


if __name__ == "__main__":
    main()
