"""The US housing market from 1959 to 1969: was demand or supply the short side?

Housing starts are the smaller of demand and supply, and the data do not record which. The example
first uses a simulated market, whose truth is known. Run with ``python examples/housing.py``: it
prints the fits and draws docs/images/housing.png. docs/studies/housing.md discusses the results of
the real market.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

import selfselect as ss

IMAGES = Path(__file__).parents[1] / "docs" / "images"
DEMAND = "starts ~ trend + stock + rate_lag2"
SUPPLY = "starts ~ trend + deposits + advances + rate_lag1"
MODELS = {
    "one scale for both sides": ("", "common"),
    "one scale each": ("", "each"),
    "one scale for both sides, months": (" + month", "common"),
}
STYLES = (("-", "#0072b2"), ("--", "#d55e00"), (":", "#404040"))


def fit(extra: str, scale: str) -> ss.FitResult:
    return ss.fit(
        {"demand": DEMAND + extra, "supply": SUPPLY + extra},
        ss.datasets.housing().dropna(),
        rule="min",
        noise=ss.noises.Independent(scale=scale),
        seed=1,
    )


def describe(name: str, result: ss.FitResult) -> None:
    print(f"\n{name}: log-likelihood {result.llf:.2f}. {result.status}")
    behind = result.starts["behind"].round(1).abs().value_counts().sort_index()
    print("starts by how far they ended below the best:", behind.to_dict())
    print(result.independence_test())
    table = result.tidy()
    shown = ["alternative", "term", "estimate", "std_error", "p_value"]
    print(table.loc[~table["term"].str.startswith("month"), shown].round(3).to_string(index=False))
    print(f"expected share of months in which demand was short: {result.shares['demand']:.2f}")


def draw(results: dict[str, ss.FitResult], folder: Path) -> Path:
    dates = ss.datasets.housing().dropna()["date"].to_numpy()
    figure, axis = pyplot.subplots(figsize=(9, 3.8), layout="constrained")
    for (name, result), (line, colour) in zip(results.items(), STYLES, strict=True):
        short = result.responsibilities()["demand"].rolling(6, center=True, min_periods=1).mean()
        axis.plot(dates, short, line, color=colour, label=name, lw=1.8)
    axis.set(ylim=(0, 1.02), ylabel="chance that demand was short")
    axis.set_title("US housing starts: who was short depends on the model (6-month means)")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)
    target = folder / "housing.png"
    figure.savefig(target, dpi=120)
    return target


def check_against_truth() -> None:
    """Fit a simulated market without its column of sides, and compare with what is simulated."""
    sample = ss.simulators.market(2_000, seed=1)
    result = ss.fit(sample.formula, sample.data, rule="min", seed=1)
    table = result.tidy()[["alternative", "term", "estimate", "std_error"]]
    keys = [(str(a), str(t)) for a, t in zip(table["alternative"], table["term"], strict=True)]
    truth = [float(sample.params.get(key, sample.params["demand", "scale"])) for key in keys]
    print("A simulated market, nobody telling which side was short:")
    print(table.assign(truth=truth).round(3).to_string(index=False))
    excess = sample.latent["demand"] - sample.latent["supply"]
    short = (sample.data["side"] == "demand").to_numpy()
    means = [excess.mean(), excess[short].mean(), excess[~short].mean()]
    effects = result.treatment_effects("demand", "supply").table.assign(truth=means)
    print("\nDemand less supply, over all periods, where demand was short, where it was not:")
    print(effects.drop(columns=["statistic", "p_value"]).round(3).to_string(index=False))


def main(folder: Path = IMAGES) -> None:
    check_against_truth()
    results = {name: fit(*model) for name, model in MODELS.items()}
    for name, result in results.items():
        describe(name, result)
    print(f"\nWritten: {draw(results, folder).name}")


if __name__ == "__main__":
    main()
