"""What must hold of a saved fit: sizes, names and numbers that belong together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.coding import check_known
from selfselect.data.equations import (
    INTERCEPT,
    SELECTION,
    Equation,
    Equations,
    Factor,
    Method,
    Term,
    parse_side,
)
from selfselect.data.rows import refuse_beyond_memory
from selfselect.data.selection_rows import cut_names
from selfselect.errors import ArchiveError
from selfselect.inference.simulation import SUBJECTS
from selfselect.rules.base import by_alternative

if TYPE_CHECKING:
    from selfselect.data.design import DataFacts
    from selfselect.inference.covariance import Covariance
    from selfselect.inference.statistics import TestResult
    from selfselect.results.fit_result import FitResult, SavedAnswers


Array = NDArray[np.float64]

MOST_ALTERNATIVES = 1_000
MOST_POINTS = 1 << 24
"""Alternatives, and points of a simulated or integrated likelihood, that a file may ask for."""

MOST_CLUSTERS = 1 << 53
"""Clusters up to which counts are exact as floating-point numbers."""

ASYMMETRY = 1e-8
"""How far a matrix may be from its transpose, relative to its largest entry: products of matrices
round."""


def check_coder(text: str, names: tuple[str, ...]) -> None:
    """Refuse names of columns that are not those a formula makes, or in another order.

    A name may be one of several terms: of ``k`` and of ``k:g``, where both are categories. So the
    terms that the names met so far may have come to are kept.
    """
    terms = [_names_of(term) for term in parse_side(text)]
    reached = {-1}
    for name in names:
        following = {place + step for place in reached for step in (0, 1)} - {-1, len(terms)}
        reached = {place for place in following if terms[place].fullmatch(name)}
    if len(terms) - 1 not in reached or len(set(names)) < len(names):
        raise ArchiveError(f"the columns {', '.join(names)} are not those of {text!r}")


def _names_of(term: Term) -> re.Pattern[str]:
    """Return what names of a term's columns look like: a column is named without its backticks."""
    constant = Factor("1", Method.LITERAL)
    parts = [re.escape(INTERCEPT if one == constant else one.expr) for one in term.factors]
    # A product may also make columns of some of its factors, so that none is lost.
    return re.compile("(?=.)" + "".join(rf"(:?{part}(\[.*\])?)?" for part in parts), re.DOTALL)


def check_equations(equations: Equations, *, own_covariates: bool, several: bool = False) -> None:
    """Refuse equations whose labels, terms and positions do not belong together.

    `several` says whether a selection is between any number of alternatives.
    """
    labels, selection = equations.alternatives, equations.selection
    fewest, most = (2, MOST_ALTERNATIVES) if selection is None or several else (1, 2)
    if selection is not None and selection.n_cuts:
        fewest, most = 2, MOST_ALTERNATIVES
        if selection.terms[selection.n_slopes :] != cut_names(labels):
            raise ArchiveError("its cut points are not those between its alternatives")
    if not fewest <= len(labels) <= most:
        raise ArchiveError(
            f"it has {len(labels)} alternatives, and {fewest} to {most} are possible"
        )
    if selection is not None and (selection.alternative != SELECTION or SELECTION in labels):
        raise ArchiveError(f"its selection equation is named {selection.alternative!r}")
    for label in labels:
        if not isinstance(label, str | int | float):
            raise ArchiveError(f"{label!r} is no label of an alternative")
    if len(set(map(str, labels))) < len(labels):
        raise ArchiveError("two alternatives have the same label")
    covariates = equations.covariates
    if len(set(covariates)) < len(covariates) or INTERCEPT in covariates:
        raise ArchiveError("two covariates have the same name")
    others = (*equations.costs, *equations.spreads, *([selection] if selection else []))
    for equation in (*equations.each, *others):
        _check_terms(equation, covariates, own_covariates)
    costly = [cost.alternative for cost in equations.costs]
    if not set(costly) <= set(labels) or len(set(costly)) < len(costly):
        raise ArchiveError("costs belong to other alternatives")
    if equations.spreads and [one.alternative for one in equations.spreads] != list(labels):
        raise ArchiveError("log scales belong to other alternatives")
    members = [member for one in equations.shared for member in one.members]
    for j, place in members:
        if not (0 <= j < len(labels) and 0 <= place < len(equations.each[j].estimated)):
            raise ArchiveError("a shared coefficient belongs to no equation")
    if len(set(members)) < len(members):
        raise ArchiveError("a coefficient is shared twice")


