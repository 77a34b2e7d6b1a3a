"""The one module of the net that knows the package from inside: how to call it, and where its
log-likelihood is. A rebuilding of the package changes this module and no other of the net."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import selfselect as ss
from oracle.generator import (
    KNOWN_CORRELATION,
    KNOWN_LOADINGS,
    KNOWN_SCALES,
    MIXING,
    RANK,
    UNITS,
    Case,
    Spec,
    has_common_scale,
    labels_of,
)
from oracle.integrals import Array
from selfselect import likelihoods
from selfselect.problem.batch import Batch

Refused = ss.errors.SelfSelectError


def rule_of(spec: Spec) -> Any:
    """Return the rule of a spec, as a user writes it."""
    unit = UNITS[spec.units][0]
    if spec.rule == "transforms":
        turns = [
            (lambda y: np.exp(y / unit), lambda v: unit * np.log(v)), 1.5 / unit,
            (lambda y: 3.0 - y / unit, lambda v: unit * (3.0 - v)),
        ]  # fmt: skip
        return ss.rules.MonotoneArgmax(turns[: spec.k])
    if spec.rule == "mixing":
        return ss.rules.LinearArgmax(MIXING[: spec.k, : spec.k])
    return ss.rules.Ranked(RANK) if spec.rule == "ranked" else spec.rule


def noise_of(spec: Spec) -> Any:
    """Return the noise of a spec, as a user writes it; None where a plain fit would have none."""
    unit, noises, labels = UNITS[spec.units][0], ss.noises, labels_of(spec)
    scale: Any = {
        "each": "each", "common": "common", "moving": "~ z",
        "known": [unit * one for one in KNOWN_SCALES[: spec.k]],
    }[spec.scale]  # fmt: skip
    if spec.noise == "normal" and spec.scale == "each":
        return None
    if has_common_scale(spec):
        scale = "common"
    made = {
        "student": lambda: noises.Student(scale=scale),
        "student5": lambda: noises.Student(5.0, scale=scale),
        "mixture": lambda: noises.Mixture(2, scale=scale),
        "mixture each": lambda: noises.Mixture(2, each=True, scale=scale),
        "correlated": lambda: noises.Correlated(scale=scale),
        "correlated fixed": lambda: noises.Correlated(
            scale=scale, correlation={(labels[1], labels[0]): KNOWN_CORRELATION}
        ),
        "shock": lambda: noises.SharedShock(scale=scale),
        "shock fixed": lambda: noises.SharedShock(
            scale=scale,
            loading={label: unit * KNOWN_LOADINGS[place] for place, label in enumerate(labels)},
        ),
        "types": lambda: noises.Types(2, scale=scale),
        "talent types": lambda: noises.Types(2, "talent", costs=True, scale=scale),
        "types by z": lambda: noises.Types(2, covariates="~ z", scale=scale),
    }
    if spec.noise in made:
        return made[spec.noise]()
    return noises.Independent(scale=scale, shape=spec.noise)


def options_of(case: Case) -> dict[str, Any]:
    """Return the options of the call, without table and formula."""
    options = {name: value for name, value in case.options.items() if not name.startswith("_")}
    if case.spec.door == "fit":
        options |= {"rule": rule_of(case.spec), "noise": noise_of(case.spec)}
    return options


def table_of(case: Case, folder: Path | None = None) -> Any:
    """Return the table in the format that the spec asks for; files are written to a folder."""
    table, kind = case.table, case.spec.table
    if kind == "polars":
        import polars

        return polars.from_pandas(table)
    if kind == "arrow":
        import pyarrow

        return pyarrow.Table.from_pandas(table, preserve_index=False)
    if kind == "dict":
        return {str(name): table[name].to_numpy() for name in table}
    if kind == "dask":
        import dask.dataframe

        _ = cluster()
        return dask.dataframe.from_pandas(table, npartitions=2)
    if kind in ("csv", "parquet"):
        assert folder is not None
        path = folder / f"{len(list(folder.iterdir()))}.{kind}"
        table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
        return path
    return table


@cache
def cluster() -> Any:
    """Return the cluster of this process that partitions are summed on."""
    import distributed

    return distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    )


def fit(case: Case, folder: Path | None = None, **more: Any) -> Any:
    """Fit a case through its door."""
    table, options = table_of(case, folder), options_of(case)
    if "_covariance" in case.options:
        options["covariance"] = case.options["_covariance"]
    options |= more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.spec.door == "fit":
            return ss.fit(case.formula, table, seed=1, **options)
        selection = case.options["_selection"]
        if case.spec.door == "sample_selection":
            return ss.sample_selection(case.formula, selection, table, seed=1, **options)
        return ss.switching(case.formula, selection, table, seed=1, **options)


def _of_rows(problem: Any, natural: Array, batch: Batch) -> Array:
    return likelihoods.row_terms(problem, natural, batch).loglik


def _residuals(problem: Any, natural: Array, batch: Batch) -> Array:
    return likelihoods.row_terms(problem, natural, batch).residual


def _sums(problem: Any, natural: Array, backend: Any, batch: Batch) -> Any:
    if backend is not None:
        batch = Batch(batch.rows, batch.observation, backend, batch.start)
    return likelihoods.evaluate(problem, natural, batch)


def estimate(case: Case, values: Any, outcome: Any) -> Any:
    """Fit a case through the estimator, from covariates and outcomes of any kind."""
    table, known = case.table, case.spec.index == "known"
    made = ss.SelfSelectionRegressor(
        n_alternatives=None if known else case.spec.k, rule=rule_of(case.spec),
        noise=noise_of(case.spec), random_state=1,
    )  # fmt: skip
    chosen = {"chosen": table["job"].to_numpy()} if known else {}
    people = {"panel": table["who"].to_numpy()} if case.spec.panel == "people" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.fit(values, outcome, **chosen, **people).result_


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The log-likelihood of a case, as a function of parameters by label."""

    problem: Any
    engine: Any

    @cached_property
    def names(self) -> tuple[tuple[Any, str], ...]:
        """The labels under which parameters are reported."""
        with np.errstate(all="ignore"):
            free = np.full(self.problem.layout.n_free, 0.3)
            return tuple(self.problem.layout.report(free).labels)

    def free(self, values: Mapping[tuple[Any, str], float]) -> Array:
        """Return the free parameters of values by label."""
        return self.problem.layout.read(np.array([values[name] for name in self.names]))

    def values(self, free: Array) -> dict[tuple[Any, str], float]:
        """Return values by label of free parameters."""
        reported = self.problem.layout.report(free)
        return dict(zip(reported.labels, map(float, reported.values), strict=True))

    def _natural(self, free: Array) -> Array:
        return self.problem.layout.natural(free)

    @property
    def _lost_units(self) -> float:
        return float(np.log(self.problem.units.outcome_unit))

    def row_logliks(self, free: Array) -> Array:
        """Return the log-likelihood of every row in the user's units, unweighted."""
        found = self.engine.collect(partial(_of_rows, self.problem, self._natural(free)))
        return found - self._lost_units * np.isfinite(self.engine.rows.outcome)

    def residuals(self, free: Array) -> Array:
        """Return what every row says of every noise (n, k), in units of its scale."""
        return self.engine.collect(partial(_residuals, self.problem, self._natural(free)))

    def evaluation(self, free: Array, backend: str | None = None) -> tuple[float, Array, Array]:
        """Return the weighted log-likelihood, its score and its Hessian, in free parameters."""
        layout = self.problem.layout
        found = self.engine.sum(partial(_sums, self.problem, self._natural(free), backend))
        score = layout.pull_back_vector(found.score, free)
        hessian = layout.pull_back_hessian(found.hessian, found.score, free)
        return found.loglik, score, hessian

    @property
    def backends(self) -> tuple[str, ...]:
        """The other ways to evaluate the same sums."""
        likelihood = self.problem.likelihood
        return ("joint" if likelihood.joint else "numpy",)


