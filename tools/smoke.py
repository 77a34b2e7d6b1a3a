"""Tries an installation: `python smoke.py EXTRA`, in a folder that may be written to.

What the extra brings must work; what other extras bring must be refused with the line that
installs them.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import selfselect as ss
from selfselect.kernels.compiled import extension

NEEDS = {
    "plot": "matplotlib",
    "sklearn": "sklearn",
    "parquet": "pyarrow",
    "torch": "torch",
    "dask": "distributed",
}
BRINGS = {"all": ("plot", "sklearn", "parquet"), "none": (), "pure": ()}

villagers = ss.simulators.village(500, seed=1).data
FORMULA = "income ~ height + weight"


def use_nothing() -> None:
    """Fit, ask, save, load, and run the shell."""
    fit = ss.fit(FORMULA, villagers, chosen="job")
    assert fit.converged and "hunting" in str(fit.summary())
    assert len(fit.predict(villagers)) == len(villagers)
    assert "height" in str(fit.marginal_effects())
    fit.save("fit.json")
    assert (ss.load("fit.json").params == fit.params).all()
    assert len(ss.datasets.careers()) > 12_000 and len(ss.datasets.housing()) == 144
    villagers.to_csv("villagers.csv", index=False)
    whole = ss.fit(FORMULA, "villagers.csv", chosen="job", engine=ss.engines.Memory())
    assert abs(whole.llf - fit.llf) < 1e-6
    shell = [sys.executable, "-m", "selfselect", "fit", "villagers.csv", FORMULA, "--chosen", "job"]
    said = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    assert "hunting" in said
    version = [str(Path(sys.executable).parent / "selfselect"), "--version"]
    said = subprocess.run(version, capture_output=True, text=True, check=True).stdout
    assert ss.__version__ in said


def use_plot() -> None:
    """Draw, and write a report."""
    fit = ss.fit(FORMULA, villagers, chosen="job")
    assert len(ss.plots.coefficients(fit).data)
    fit.report("fit.html")
    assert "<svg" in Path("fit.html").read_text(encoding="utf-8")


def use_sklearn() -> None:
    """Fit the estimator."""
    model = ss.SelfSelectionRegressor(n_alternatives=2)
    model.fit(villagers[["height"]], villagers["income"])
    assert len(model.predict(villagers[["height"]])) == len(villagers)


def use_parquet() -> None:
    """Fit a file piece by piece."""
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pandas(villagers), "villagers.parquet")
    fit = ss.fit(FORMULA, "villagers.parquet", chosen="job", engine=ss.engines.Parquet())
    assert fit.converged and not fit.has_rows


def use_torch() -> None:
    """Sum over tensors."""
    assert ss.fit(FORMULA, villagers, chosen="job", engine=ss.engines.Torch("cpu")).converged


def use_dask() -> None:
    """Sum over a frame on a cluster of threads."""
    import dask.dataframe
    import distributed

    frame = dask.dataframe.from_pandas(villagers, npartitions=2)
    with distributed.Client(processes=False, n_workers=1, dashboard_address=None):
        assert ss.fit(FORMULA, frame, chosen="job").converged


USES = {
    "plot": use_plot,
    "sklearn": use_sklearn,
    "parquet": use_parquet,
    "torch": use_torch,
    "dask": use_dask,
}


def lacks(extra: str) -> bool:
    """Say whether using an extra ends in the error that says how to install it."""
    try:
        {**USES, "parquet": read_file, "dask": join_cluster}[extra]()
    except ss.errors.MissingDependencyError as error:
        return f"selfselect[{extra}]" in str(error)
    return False


def read_file() -> None:
    """Ask for a file."""
    ss.fit(FORMULA, "villagers.parquet", chosen="job")


def join_cluster() -> None:
    """Ask for a cluster."""
    ss.fit(FORMULA, "villagers.parquet", chosen="job", engine=ss.engines.Dask())


def main(asked: str) -> None:
    """Try one extra."""
    if (extension() is None) != (asked == "pure"):
        sys.exit(f"The compiled kernels are {extension()} in the installation {asked!r}.")
    use_nothing()
    for extra, package in NEEDS.items():
        if extra in BRINGS.get(asked, (asked,)):
            USES[extra]()
        elif find_spec(package) is None and not lacks(extra):
            sys.exit(f"Without {package} there is no error that names selfselect[{extra}].")
    print(f"{asked}: works")


if __name__ == "__main__":
    main(sys.argv[1])
