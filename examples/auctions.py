"""First-price auctions: what each kind of bidder would pay, from winners and winning bids alone.

The data record the winning bid and the winner. The selection is that nobody bid more. Least squares
on the lots that a bidder won overstates that bidder's bids. All data are simulated, so the truth is
known; there are no auction records with every bidder's willingness to pay. Run with ``python
examples/auctions.py``: it prints the fits and draws docs/images/auctions.png. Bids are in
logarithms and taken as given; no theory of how values lead to bids is used.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot

import selfselect as ss

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def draw(result: ss.FitResult, sample: ss.simulators.Sample, folder: Path) -> Path:
    """Draw true, naive and corrected slopes."""
    compare = result.compare().table
    terms = [label for label in compare.index if label[1] not in ("Intercept", "scale")]
    place = np.arange(len(terms))
    figure, axis = pyplot.subplots(figsize=(8, 3.8), layout="constrained")
    for offset, column, style, name in (
        (-0.15, "naive", "s", "least squares"),
        (0.15, "corrected", "o", "corrected"),
    ):
        colour = "#d55e00" if column == "naive" else "#0072b2"
        axis.errorbar(
            place + offset, compare.loc[terms, column], 1.96 * compare.loc[terms, f"{column}_se"],
            fmt=style, color=colour, label=name, capsize=3,
        )  # fmt: skip
    axis.plot(place, sample.params[terms], "_", color="black", markersize=26, label="truth")
    axis.set_xticks(place, [f"{bidder}\n{term}" for bidder, term in terms])
    axis.set_title("Slopes of the log bid")
    axis.legend(frameon=False)
    target = folder / "auctions.png"
    figure.savefig(target, dpi=120)
    pyplot.close(figure)
    return target


def main(folder: Path = IMAGES) -> None:
    sample = ss.simulators.auction(3_000, seed=1)
    result = ss.fit(sample.formula, sample.data, chosen=sample.chosen)
    table = result.compare().table
    table.insert(0, "truth", sample.params.reindex(table.index))
    print(table.round(3).to_string())
    print("\nWhat the others would have bid on the lots each kind of bidder won:")
    print(result.potential_outcomes())
    print("\nIf museums stayed away:")
    print(result.counterfactual(close=["museum"]))
    others = sample.latent.drop(columns="museum").max(axis=1).mean()
    print(f"\nTruth: the mean winning log bid would be {others:.3f}.")
    unknown = ss.fit("bid ~ age + size + condition", sample.data, alternatives=3, seed=1)
    print("\nWith the winning bid alone, nobody telling who won (alternatives by mean bid):")
    print(unknown.params.unstack().round(2).to_string())
    print(f"\nWritten: {draw(result, sample, folder).name}")


if __name__ == "__main__":
    main()
