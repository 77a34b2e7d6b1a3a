"""Strategically reported test scores: what colleges see is the better of two tests.

An applicant takes two tests and reports the one that helps more. The tests have different scales,
so the applicant compares the probabilities of admission, each a rising function of one score: the
reported test is the argmax of monotone transforms. All data are simulated, because scores that were
not sent are not published. Run with ``python examples/scores.py``: it prints the estimates beside
the truth and draws docs/images/scores.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot

import selfselect as ss

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def chance_by_sat(score: np.ndarray) -> np.ndarray:
    """Chance of admission by the first test, which runs from 400 to 1600."""
    return np.asarray(1.0 / (1.0 + np.exp(-(score - 1150.0) / 90.0)))


def chance_by_act(score: np.ndarray) -> np.ndarray:
    """Chance of admission by the second, which runs from 1 to 36, rescaled to tens here."""
    return np.asarray(1.0 / (1.0 + np.exp(-(score - 240.0) / 25.0)))


def inverse_sat(chance: np.ndarray) -> np.ndarray:
    return np.asarray(1150.0 + 90.0 * (np.log(chance) - np.log1p(-chance)))


def inverse_act(chance: np.ndarray) -> np.ndarray:
    return np.asarray(240.0 + 25.0 * (np.log(chance) - np.log1p(-chance)))


RULE = ss.rules.MonotoneArgmax(
    {"SAT": (chance_by_sat, inverse_sat), "ACT": (chance_by_act, inverse_act)}
)
FORMULA = "score ~ hours + grades"


def applicants(n_rows: int = 4_000, seed: int = 1) -> ss.simulators.Sample:
    """Simulate applicants: tutoring hours help in the first test, grades in the second."""
    rng = np.random.default_rng([seed, 36])
    return ss.simulate(
        {
            "SAT": {"Intercept": 800.0, "hours": 12.0, "grades": 60.0},
            "ACT": {"Intercept": 130.0, "hours": 0.8, "grades": 28.0},
        },
        {"hours": rng.gamma(2.0, 5.0, n_rows), "grades": rng.normal(3.2, 0.5, n_rows)},
        scales={"SAT": 110.0, "ACT": 28.0},
        rule=RULE,
        outcome="score",
        chosen="test",
        seed=seed,
    )


def draw(result: ss.FitResult, sample: ss.simulators.Sample, folder: Path) -> Path:
    """Draw who reports which test by hours of tutoring, with the simulated shares."""
    hours = np.linspace(0.5, 28, 40)
    table = result.choice_probabilities(at={"hours": hours}).table
    sent = table[table["alternative"] == "SAT"]
    figure, axis = pyplot.subplots(figsize=(6, 3.8), layout="constrained")
    axis.fill_between(hours, sent["conf_low"], sent["conf_high"], color="#0072b2", alpha=0.2, lw=0)
    axis.plot(hours, sent["estimate"], color="#0072b2", label="model, at mean grades")
    data = sample.data
    bins = np.linspace(0, 30, 13)
    group = np.digitize(data["hours"], bins)
    share = (data["test"] == "SAT").groupby(group).mean()
    middle = data["hours"].groupby(group).mean()
    axis.plot(middle, share, "o", color="#404040", label="shares in the data", markersize=4)
    axis.set(xlabel="hours of tutoring", ylabel="share who report the first test", ylim=(0, 1))
    axis.legend(frameon=False)
    target = folder / "scores.png"
    figure.savefig(target, dpi=120)
    pyplot.close(figure)
    return target


def main(folder: Path = IMAGES) -> None:
    sample = applicants()
    result = ss.fit(FORMULA, sample.data, chosen="test", rule=RULE)
    table = result.compare().table
    table.insert(0, "truth", sample.params.reindex(table.index))
    print(table.round(2).to_string())
    print(result.potential_outcomes())
    wrong = ss.fit(FORMULA, sample.data, chosen="test", rule="max")
    print(
        "\nIf one took the larger number for the one reported, 'hours' in the first test would be "
        f"{wrong.params['SAT', 'hours']:.1f} instead of {result.params['SAT', 'hours']:.1f} "
        f"(truth {sample.params['SAT', 'hours']:.1f}): the rule matters."
    )
    print("\nIf only the first test were accepted:")
    print(result.counterfactual(close=["ACT"]).moves)
    print(f"\nWritten: {draw(result, sample, folder).name}")


if __name__ == "__main__":
    main()
