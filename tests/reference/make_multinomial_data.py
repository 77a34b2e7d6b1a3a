"""Make multinomial_data.csv, the rows both we and R fit. Run once; the file is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

N_ROWS = 400
LABELS = np.array(["a", "b", "c"])


def main() -> None:
    rng = np.random.default_rng(1984)
    x, z1, z2 = rng.standard_normal((3, N_ROWS)).round(6)
    pull = np.column_stack([0 * x, 0.3 + 0.5 * x + z1, -0.2 - 0.3 * x + z2])
    noise = rng.gumbel(size=(N_ROWS, 3))
    open_c = rng.uniform(size=N_ROWS) < 0.7
    chosen = (pull + noise).argmax(axis=1)
    menu = np.where(open_c[:, None] | (np.arange(3) < 2), pull + noise, -np.inf).argmax(axis=1)
    mix = np.array([[0.5, -0.3, 0.0], [0.2, 0.6, -0.2], [0.0, 0.3, -0.6]])
    latent = np.array([1.0, 2.0, 0.0]) + x[:, None] * [0.5, 1.0, -0.5]
    latent = (latent + (noise - np.euler_gamma) @ mix.T + rng.standard_normal((N_ROWS, 3))).round(6)
    row = np.arange(N_ROWS)
    pd.DataFrame(
        {
            "x": x,
            "z1": z1,
            "z2": z2,
            "open_c": open_c.astype(int),
            "job": LABELS[chosen],
            "y": latent[row, chosen],
            "menu_job": LABELS[menu],
            "menu_y": latent[row, menu],
        }
    ).to_csv(Path(__file__).with_name("multinomial_data.csv"), index=False)


if __name__ == "__main__":
    main()