def _check_terms(equation: Equation, covariates: tuple[str, ...], own: bool) -> None:
    where = f"the equation of {equation.alternative!r}"
    terms, columns = equation.terms, equation.columns
    if len(terms) != len(columns) or len(set(terms)) < len(terms):
        raise ArchiveError(f"{where} has {len(terms)} terms in {len(columns)} columns")
    if not 0 <= equation.n_cuts <= len(terms) or any(columns[equation.n_slopes :]):
        raise ArchiveError(f"{where} has {equation.n_cuts} cut points")
    slopes = zip(terms[: equation.n_slopes], columns, strict=False)
    for term, column in slopes:
        if not 0 <= column <= len(covariates):
            raise ArchiveError(f"{where} has a term in the column {column}")
        name = INTERCEPT if column == 0 else covariates[column - 1]
        names = {name, name.removesuffix(f"[{equation.alternative}]")} if own else {name}
        if equation.has_offset and term == terms[-1]:
            names = {f"offset({one})" for one in names}
        if term not in names:
            raise ArchiveError(f"{where} has the term {term!r} in the column of {name!r}")


def check_fit(fit: FitResult, kept: SavedAnswers) -> None:
    """Refuse numbers that are not those of a fit: of the wrong count, size or sign."""
    with np.errstate(all="ignore"):
        _check_numbers(fit)
    _check_known(fit)
    equations = fit.problem.equations
    k = equations.n_alternatives
    check_facts(fit.facts, k)
    for parts in (kept.naive.coefficients, kept.naive.std_errors):
        sizes = [part.shape for part in parts]
        if sizes != [(len(equation.estimated),) for equation in equations.each]:
            raise ArchiveError("least squares has other coefficients")
    if kept.naive.scales.shape != (k,) or np.any(kept.naive.scales < 0):
        raise ArchiveError("least squares has other scales")
    shares = np.array(kept.shares, dtype=float)
    if shares.shape != (k,) or np.any((shares < -1e-9) | (shares > 1 + 1e-9)):
        raise ArchiveError("the alternatives' shares are none")
    for test in (kept.independence, *kept.noise):
        _check_test(test)
    if len(kept.noise) != len(SUBJECTS):
        raise ArchiveError("it lacks the tests of noise")
    if any(one.verdict not in ("fine", "weak", "note") for one in kept.diagnosis.findings):
        raise ArchiveError("the diagnosis has an unknown verdict")


def check_facts(facts: DataFacts, k: int) -> None:
    """Refuse facts that no data with so many alternatives has."""
    if len(facts.formulas) != k or not len(facts.counts) == len(facts.shown) in (0, k):
        raise ArchiveError("the facts are of another number of alternatives")
    numbers = [value for name, value in vars(facts).items() if name.startswith("n_")]
    low, high = facts.outcome_range
    if min(*numbers, *facts.counts, *facts.shown, 0) < 0 or facts.n_rows < 1 or not low <= high:
        raise ArchiveError("the facts hold numbers that no data has")
    if not (0 < facts.weight_total < np.inf and np.isfinite([low, high]).all()):
        raise ArchiveError("the facts hold numbers that no data has")


