"""Does following the advice help? What a summary says to try next, over ten truths.

Each sample is fitted under the candidates of `choose_noise` and, where the rule stays in doubt
under the best of them, by `switching`, as its page says. Reported per truth: what is chosen, the
root mean square error of the slopes under the normal noise and after following the advice, and how
often the latter is smaller. Beside it stands the same of the noise that the sample was drawn with,
where that can be fitted: no advice can be expected to do better. Writes ``docs/studies/advice.md``.

    python experiments/advice.py --replications 200 --rows 1000 5000
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

import selfselect as ss

FORMULA = {"a": "y ~ x + z", "b": "y ~ x"}
SLOPES = {("a", "x"): 0.8, ("a", "z"): 0.9, ("b", "x"): -0.6}
ROWS_EACH = 5

TRUTHS = (
    "normal",
    "t5",
    "laplace",
    "skewed",
    "moving spread",
    "correlation 0.5",
    "correlation -0.5",
    "two types",
    "panel effects",
    "other rule",
)


TRUE_NOISES: dict[str, ss.noises.Noise | str] = {
    "t5": ss.noises.Student(5),
    "laplace": ss.noises.Independent(shape="laplace"),
    "moving spread": ss.noises.Independent(scale="~ x"),
    "correlation 0.5": "correlated",
    "correlation -0.5": "correlated",
    "two types": ss.noises.Types(2),
    "panel effects": ss.noises.SharedShock(),
}
"""What samples are drawn with, where it is a noise that can be fitted and not the normal one."""


def noise_of(truth: str, x: np.ndarray, person: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw noise (n, 2) of variance near one."""
    n_rows = len(x)
    normal = rng.normal(size=(n_rows, 2))
    if truth == "t5":
        return rng.standard_t(5, size=(n_rows, 2)) / np.sqrt(5.0 / 3.0)
    if truth == "laplace":
        return rng.laplace(size=(n_rows, 2)) / np.sqrt(2.0)
    if truth == "skewed":
        return (rng.gamma(2.0, size=(n_rows, 2)) - 2.0) / np.sqrt(2.0)
    if truth == "moving spread":
        return normal * np.exp(0.4 * x)[:, None]
    if truth.startswith("correlation"):
        rho = float(truth.split()[1])
        normal[:, 1] = rho * normal[:, 0] + np.sqrt(1.0 - rho**2) * normal[:, 1]
        return normal
    if truth == "two types":
        shift = np.array([[0.9, -0.7], [-0.6, 0.47]])
        return 0.6 * normal + shift[(rng.random(n_rows) < 0.6).astype(int)]
    if truth == "panel effects":
        shock = rng.normal(size=person.max() + 1)[person]
        return 0.7 * normal + 0.7 * shock[:, None]
    return normal


def draw(truth: str, n_rows: int, seed: int) -> pd.DataFrame:
    """Draw the larger of two outcomes, or one picked at random half of the time."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n_rows))
    person = np.arange(n_rows) // ROWS_EACH
    latent = np.column_stack([1.0 + 0.8 * x + 0.9 * z, 0.5 - 0.6 * x])
    latent += noise_of(truth, x, person, rng)
    chosen = latent.argmax(axis=1)
    if truth == "other rule":
        at_random = rng.random(n_rows) < 0.5
        chosen = np.where(at_random, rng.integers(0, 2, n_rows), chosen)
    outcome = latent[np.arange(n_rows), chosen]
    table = {"x": x, "z": z, "y": outcome, "j": np.array(["a", "b"])[chosen], "person": person}
    return pd.DataFrame(table)


def one(task: tuple[str, int, int]) -> dict[str, object]:
    """Fit one sample under all candidates."""
    truth, n_rows, seed = task
    data = draw(truth, n_rows, seed)
    panel = "person" if truth == "panel effects" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.errors.SelfSelectWarning)
        found = ss.choose_noise(FORMULA, data, chosen="j", panel=panel, progress=False)
        said = " ".join(ss.fit(FORMULA, data, chosen="j").rejections())
        chosen, followed = found.best, found.result
        if found.rule_in_doubt:
            chosen, followed = "switching", ss.switching(FORMULA, "j ~ x + z", data, progress=False)
        true = None
        if truth in TRUE_NOISES:
            true = ss.fit(
                FORMULA, data, chosen="j", panel=panel, noise=TRUE_NOISES[truth], progress=False
            )

    def error(fit: ss.FitResult) -> float:
        off = [fit.params[name] - value for name, value in SLOPES.items()]
        return float(np.sqrt(np.mean(np.square(off))))

    return {
        "truth": truth,
        "rows": n_rows,
        "chosen": chosen,
        "rejected": bool(said),
        "normal": error(found.fits["normal"]),
        "following": error(followed),
        "true": np.nan if true is None else error(true),
    }


def _of_truth(part: pd.DataFrame) -> str:
    """Return the error under the true noise, and how often it is the smaller one."""
    if part["true"].isna().any():
        return " | "
    error = float(np.sqrt(np.mean(part["true"] ** 2)))
    return f"{error:.3f} | {100 * (part['true'] < part['normal']).mean():.0f}%"


def main() -> None:
    """Run the study and write its page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 5_000])
    parser.add_argument("--truths", nargs="+", default=list(TRUTHS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs/studies/advice.md"))
    given = parser.parse_args()
    tasks = [
        (truth, n_rows, seed)
        for n_rows in given.rows
        for truth in given.truths
        for seed in range(given.replications)
    ]
    with ProcessPoolExecutor(given.processes) as pool:
        table = pd.DataFrame(list(pool.map(one, tasks, chunksize=1)))
    lines = [
        "# Does following the advice help?",
        "",
        f"{given.replications} samples each of two alternatives, choice recorded, one covariate in "
        "one equation only. Against the normal fit stands what its summary says to try: the noise "
        "of smallest BIC among the candidates of `choose_noise`, or `switching` where the rule "
        "stays in doubt there; error is that of the three slopes (root mean square). The last "
        "two columns are of the noise that the sample was drawn with, where it can be fitted: in "
        "how many samples it has a smaller error than the normal one. "
        "`python experiments/advice.py` makes this page.",
        "",
        "| truth | rows | a test rejects the normal fit | chosen | error, normal | error, chosen | "
        "chosen is better | error, true noise | true noise is better |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (n_rows, truth), part in table.groupby(["rows", "truth"], sort=False):
        counts = Counter(part["chosen"]).most_common(3)
        names = ", ".join(f"{name} {100 * count / len(part):.0f}%" for name, count in counts)
        rms = [float(np.sqrt(np.mean(part[key] ** 2))) for key in ("normal", "following")]
        moved = part[part["chosen"] != "normal"]
        better = "" if not len(moved) else f"{100 * (moved.following < moved.normal).mean():.0f}%"
        lines.append(
            f"| {truth} | {n_rows:,} | {100 * part.rejected.mean():.0f}% | {names} | "
            f"{rms[0]:.3f} | {rms[1]:.3f} | {better} of {len(moved)} | {_of_truth(part)} |"
        )
    given.output.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
