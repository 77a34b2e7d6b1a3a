"""The data of disequilibrium.R: python tests/reference/make_market_data.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import selfselect as ss

HERE = Path(__file__).parent


def main() -> None:
    rng = np.random.default_rng(20)
    covariates = {name: rng.standard_normal(600) for name in ("rate", "stock", "deposits")}
    sample = ss.simulate(
        {
            "demand": {"Intercept": 1.0, "rate": -0.8, "stock": 1.2},
            "supply": {"Intercept": 0.8, "rate": 0.5, "deposits": 1.1},
        },
        covariates,
        outcome="quantity",
        rule="min",
        scales={"demand": 0.7, "supply": 0.9},
        noise=ss.noises.Correlated(correlation=0.5),
        seed=20,
    )
    sample.data.drop(columns="chosen").to_csv(
        HERE / "market_data.csv", index=False, float_format="%.17g"
    )


if __name__ == "__main__":
    main()
