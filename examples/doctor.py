"""Imitation learning: what a doctor's choices teach about treatments.

A doctor gives each patient the treatment that will work best, and sees more of the patient than
the records do. Recovery under the other treatments is never recorded. A regression of recovery on
covariates among the treated attributes the doctor's private knowledge to the treatment. The
correction for the choice recovers every treatment's equation, and with it a policy for new patients
without that doctor. All data are simulated, because the check needs every patient's recovery under
every treatment. Run with ``python examples/doctor.py``: it prints the values of both policies and
draws docs/images/doctor.png.
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
TREATMENTS = {
    "surgery": {"Intercept": 70.0, "age": -0.5, "severity": 1.5},
    "drug": {"Intercept": 45.0, "age": 0.1, "severity": -2.0},
    "therapy": {"Intercept": 34.0, "age": 0.25, "severity": -0.5},
}
SCALES = {"surgery": 5.0, "drug": 9.0, "therapy": 14.0}
FORMULA = "recovery ~ age + severity"


def patients(n_rows: int, seed: int) -> ss.simulators.Sample:
    rng = np.random.default_rng([seed, 2205])
    return ss.simulate(
        TREATMENTS,
        {"age": rng.uniform(20, 80, n_rows), "severity": rng.uniform(-3, 3, n_rows)},
        scales=SCALES,
        outcome="recovery",
        chosen="treatment",
        seed=seed,
    )


def naive_policy(result: ss.FitResult, new: pd.DataFrame) -> np.ndarray:
    """Return the treatment least squares on the treated would recommend."""
    design = np.column_stack([np.ones(len(new)), new["age"], new["severity"]])
    naive = result.naive["estimate"]
    labels = result.problem.equations.alternatives
    terms = ["Intercept", "age", "severity"]
    means = np.column_stack([design @ naive[label][terms] for label in labels])
    return np.array(labels)[means.argmax(axis=1)]


def true_value(recommended: np.ndarray, truth: pd.DataFrame) -> float:
    """Return the mean true expected recovery under a policy."""
    columns = truth.columns.get_indexer(recommended)
    return float(truth.to_numpy()[np.arange(len(truth)), columns].mean())


def true_means(new: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            name: one["Intercept"] + one["age"] * new["age"] + one["severity"] * new["severity"]
            for name, one in TREATMENTS.items()
        }
    )


def learning_curve(sizes: tuple[int, ...], seeds: int) -> pd.DataFrame:
    """Return how far both policies fall short of the best one, by the number of records."""
    new = patients(20_000, seed=99).data
    truth = true_means(new)
    best = float(truth.max(axis=1).mean())
    rows = []
    for n_rows in sizes:
        for seed in range(seeds):
            result = ss.fit(FORMULA, patients(n_rows, seed).data, chosen="treatment")
            corrected = result.predict(new).idxmax(axis=1).to_numpy()
            rows.append((n_rows, "corrected", best - true_value(corrected, truth)))
            naive = naive_policy(result, new)
            rows.append((n_rows, "least squares", best - true_value(naive, truth)))
    table = pd.DataFrame(rows, columns=["records", "policy", "regret"])
    return table.pivot_table(index="records", columns="policy", values="regret", aggfunc="mean")


def draw(curve: pd.DataFrame, folder: Path) -> Path:
    figure, axis = pyplot.subplots(figsize=(6, 3.8), layout="constrained")
    axis.loglog(curve.index, curve["least squares"], "s--", color="#d55e00", label="least squares")
    axis.loglog(curve.index, curve["corrected"], "o-", color="#0072b2", label="corrected")
    axis.set(xlabel="patients on record", ylabel="regret, points of recovery")
    axis.set_title("Only one of the two policies learns")
    axis.legend(frameon=False)
    target = folder / "doctor.png"
    figure.savefig(target, dpi=120)
    pyplot.close(figure)
    return target


def main(folder: Path = IMAGES) -> None:
    sample = patients(5_000, seed=1)
    result = ss.fit(FORMULA, sample.data, chosen="treatment")
    print(result.compare())
    new = patients(10_000, seed=2)
    policy = result.policy(new.data)
    print(policy)
    print("\nAgainst oracles, which know what is simulated:")
    print(policy.regret(params=sample.params, latent=new.latent).round(3).to_string(index=False))
    naive = naive_policy(result, new.data)
    truth = true_means(new.data)
    print(f"the policy of least squares has the value {true_value(naive, truth):.3f}")
    curve = learning_curve((300, 1_000, 3_000, 10_000), seeds=4)
    print("\nRegret by patients on record:")
    print(curve.round(3).to_string())
    print(f"\nWritten: {draw(curve, folder).name}")


if __name__ == "__main__":
    main()
