"""The engines that keep the contract, each with a way to hand it a table, and a table to hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss

Handed = tuple[Any, Any]
"""What is given to `fit`: data and engine."""


@dataclass(frozen=True)
class Way:
    """An engine under test.

    Attributes
    ----------
    hand : makes of a table, and an empty folder, what is given to `fit` as data and engine.
    needs : a package without which it is skipped.
    """

    hand: Callable[[pd.DataFrame, Path], Handed]
    needs: str = "pyarrow"


def parts_of(table: pd.DataFrame, cuts: tuple[int, ...]) -> list[pd.DataFrame]:
    edges = [0, *cuts, len(table)]
    return [table.iloc[a:b] for a, b in pairwise(edges)]


def as_parquet(table: pd.DataFrame, folder: Path) -> Handed:
    """Write files of very different lengths, one of them empty."""
    for i, part in enumerate(parts_of(table, (1, len(table) // 3, len(table) // 3))):
        part.to_parquet(folder / f"part-{i}.parquet", index=False)
    return f"{folder}/*.parquet", ss.engines.Parquet(batch_rows=257)


def as_partitions(table: pd.DataFrame, folder: Path) -> Handed:
    """Write the same files, to be read by workers of the cluster that runs."""
    return as_parquet(table, folder)[0], ss.engines.Dask()


def as_tensors(table: pd.DataFrame, folder: Path) -> Handed:
    """Leave the table as it is: it becomes tensors of the processor."""
    del folder
    return table, ss.engines.Torch("cpu")


WAYS = {
    "Parquet": Way(as_parquet),
    "Dask": Way(as_partitions, "distributed"),
    "Torch": Way(as_tensors, "torch"),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    """Run the test once for every engine."""
    found = WAYS[request.param]
    if find_spec(found.needs) is None:
        pytest.skip(f"{request.param} needs {found.needs}, which is not installed")
    if request.param == "Dask":
        request.getfixturevalue("cluster")
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Run a cluster of two workers in this process, which starts at once."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as here,
        distributed.Client(here) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def people() -> pd.DataFrame:
    """Return a table with a column for every argument of `fit` that names one."""
    rng = np.random.default_rng(5)
    n = 1_200
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=["x1", "x2", "x3"])
    latent = table[["x1", "x2"]] @ [[0.8, -0.5, 0.1], [-0.4, 0.3, 0.6]] + [0.3, 0.6, 0.2]
    latent = latent.to_numpy() + rng.normal(size=(n, 3)) * [0.8, 1.0, 1.2]
    open_c = rng.uniform(size=n) < 0.8
    fare = rng.uniform(0, 0.8, n)
    worth = latent - np.column_stack([np.zeros(n), np.full(n, 0.4), fare])
    worth[~open_c, 2] = -np.inf
    seen = worth.argmax(axis=1)
    recorded = rng.uniform(size=n) < 0.9
    outcome = latent[np.arange(n), seen]
    chosen = np.array(["a", "b", "c"])[seen]
    pair = latent[:, :2] + 0.6 * rng.normal(size=(n, 1))
    selecting = np.random.default_rng(6)
    u, own = selecting.normal(size=(2, n))
    index = 0.2 + 0.5 * table["x1"] + 0.9 * table["x3"] + u
    wage = 1.0 + 0.6 * table["x1"] - 0.4 * table["x2"] + 0.6 * u + 0.8 * own
    asked = selecting.uniform(size=n) < 0.9
    table = table.assign(
        works=index > 0,
        wage=wage.where(index > 0),
        told_wage=wage.where((index > 0) & asked),
        lowest_wage=(wage - 0.7).where(selecting.uniform(size=n) < 0.7),
        job=np.where(index > 0, "in", "out"),
        pay=wage + np.where(index > 0, 0.5, -0.2 * table["x3"]),
        # Needed, and known, in one alternative only.
        tenure=pd.Series(selecting.uniform(size=n)).where((index > 0) & asked),
        hours=np.array(["none", "part", "full"])[np.digitize(index, [-0.5, 0.8])],
        good=np.where(index > 0, wage > 1.0, np.nan),
    )
    return table.assign(
        outcome=outcome,
        chosen=chosen,
        kept_outcome=np.where(recorded, outcome, np.nan),
        low=outcome - rng.uniform(0.5, 1.0, n),
        partly=pd.Series(chosen).where(recorded),
        maybe_b=(seen == 1) | (rng.uniform(size=n) < 0.5),
        open_c=open_c,
        fare=fare,
        urban=rng.uniform(size=n) < 0.5,
        w=rng.integers(1, 4, n).astype(float),
        often=rng.integers(0, 4, n),
        firm=rng.integers(60, size=n),
        year=rng.integers(2000, 2012, size=n),
        region=rng.choice(["north", "south", "east"], n),
        pair=np.array(["a", "b"])[pair.argmax(axis=1)],
        pair_outcome=pair.max(axis=1),
        known_part=rng.normal(size=n) * 0.1,
    )
