"""Make survreg_data.csv, the rows both we and R's survival fit. Run once; the file is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

N_ROWS = 300
LABELS = np.array(["a", "b", "c"])


def main() -> None:
    rng = np.random.default_rng(2205)
    x = rng.standard_normal((N_ROWS, 2)).round(6)
    means = np.array([0.4, 0.1, 0.7]) + x @ np.array([[0.8, -0.5, 0.3], [-0.4, 0.6, 0.2]])
    latent = (means + rng.standard_normal((N_ROWS, 3)) * [0.8, 1.0, 1.3]).round(6)
    largest, smallest = latent.argmax(axis=1), latent.argmin(axis=1)
    row = np.arange(N_ROWS)
    pd.DataFrame(
        {
            "x1": x[:, 0],
            "x2": x[:, 1],
            "chosen_max": LABELS[largest],
            "y_max": latent[row, largest],
            "chosen_min": LABELS[smallest],
            "y_min": latent[row, smallest],
        }
    ).to_csv(Path(__file__).with_name("survreg_data.csv"), index=False)


if __name__ == "__main__":
    main()
