"""What a fit says of each row: alternatives, unobserved types, residuals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import MissingRowsWarning, OptionError, UnsupportedError, warn_user
from selfselect.likelihoods import Batch, row_terms
from selfselect.noises.types import type_label
from selfselect.problem.batch import Parts
from selfselect.problem.problem import Problem
from selfselect.results.predictions import say_lacking
from selfselect.results.tables import Tables

if TYPE_CHECKING:
    from selfselect.report.page import Page
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# The chosen alternative, where it was not recorded: probabilities per row, and shares.


def responsibilities(fit: FitResult, data: Any = None) -> pd.DataFrame:
    """Return, per row, the probability that each alternative was the chosen one.

    Parameters
    ----------
    data : a table with covariates and outcome; None for the rows of the fit.
    """
    problem = fit.problem
    if problem.index == "known" and not (fit.facts.n_undecided and data is None):
        raise OptionError(
            "In this fit the choice was recorded, so there is nothing to infer but in its own rows "
            "that lack it. For chances before anything is observed use predict(kind='chance')."
        )
    if data is None:
        natural = problem.layout.natural(fit.solution.free)
        columns = pd.Index(problem.equations.alternatives, name="alternative")
        values = fit.engine_of_rows().collect(partial(_chance, problem, natural))
        return pd.DataFrame(values, index=fit.row_labels, columns=columns)
    made, n_lacking = new_responsibilities(fit, data)
    if n_lacking:
        warn_user(
            say_lacking(n_lacking, len(made), "value", "probabilities"),
            MissingRowsWarning,
        )
    return made


def new_responsibilities(fit: FitResult, data: Any) -> tuple[pd.DataFrame, int]:
    """Return the probabilities of new rows, and how many lack what is needed for them."""
    problem = fit.problem
    natural = problem.layout.natural(fit.solution.free)
    columns = pd.Index(problem.equations.alternatives, name="alternative")
    coded = fit.coding.code(data, with_known=True, with_outcome=True)
    values = np.full((len(coded.index), len(columns)), np.nan)
    batch = Batch(coded.rows, problem.likelihood.observe(coded.rows))
    values[coded.complete] = _chance(problem, natural, batch)
    return pd.DataFrame(values, index=coded.index, columns=columns), int((~coded.complete).sum())


def expected_shares(problem: Problem, engine: Engine, free: Array) -> Array:
    """Return the share (k,) of the rows in which each alternative is expected to be chosen."""
    total, weight = engine.sum(partial(_totals, problem, problem.layout.natural(free)))
    shares: Array = total / weight
    return shares


def _chance(problem: Problem, natural: Array, batch: Batch) -> Array:
    return row_terms(problem, natural, batch).chance


def _totals(problem: Problem, natural: Array, batch: Batch) -> Parts:
    weights = np.ones(len(batch)) if batch.rows.weights is None else batch.rows.weights
    return Parts((weights @ _chance(problem, natural, batch), float(weights.sum())))


# Unobserved types: who has which, and what they are like.


@dataclass(frozen=True, eq=False, repr=False)
class UnobservedTypes(Tables):
    """The types of a fit.

    Attributes
    ----------
    people : the chance of every type given all rows of a person, one row per person; without a
        panel, one per row.
    table : what types are like, one column each: weight, expected people and rows; the share of
        their rows in which each alternative was chosen; their shift, and cost, of each
        alternative, missing where the data do not determine it; the means of the outcome and of
        the covariates in their rows.
    """

    people: pd.DataFrame
    table: pd.DataFrame

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        from selfselect.report.page import Block, Page

        return Page("Unobserved types", (), (), (Block.of("", self.table),), ())

    def __str__(self) -> str:
        return self.to_page().to_text()

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def types(fit: FitResult) -> UnobservedTypes:
    """Describe the unobserved types of a fit with `noises.Types`, and who has which."""
    problem = fit.problem
    noise: Any = problem.noise
    if not noise.mixed:
        raise UnsupportedError(
            f"This fit has no types: its noise is {noise.name}. Fit with noise=noises.Types(3)."
        )
    natural = problem.layout.natural(fit.solution.free)
    chance = fit.engine_of_rows().collect(partial(_types_and_choices, problem, natural))
    n_types = noise.count
    types, choices = chance[:, :n_types], chance[:, n_types:]
    columns = pd.Index([type_label(m) for m in range(n_types)], name="type")
    people, first = _people(fit)
    chances = pd.DataFrame(types[first], index=people, columns=columns)
    weights = np.ones(len(types)) if fit.rows.weights is None else fit.rows.weights
    own = types * weights[:, None]
    labels = problem.equations.alternatives
    values = noise.values(problem.layout.extras_of(fit.values)[: problem.layout.n_noise_extras],
                          labels)  # fmt: skip
    held_shifts = {(m, label) for m, label, _ in noise.held_shifts}
    held_costs = {(m, label) for m, label, _ in noise.held_costs}
    lines: dict[str, Any] = {
        "weight": values.weights,
        "expected people": (types[first] * weights[first, None]).sum(axis=0),
        "expected rows": own.sum(axis=0),
    }
    visits = own.T @ choices / own.sum(axis=0)[:, None]
    for j, label in enumerate(labels):
        lines[f"share of rows in {label}"] = visits[:, j]
    for j, label in enumerate(labels):
        lines[f"shift in {label}"] = _known(values.shifts[:, j], label, held_shifts)
    if noise.costs:
        for j, label in enumerate(labels[1:], start=1):
            lines[f"cost of {label}"] = _known(values.costs[:, j], label, held_costs)
    rows = fit.rows
    described: dict[str, Any] = {problem.equations.outcome: rows.outcome}
    described |= dict(zip(problem.equations.covariates, rows.covariates.T, strict=True))
    for name, column in described.items():
        recorded = np.isfinite(column)
        some = own[recorded]
        lines[f"mean {name}"] = some.T @ column[recorded] / some.sum(axis=0)
    return UnobservedTypes(chances, pd.DataFrame(lines, index=columns).T)


def _known(values: Array, label: Any, held: set[tuple[int, Any]]) -> Array:
    return np.array([np.nan if (m, label) in held else value for m, value in enumerate(values)])


def _types_and_choices(problem: Problem, natural: Array, batch: Batch) -> Array:
    rows: Any = row_terms(problem, natural, batch)
    return np.hstack([rows.types, rows.chance])


def _people(fit: FitResult) -> tuple[pd.Index[Any], NDArray[np.intp]]:
    """Return the names of people and the first row of each."""
    groups = fit.rows.groups
    if groups is None:
        labels = pd.RangeIndex(len(fit.rows)) if fit.row_labels is None else fit.row_labels
        return labels, np.arange(len(fit.rows))
    codes, first = np.unique(groups, return_index=True)
    panel = fit.facts.panel
    if fit.table is not None and panel in fit.table and len(fit.table) == len(groups):
        return pd.Index(fit.table[panel].iloc[first], name=panel), first
    return pd.Index(codes, name=panel), first


# Residuals of models in which most outcomes were not observed.


def generalised_residuals(fit: FitResult) -> pd.DataFrame:
    r"""Return what each row is expected to say of each alternative's noise, (n, k).

    That is :math:`e_{ij} = E[(y_{ij} - \mu_{ij})/\sigma_j \mid \text{row } i]`: the standardised
    residual where j was chosen, and a truncated mean where it was not. Under the model its mean
    is zero at any covariates.
    """
    refuse_dependent_noise(fit.problem)
    natural = fit.problem.layout.natural(fit.solution.free)
    values = fit.engine_of_rows().collect(partial(row_residuals, fit.problem, natural))
    columns = pd.Index(fit.problem.equations.alternatives, name="alternative")
    return pd.DataFrame(values, index=fit.row_labels, columns=columns)


def refuse_dependent_noise(problem: Problem) -> None:
    """Refuse a known covariance, integrated by draws without residuals, and a selection's noise."""
    if problem.noise.method != "ml":
        raise UnsupportedError(
            "Two-step estimates do not maximise a likelihood. Use method='ml' for residuals."
        )
    if problem.noise.selected and problem.equations.n_alternatives > 1:
        raise UnsupportedError(
            "With a selection equation there are no residuals of every alternative: no row shows "
            "two outcomes, so their correlation is not identified."
        )
    if not (problem.noise.independent or problem.noise.joint or problem.noise.selected):
        raise UnsupportedError(
            f"Residuals are not known where noise is {problem.noise.name}: use noises.Correlated "
            "with fixed scales and correlations."
        )


def row_residuals(problem: Problem, natural: Array, batch: Batch) -> Array:
    """Return the mean (n, k) of each alternative's noise given the row, in units of its scale."""
    return row_terms(problem, natural, batch).residual