def _check_numbers(fit: FitResult) -> None:
    problem, solution, free = fit.problem, fit.solution, fit.solution.free
    units, n_terms = problem.units, sum(len(one.terms) for one in problem.equations.each)
    shape = (len(problem.equations.covariates) + 1,)
    if units.shift.shape != shape or units.unit.shape != shape:
        raise ArchiveError("the units are those of other covariates")
    measured = np.array([*units.shift, *units.unit, units.outcome_shift, units.outcome_unit])
    if not (np.isfinite(measured).all() and (units.unit > 0).all() and units.outcome_unit > 0):
        raise ArchiveError("the units are not positive numbers")
    if free.ndim != 1 or not np.isfinite(free).all():
        raise ArchiveError("the parameters are not finite numbers")
    size = (len(free), len(free))
    for matrix in (solution.information, solution.noise, solution.outer):
        if matrix is not None and matrix.shape != size:
            raise ArchiveError(f"a matrix of the solution is not {size[0]} by {size[0]}")
    if solution.noise is not None:
        check_covariance(solution.noise, "the Monte-Carlo covariance")
    points = [value for value in vars(problem.noise).values() if isinstance(value, int)]
    if max(*points, solution.points or 0, 0) > MOST_POINTS:
        raise ArchiveError(f"it asks for more than {MOST_POINTS:,} points")
    refuse_beyond_memory(f"A fit of {len(free)} parameters", 8.0 * n_terms * len(free))
    if problem.layout.n_free != len(free):
        raise ArchiveError(f"it has {len(free)} parameters and its model {problem.layout.n_free}")
    problem.check(fit.facts.outcome_range)
    if problem.rank is not None and problem.rank > problem.equations.n_alternatives:
        raise ArchiveError("the rank is beyond the number of alternatives")
    if not np.isfinite(fit.values).all() or (problem.layout.central_scales(fit.values) <= 0).any():
        raise ArchiveError("the estimates are not finite, or a scale is not positive")
    matrix = fit.covariance.matrix
    if matrix.shape != (len(fit.values), len(fit.values)):
        raise ArchiveError("parameters and covariance differ in size")
    check_covariance(matrix, "the covariance")
    check_clusters(fit.covariance)
    counts = ((solution.held, len(free)), (fit.covariance.missing, len(fit.values)))
    for places, count in counts:
        if not all(0 <= place < count for place in places):
            raise ArchiveError("a parameter without a standard error is none of its parameters")
    if solution.n_passes < 0 or solution.loglik_error < 0 or np.isposinf(solution.loglik):
        raise ArchiveError("the solution holds numbers that no solver returns")


def check_clusters(covariance: Covariance) -> None:
    """Refuse a number of clusters that no covariance is of."""
    number = covariance.n_clusters
    if number is not None and not 2 <= number <= MOST_CLUSTERS:
        raise ArchiveError("the covariance is of a number of clusters that no table has")


def check_covariance(matrix: Array, what: str) -> None:
    """Refuse a matrix that is no covariance."""
    finite = matrix[np.isfinite(matrix)]
    gap = ASYMMETRY * float(np.abs(finite).max(initial=0.0))
    if not np.allclose(matrix, matrix.T, rtol=ASYMMETRY, atol=gap, equal_nan=True):
        raise ArchiveError(f"{what} is not symmetric")
    if np.any(np.diag(matrix) < -gap):
        raise ArchiveError(f"{what} has a negative variance")


def _check_known(fit: FitResult) -> None:
    known, labels = fit.coding.known, fit.problem.equations.alternatives
    if len(known.costs) != len(labels) or len(known.available) != len(labels):
        raise ArchiveError("costs or availability are of another number of alternatives")
    if not all(one is None or isinstance(one, str) or np.isfinite(one) for one in known.costs):
        raise ArchiveError("a cost is not finite")
    cost: Any = getattr(fit.problem.rule, "cost", None)
    check_known(cost, None)
    by_alternative(cost or {}, labels, what="cost")


def _check_test(test: TestResult) -> None:
    if test.p_value < 0 or test.p_value > 1 or test.df < 0:
        raise ArchiveError(f"the test {test.name!r} holds numbers that no test returns")
