"""How many alternatives or types? Fits for several numbers of them, and a test of one fewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from numbers import Integral
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect._fit import fit
from selfselect.data.rows import Rows
from selfselect.engines.base import EngineChoice
from selfselect.engines.memory import Memory
from selfselect.errors import DataError, OptionError, RuleError, UnsupportedError
from selfselect.inference.simulation import redraw, write_out
from selfselect.inference.statistics import TestResult, p_value_in_words, samples_to_reject
from selfselect.kernels.tails import entr
from selfselect.noises import as_noise
from selfselect.options import (
    CovarianceOption,
    Limits,
    Missing,
    MissingOutcome,
    NoiseOption,
    RuleOption,
    WeightsKind,
)
from selfselect.posing import pose
from selfselect.report.page import Block, Page
from selfselect.results.fit_result import FitResult
from selfselect.results.overfitting import LEVEL, least_squares, one_fewer
from selfselect.results.refit import Solved, arguments_for, solve_again
from selfselect.results.tables import counted
from selfselect.seeds import check_seed
from selfselect.solvers import as_solved
from selfselect.solvers._search import SearchSpace, find_subspace
from selfselect.solvers._start import gram_matrices, refuse_collinear
from selfselect.solvers.base import Solver
from selfselect.trust.beside import Answer, beside, fitted, tabulate
from selfselect.trust.rehearse import check_draws, map_draws

Array = NDArray[np.float64]

FEWEST = samples_to_reject(LEVEL)
"""Samples from which a p-value can be as small as 0.05."""

ENOUGH = 0.9
"""Share of the samples that must be fitted for their likelihood ratios to be believed."""

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
    options = arguments_for(given, fit) | {"progress": False}
    makers: dict[int, Callable[[], FitResult | Solved]] = {
        int(k): partial(fit, **options, alternatives=int(k)) if k > 1 else lambda: single
        for k in tried
    }
    compared = beside(
        makers, _entropies, what="Numbers of alternatives", needed=tried[:1], apart=True,
        progress=progress,
    )  # fmt: skip
    fits = {k: one for k, one in fitted(compared).items() if isinstance(one, FitResult)}
    table = tabulate(compared, "alternatives")
    table = table[[*table.columns.drop("converged"), "converged"]]
    if any(one.why_not for one in compared):
        table["note"] = [one.why_not for one in compared]
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
    solver: Solver | None,
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
) -> tuple[Solved, Array]:
    """Return the model of one alternative, which is least squares, and the scree."""
    posed = pose(formula, data, alternatives=2, rule=rule, **described)
    problem, engine = posed.problem, posed.engine
    grams = gram_matrices(problem, engine)
    refuse_collinear(problem, grams)
    space = SearchSpace.build(problem, grams, weight=engine.weight_total, floor=0.01)
    scree = find_subspace(space, engine, subspace).eigenvalues
    fitted = replace(problem, noise=as_noise(noise)) if noise is not None else problem
    return least_squares(fitted, engine.rows, posed.facts), scree


def _entropies(model: FitResult | Solved) -> dict[str, Answer]:
    """Return how sure the model is of who chose what, and what that adds to its BIC."""
    if isinstance(model, Solved):
        # One alternative leaves no doubt.
        return {"icl": Answer(model.bic), "entropy": Answer(0.0)}
    weights = model.rows.weights
    entropy = entr(model.responsibilities().to_numpy()).sum(axis=1)
    total = float(entropy.sum() if weights is None else weights @ entropy)
    return {
        "icl": Answer(model.bic + 2.0 * total),
        "entropy": Answer(total / model.facts.weight_total),
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


# One alternative or type fewer: tested by samples of the smaller model.


def overfitted_test(
    fit: FitResult,
    replications: int = 99,
    *,
    solver: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> TestResult:
    """Test one type fewer, or one alternative fewer if choices were not recorded.

    The likelihood ratio does not have a chi-square distribution here. Samples are drawn from
    the fit with one fewer (in a panel, by person), and both models are fitted to each from
    scratch; the p-value is the rank of the data's ratio among theirs. Later summaries show it,
    unless an earlier call had more samples.
    A fit with one alternative is least squares, and one with one type has independent noise.

    Parameters
    ----------
    replications : how many samples, 19 at least; each is searched twice.
    solver : by which both numbers are fitted; None for the one that such fits are given.
    seed : of the samples.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.
    """
    replications = check_draws(replications, FEWEST)
    fewer = one_fewer(fit)
    reason = fewer.why_not_tested()
    if reason is not None:
        raise UnsupportedError(f"There is no {fewer.test.lower()}: {reason}.")
    rows = write_out(fit.rows, fit.facts.weights_kind)
    rng = np.random.default_rng(check_seed(seed, optional=True) or 0)
    smaller = fewer.solve(rows, solver=solver, rng=rng)
    ratio = max(0.0, 2.0 * (fit.llf - smaller.llf))
    law = as_solved(smaller.problem, smaller.solution)
    truth = law.layout.report(smaller.solution.free).values
    problem = fewer.larger

    def larger(drawn: Rows, stream: Generator) -> Solved:
        engine = Memory().load(problem, drawn).single_threaded()
        return solve_again(problem, engine, fit.facts, solver=solver, rng=stream)

    def draw(stream: Generator) -> float | None:
        try:
            drawn = redraw(law, truth, rows, stream)
        except (DataError, RuleError):
            return None
        # One more than there are is often not determined; how far it climbed still counts.
        makers = {
            "larger": partial(larger, drawn, stream),
            "smaller": partial(fewer.solve, drawn, solver=solver, rng=stream),
        }
        solved = fitted(beside(makers, apart=True))
        if len(solved) < len(makers):
            return None
        ratio = 2.0 * (solved["larger"].llf - solved["smaller"].llf)
        return max(0.0, float(ratio)) if np.isfinite(ratio) else None

    found = map_draws(draw, replications, int(rng.integers(2**31)), progress)
    ratios = np.array([one for one in found if one is not None])
    if len(ratios) < ENOUGH * replications:
        raise DataError(
            f"Only {len(ratios)} of {replications} samples could be fitted by as many "
            f"{fewer.what} as the data. Give the solver more starts, "
            "or fit fewer."
        )
    p_value = float((1.0 + (ratios >= ratio).sum()) / (1.0 + len(ratios)))
    test = TestResult(
        fewer.test, fewer.null, ratio, problem.layout.n_free - smaller.n_parameters,
        p_value, replications=len(ratios), law="likelihood ratio",
    )  # fmt: skip
    if test.replaces(fit.answers.one_fewer, LEVEL):
        fit.answers.one_fewer = test
    return test