def pose(case: Case, folder: Path | None = None) -> Evaluated:
    """Pose a case without solving it; selection models have no door for that and are solved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.spec.door == "fit":
            posed = ss.pose(case.formula, table_of(case, folder), seed=1, **options_of(case))
            return Evaluated(posed.problem, posed.engine_of_rows())
        result = fit(case, folder)
        return Evaluated(result.problem, result.engine_of_rows())


def of_fit(result: Any) -> Evaluated:
    """Return the log-likelihood of a fit's rows."""
    return Evaluated(result.problem, result.engine_of_rows())


def at(result: Any, free: Array) -> Any:
    """Return a fit moved to other free parameters: all it says is then said of those."""
    return replace(result, solution=replace(result.solution, free=free))


def along(result: Any, direction: Array) -> Any:
    """Return a fit whose estimates vary along one direction of the free parameters alone.

    Its standard errors are then absolute slopes along that direction.
    """
    jacobian = result.problem.layout.report(result.solution.free).jacobian
    moves = jacobian @ direction
    ridge = 1e-13 * np.diag(moves**2)  # tests of the fit, which pages make, divide by it
    covariance = replace(result.covariance, matrix=np.outer(moves, moves) + ridge, missing=())
    return replace(result, covariance=covariance)


def options_of_door(door: str) -> set[str]:
    """Return the names of the options of a door."""
    called = ss.sample_selection if door == "sample_selection" else ss.switching
    return set(inspect.signature(called).parameters)
