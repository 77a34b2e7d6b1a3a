"""Unobserved types: who has which, and what they are like."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.likelihoods import Batch, row_terms
from selfselect.noises.types import type_label
from selfselect.problem.problem import Problem
from selfselect.results.tables import Tables

if TYPE_CHECKING:
    from selfselect.report.page import Page
    from selfselect.results.fit_result import FitResult

__all__ = ["UnobservedTypes", "unobserved_types"]

Array = NDArray[np.float64]


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


def unobserved_types(fit: FitResult) -> UnobservedTypes:
    """Describe the types of a fit, and say who has which."""
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
