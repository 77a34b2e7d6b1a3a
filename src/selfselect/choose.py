"""How many alternatives? Fits for several numbers of them, compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Integral
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect._fit import fit
from selfselect.data.build import build_design
from selfselect.engines.base import EngineChoice
from selfselect.engines.memory import Memory
from selfselect.errors import DataError, OptionError, SelfSelectError
from selfselect.inference.statistics import p_value_in_words
from selfselect.kernels.tails import entr
from selfselect.noises import Independent, as_noise
from selfselect.options import (
    CovarianceOption,
    Limits,
    Missing,
    MissingOutcome,
    NoiseOption,
    RuleOption,
    WeightsKind,
)
from selfselect.posing import rows_to_measure
from selfselect.problem.problem import Problem
from selfselect.problem.units import measure_units
from selfselect.report.page import Block, Page
from selfselect.results.fit_result import FitResult
from selfselect.results.overfitting import least_squares_fit
from selfselect.results.refit import arguments_for
from selfselect.results.tables import counted
from selfselect.rules import as_rule
from selfselect.solvers._search import SearchSpace, find_subspace
from selfselect.solvers._start import gram_matrices, refuse_collinear
from selfselect.solvers.base import Solver

Array = NDArray[np.float64]

TEST_LEVEL = 0.05
"""Size of each test of one alternative more."""

MOST_NUMBERS = 1_000
"""Numbers of alternatives that one call tries."""


@dataclass(frozen=True, eq=False, repr=False)
class NumberOfAlternatives:
    """How many alternatives the data supports.

    Attributes
    ----------
    table : one row per number: log-likelihood, AIC, BIC, ICL, entropy of the responsibilities per
        row, spectral gap of the subspace, and whether the fit converged.
    recommended : the number with the smallest BIC, or the first that tests leave.
    reason : a sentence.
    fits : the fits, by number; 1 is least squares and has none.
    scree : eigenvalues of the subspace that holds the coefficients, the strongest first: the data
        of a scree plot. Where covariates are normal, k alternatives make k - 1 of them stand out
        by the residual method, and k by the paper's.
    """

    table: pd.DataFrame
    recommended: int
    reason: str
    fits: dict[int, FitResult]
    scree: Array

    def __repr__(self) -> str:
        said = f"{self.recommended} recommended; {counted(len(self.table))} in .table"
        return f"<NumberOfAlternatives: {said}; print it to read>"

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        block = Block.of("", self.table)
        return Page("How many alternatives there are", (), (), (block,), (self.reason,))

    def __str__(self) -> str:
        return self.to_page().to_text()

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def choose_alternatives(
    formula: str,
    data: Any,
    numbers: Iterable[int] = range(1, 7),
    *,
    method: Literal["bic", "bootstrap"] = "bic",
    replications: int = 99,
    subspace: Literal["residual", "paper"] = "residual",
    available: Mapping[Any, str] | None = None,
    possible: Mapping[Any, str] | None = None,
    cost: Mapping[Any, Any] | None = None,
    rule: RuleOption = "max",
    noise: NoiseOption = None,
    solver: Solver | None = None,
    weights: Any = None,
    weights_kind: WeightsKind = None,
    missing: Missing = "drop",
    missing_outcome: MissingOutcome = "raise",
    outcome_between: Limits = None,
    covariance: CovarianceOption = "observed",
    cluster: Any = None,
    engine: EngineChoice | None = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> NumberOfAlternatives:
    """Fit several numbers of alternatives where the choice was not recorded, and recommend one.

    Shared coefficients and offsets are not supported, because the fits are compared with a single
    least-squares fit, which has neither.

    Parameters
    ----------
    formula : for all alternatives.
    data : a table.
    numbers : of alternatives to try.
    method : how one is recommended. ``"bic"``: the smallest BIC. ``"bootstrap"``: the smallest
        number for which `FitResult.overfitted_test` at 5% does not prefer one more; `numbers` must
        then be consecutive.
    replications : samples of each of these tests.
    subspace : whose eigenvalues are the scree and the spectral gaps. ``"residual"``: of
        E[e (xx' - I)] with the residuals e of least squares, which span the differences of the
        coefficients; ``"paper"``: of E[max(0, y)^2 (xx' - I)], which span the coefficients
        themselves, at about twice the error. It does not affect the recommendation.

    The other parameters are those of `selfselect.fit`.

    Examples
    --------
    >>> import selfselect as ss
    >>> sample = ss.simulators.gaussian(2_000, 2, 2, norm=2.0, seed=1)
    >>> ss.choose_alternatives("outcome ~ x1 + x2", sample.data, [1, 2, 3]).recommended
    2
    """
    given = dict(locals())
    if not isinstance(numbers, Iterable):
        raise OptionError(f"Give numbers of alternatives such as range(1, 5), not {numbers!r}.")
    listed = list(islice(numbers, MOST_NUMBERS + 1))
    if len(listed) > MOST_NUMBERS:
        raise OptionError(
            f"More than {MOST_NUMBERS} numbers of alternatives are given, and each is a fit. Give "
            "a range such as range(1, 7)."
        )
    tried = sorted(set(listed))
    if not tried or not all(isinstance(k, Integral) and k >= 1 for k in tried):
        raise OptionError(f"Give whole numbers of alternatives from 1 on, not {tried}.")
    if method not in ("bic", "bootstrap"):
        raise OptionError(f"There is no method {method!r}. Use 'bic' or 'bootstrap'.")
    if method == "bootstrap" and tried != list(range(tried[0], tried[-1] + 1)):
        raise OptionError(
            f"Likelihood ratios compare numbers that follow each other, not {tried}. Give "
            f"range({tried[0]}, {tried[-1] + 1})."
        )
    described = {
        "weights": weights,
        "weights_kind": weights_kind,
        "missing": missing,
        "missing_outcome": missing_outcome,
    }
    shape = as_noise(noise).margin
    if not shape.normal:
        raise OptionError(
            f"Numbers of alternatives are compared under normal noise only, not {shape.name}: one "
            "alternative is least squares. Leave noise out, or compare fits by bic."
        )
    if as_noise(noise).spread is not None:
        raise OptionError(
            "Numbers of alternatives are compared with scales that do not move with covariates: "
            "one alternative is least squares. Leave noise out, or compare fits by bic."
        )
    single, scree = _single(formula, data, rule, noise, subspace, described)
    rows: list[dict[str, Any]] = []
    fits: dict[int, FitResult] = {}
    for k in map(int, tried):
        if k == 1:
            rows.append({"alternatives": 1, **single})
            continue
        try:
            fits[k] = fit(**arguments_for(given, fit), alternatives=k)
        except SelfSelectError as error:
            if not rows:
                raise
            rows.append({"alternatives": k, "converged": False, "note": str(error)})
            continue
        rows.append({"alternatives": k, **_criteria(fits[k])})
    table = pd.DataFrame(rows).set_index("alternatives")
    # By the residual method k alternatives span k - 1 directions, and one none.
    spans = table.index - (subspace == "residual")
    table["spectral_gap"] = [
        scree[r - 1] - scree[r] if 1 <= r < len(scree) else np.nan for r in spans
    ]
    sound = table[table["converged"]]
    if not len(sound):
        raise DataError(
            f"No fit converged, of {', '.join(map(str, table.index))} alternatives: this data does "
            "not support that many. Try smaller numbers, from 1 on."
        )
    if method == "bootstrap":
        recommended, reason = _by_tests(table, fits, replications, solver, seed, progress)
    else:
        recommended = int(sound.index[int(np.argmin(sound["bic"]))])
        reason = _reason(table, recommended)
    return NumberOfAlternatives(table, recommended, reason, fits, scree)


def _by_tests(
    table: pd.DataFrame,
    fits: dict[int, FitResult],
    replications: int,
    solver: Any,
    seed: int | None,
    progress: bool | None,
) -> tuple[int, str]:
    """Test one alternative more, from the smallest number on, until it is not needed."""
    smallest, largest = int(table.index.min()), int(table.index.max())
    table["lr"] = table["p_value"] = np.nan
    said = []
    for k in range(smallest + 1, largest + 1):
        if k not in fits or not fits[k].converged:
            said.append(f"{k} alternatives could not be fitted")
            return k - 1, _sentence(k - 1, said)
        test = fits[k].overfitted_test(replications, solver=solver, seed=seed, progress=progress)
        table.loc[k, ["lr", "p_value"]] = test.statistic, test.p_value
        said.append(f"{k} against {k - 1}: {p_value_in_words(test.p_value)}")
        if test.p_value > TEST_LEVEL:
            return k - 1, _sentence(k - 1, said)
    said.append("it is the largest number tried, so more may be better still")
    return largest, _sentence(largest, said)


def _sentence(recommended: int, said: list[str]) -> str:
    word = "alternative is" if recommended == 1 else "alternatives are"
    sentence = f"{recommended} {word} enough by likelihood ratios ({'; '.join(said)})."
    return sentence if recommended > 1 else f"{sentence} {ONE_ALTERNATIVE}"


def _single(
    formula: str,
    data: Any,
    rule: Any,
    noise: Any,
    subspace: Literal["residual", "paper"],
    described: dict[str, Any],
) -> tuple[dict[str, Any], Array]:
    """Return the criteria of one alternative, which is least squares, and the scree."""
    design = build_design(formula, data, chosen=None, alternatives=2, **described)
    problem = Problem(
        design.equations, as_rule(rule), Independent("common"),
        measure_units(design.equations, rows_to_measure(design.rows)), "unknown", True,
    )  # fmt: skip
    engine = Memory().load(problem, design.rows)
    grams = gram_matrices(problem, engine)
    refuse_collinear(problem, grams)
    space = SearchSpace.build(problem, grams, weight=engine.weight_total, floor=0.01)
    scree = find_subspace(space, engine, subspace).eigenvalues
    fitted = replace(problem, noise=as_noise(noise)) if noise is not None else problem
    loglik, n_parameters, _ = least_squares_fit(fitted, engine)
    bic = design.facts.bic(loglik, n_parameters)
    return (
        {
            "loglik": loglik,
            "n_parameters": n_parameters,
            "aic": 2.0 * n_parameters - 2.0 * loglik,
            "bic": bic,
            "icl": bic,
            "entropy": 0.0,
            "converged": True,
        },
        scree,
    )


def _criteria(result: FitResult) -> dict[str, Any]:
    weights = result.rows.weights
    entropy = entr(result.responsibilities().to_numpy()).sum(axis=1)
    total = float(entropy.sum() if weights is None else weights @ entropy)
    return {
        "loglik": result.llf,
        "n_parameters": result.n_parameters,
        "aic": result.aic,
        "bic": result.bic,
        "icl": result.bic + 2.0 * total,
        "entropy": total / result.facts.weight_total,
        "converged": result.converged,
    }


ONE_ALTERNATIVE = (
    "If the data do not separate the alternatives, this does not show that there is no selection "
    "or that least squares is right: similar or rarely chosen alternatives look like this. If "
    "outcomes are known to be selected, fit as many alternatives as there were."
)


def _reason(table: pd.DataFrame, recommended: int) -> str:
    bic = table["bic"][table["converged"]]
    others = bic.drop(recommended)
    some = "1 alternative has" if recommended == 1 else f"{recommended} alternatives have"
    sentence = f"{some} the smallest BIC"
    if len(others):
        sentence += f", {others.min() - bic[recommended]:.1f} below the next ({others.idxmin()})"
    if recommended == table.index.max() and len(table) > 1:
        sentence += "; it is the largest number tried, so more may be better still"
    if recommended == 1:
        if len(others):
            # What the log-likelihood gains, and would have to gain for BIC to fall.
            next_best = int(others.index[int(np.argmin(others))])
            gain = float(table["loglik"][next_best] - table["loglik"][1])
            asked = gain + 0.5 * float(others.min() - bic[1])
            sentence += (
                f": they raise the log-likelihood by {gain:.1f}, and BIC requires {asked:.1f}"
            )
        return f"{sentence}. {ONE_ALTERNATIVE}"
    return sentence + "."
