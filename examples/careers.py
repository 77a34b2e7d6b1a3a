"""Wages by occupation: what would blue-collar workers earn in white-collar jobs?

The example first uses simulated careers, whose truth is known, then the careers of 1,373 young US
men (Keane and Wolpin 1997). Run with ``python examples/careers.py``: it prints the fits and draws
docs/images/careers.png.

In the real data, men at school and at home have no recorded earnings. They are left out. The model
does not correct this selection, so its results are about those who work. The model also assumes
that being good at one occupation says nothing about being good at another, given the covariates.
The test below rejects this assumption, so every table of effects starts with a warning.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pandas as pd
from matplotlib import pyplot

import selfselect as ss

IMAGES = Path(__file__).parents[1] / "docs" / "images"
OCCUPATIONS = ("white collar", "blue collar", "military")
FORMULA = "log_wage ~ schooling + experience + I(experience**2)"
COLOURS = {"white collar": "#0072b2", "blue collar": "#d55e00", "military": "#404040"}
MARKERS = {"white collar": "o", "blue collar": "s", "military": "^"}


def simulated(n_rows: int = 4_000, seed: int = 1) -> ss.simulators.Sample:
    """Simulate careers in which schooling pays most in white-collar jobs."""
    rng = np.random.default_rng([seed, 1997])
    schooling = rng.integers(8, 19, n_rows).astype(float)
    experience = rng.integers(0, 11, n_rows).astype(float)
    return ss.simulate(
        {
            "white collar": {"Intercept": 8.2, "schooling": 0.10, "experience": 0.05},
            "blue collar": {"Intercept": 9.1, "schooling": 0.02, "experience": 0.06},
            "military": {"Intercept": 8.9, "schooling": 0.03, "experience": 0.01},
        },
        {"schooling": schooling, "experience": experience},
        scales={"white collar": 0.35, "blue collar": 0.3, "military": 0.3},
        outcome="log_wage",
        chosen="choice",
        seed=seed,
    )


def recorded() -> pd.DataFrame:
    """Return the working years with a recorded wage, experience being years since school."""
    table = ss.datasets.careers()
    working = table[table["choice"].isin(OCCUPATIONS) & table["wage"].gt(0)].copy()
    working["log_wage"] = np.log(working["wage"])
    working["experience"] = (working["age"] - working["schooling"] - 6).clip(lower=0)
    print(
        f"{len(table)} person-years: {table['choice'].isin(OCCUPATIONS).sum()} at work, "
        f"{len(working)} of them with a wage; {table['choice'].isin(['school', 'home']).sum()} at "
        "school or at home are left out."
    )
    return working


def check_against_truth() -> None:
    sample = simulated()
    result = ss.fit("log_wage ~ schooling + experience", sample.data, chosen="choice")
    effects = result.treatment_effects("white collar", "blue collar")
    gain = sample.latent["white collar"] - sample.latent["blue collar"]
    white = (sample.data["choice"] == "white collar").to_numpy()
    truth = [gain.mean(), gain[white].mean(), gain[~white].mean()]
    naive = sample.data.groupby("choice")["log_wage"].mean()
    print(effects.table.assign(truth=truth).round(3).to_string(index=False))
    print(f"naive gap of means: {naive['white collar'] - naive['blue collar']:.3f}\n")


def draw(result: ss.FitResult, folder: Path) -> Path:
    """Draw mean log wages by schooling: of all, and of those who chose the occupation."""
    years = np.arange(8, 19)
    table = result.potential_outcomes(at={"schooling": years}).table
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for occupation in OCCUPATIONS:
        own = table[table["alternative"] == occupation]
        everyone, chosen = own[own["group"] == "everyone"], own[own["group"] == occupation]
        for axis, rows in zip(axes, (everyone, chosen), strict=True):
            axis.plot(
                years, rows["estimate"], color=COLOURS[occupation], label=occupation,
                marker=MARKERS[occupation], markersize=4,
            )  # fmt: skip
            axis.fill_between(
                years, rows["conf_low"], rows["conf_high"], color=COLOURS[occupation], alpha=0.15,
                linewidth=0,
            )  # fmt: skip
    axes[0].set(title="if everyone worked in it", ylabel="mean log wage")
    axes[1].set(title="of those who chose it")
    for axis in axes:
        axis.set_xlabel("years of schooling")
    axes[0].legend(frameon=False)
    if result.independence_test().rejects():
        figure.suptitle("Under a model the data rejects: not to be taken at its word", fontsize=10)
    target = folder / "careers.png"
    figure.savefig(target, dpi=120)
    pyplot.close(figure)
    return target


def main(folder: Path = IMAGES) -> None:
    print("Simulated careers: the gain of white-collar over blue-collar work, in log wages")
    check_against_truth()
    working = recorded()
    result = ss.fit(FORMULA, working, chosen="choice", cluster="id")
    print(result.compare())
    print(result.treatment_effects("white collar", "blue collar"))
    print(result.decompose("white collar", "blue collar"))
    print(f"\nWritten: {draw(result, folder).name}")


if __name__ == "__main__":
    main()
