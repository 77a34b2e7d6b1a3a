"""A page with sliders: of which fits there is one, their estimates as plain data, and the page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.long import LongCoding
from selfselect.errors import OptionError, ReportError, UnsupportedError
from selfselect.explore.controls import coded_numbers, make_controls, sample_rows
from selfselect.inference.statistics import check_level, interval_reach
from selfselect.kernels.largest import nodes_wanted
from selfselect.kernels.tails import CENTRE, GAP
from selfselect.problem.problem import Problem
from selfselect.report.document import headline, listed, nothing_to_warn_of, notices, render_page
from selfselect.results.averaged_rows import raw_table
from selfselect.results.refit import covariance_of_refit
from selfselect.results.sensitivity import fits_along
from selfselect.results.streaming import as_path, refuse_target, write_whole
from selfselect.rules import direction_of
from selfselect.solvers.continuation import Continuation
from selfselect.visible import left_to_right

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# Which fits a page can compute in the browser.


MOST_ALTERNATIVES = 12
MOST_NODES = 1_500
"""Nodes of an integral over one outcome; a browser takes a second for some hundred rows."""

MOST_PARAMETERS = 620
"""Their covariance takes 2 MB of the page."""


def refuse_unsupported(fit: FitResult) -> None:
    """Refuse a fit whose chances and means the page cannot compute, with the reason."""
    reason = _reason(fit)
    if reason is not None:
        raise UnsupportedError(
            f"This fit cannot be explored in a page: {reason} Use "
            "result.choice_probabilities(at=...), result.treatment_effects(...) and "
            "result.counterfactual(...) instead, where they are possible."
        )


def _reason(fit: FitResult) -> str | None:
    problem = fit.problem
    noise, k = problem.noise, problem.equations.n_alternatives
    if noise.selected:
        return "the page does not support models with a selection equation."
    if direction_of(problem.ordered_rule) is None:
        return (
            "the page supports only rules under which the largest or the smallest outcome is "
            f"observed, and here {problem.ordered_rule.name}."
        )
    if problem.equations.costs:
        return "its costs are estimated, and the page supports known costs only."
    if isinstance(fit.coding, LongCoding):
        return "a case of long data is several rows, for which there are no sliders."
    known = noise.known_correlation(problem.equations.alternatives) is not None
    if (noise.joint and not (noise.correlated and k == 2)) or noise.mixed or known:
        return (
            "the page supports only normal noise that is independent, or correlated between two "
            f"alternatives, and here it is {noise.name}."
        )
    if not noise.joint and (noise.each or not noise.margin.normal or problem.layout.shown):
        return f"the page supports only normal noise, and here it is {noise.name}."
    if k > MOST_ALTERNATIVES:
        return f"the page supports at most {MOST_ALTERNATIVES} alternatives, and the fit has {k}."
    if len(fit.values) > MOST_PARAMETERS:
        return (
            f"the page supports at most {MOST_PARAMETERS} estimates, and the fit has "
            f"{len(fit.values)}."
        )
    if not np.isfinite(fit.values).all():
        return "some of its estimates are not numbers."
    scales = problem.layout.central_scales(fit.values)
    if k > 2 and nodes_wanted(scales) > MOST_NODES:
        return (
            f"its scales run from {scales.min():.3g} to {scales.max():.3g}, which needs too many "
            "integration points for a browser."
        )
    return None


# A fitted model as plain data, for the page: where in the estimates everything stands.


Array = NDArray[np.float64]


def model_of(problem: Problem, reported: Array, covariance: Array) -> dict[str, Any]:
    """Return estimates, their covariance, and how means, scales and correlation follow from them.

    Parameters
    ----------
    problem : equations and noise.
    reported : (m,) estimates.
    covariance : (m, m) of them; not finite where there is none.
    """
    layout = problem.layout
    known = bool(np.isfinite(covariance).all())
    lower = covariance[np.tril_indices(len(reported))]
    return {
        "estimates": reported.tolist(),
        "covariance": packed(lower) if known else None,
        "equations": [
            {"columns": list(map(int, equation.columns)), "places": places.tolist()}
            for equation, places in zip(problem.equations.each, layout.reported_places, strict=True)
        ],
        "scales": [_scale(problem, j) for j in range(problem.equations.n_alternatives)],
        "correlation": _correlation(problem, reported),
    }


def _scale(problem: Problem, j: int) -> dict[str, Any]:
    """Say whether a scale is known, an estimate, or the exponential of a line."""
    layout = problem.layout
    if layout.scales is not None:
        return {"value": float(layout.scales[j])}
    place, spread = int(layout.reported_scales[j]), layout.spread_of[j]
    if spread is None:
        return {"place": place}
    at = layout.reported_extras[spread.places - int(layout.starts[-1])]
    return {"log": place, "columns": list(map(int, spread.columns)), "places": at.tolist()}


def _correlation(problem: Problem, reported: Array) -> dict[str, Any]:
    if not problem.noise.correlated:
        return {"value": 0.0, "place": -1}
    layout = problem.layout
    return {
        "value": float(layout.extras_of(reported)[0]),
        "place": int(layout.reported_extras[0]),
    }


def packed(values: Array) -> str:
    """Write numbers as text, exactly: doubles, the lowest byte first, in base 64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode("ascii")


# The page to explore a fit, written to one file.


CORRELATIONS = (-0.8, -0.4, 0.0, 0.4, 0.8)
MOST_REFITTED = 20_000
"""Rows up to which the model is fitted again at assumed correlations without being asked."""

SUBSIDY_STEPS = 40


def explore(
    fit: FitResult,
    path: str | Path,
    data: Any = None,
    *,
    level: float = 0.95,
    rows: int | None = None,
    correlations: Sequence[float] | None = None,
) -> None:
    """Write an interactive page of predictions and effects, with sliders.

    Sliders and menus set covariates; the page shows chances, mean outcomes and their
    differences with intervals, what a subsidy, a tax or closing an alternative does to shares,
    means and who moves, the doubts about the fit, and the calls that give the same numbers.
    It is one file that needs no network.

    The page supports normal noise, independent or correlated between two alternatives, and
    rules by which the largest or the smallest outcome is observed; other fits raise an error
    with the reason.

    Parameters
    ----------
    path : of the file; one that is there is replaced.
    data : rows that the page averages over and takes means of; None for those of the fit.
    level : of all intervals.
    rows : how many rows the page may hold; None for as many as a browser averages quickly.
    correlations : where the noises of two alternatives are correlated, assumed correlations at
        which the model is fitted again; None for a few, where there are not too many rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> with TemporaryDirectory() as folder:
    ...     page = Path(folder) / "village.html"
    ...     result.explore(page)
    ...     page.stat().st_size < 1_000_000
    True
    """
    target = as_path(path)
    try:
        refuse_target(target)
        page = compose(fit, data, level=level, rows=rows, correlations=correlations)
        text = render_page(
            "explore/page.html",
            style=("report/full_page.css", "explore/page.css"),
            script=("explore/numbers.js", "explore/quantities.js", "explore/page.js"),
            page=page,
        )
        write_whole(target, text)
    except OSError as error:
        raise ReportError(
            f"The page could not be written to {str(target)!r}: {error.strerror}. The fit is "
            "unharmed; write the page elsewhere."
        ) from error


def compose(
    fit: FitResult,
    data: Any = None,
    *,
    level: float = 0.95,
    rows: int | None = None,
    correlations: Sequence[float] | None = None,
) -> dict[str, Any]:
    """Return what a page shows and computes with, as plain data; see `FitResult.explore`."""
    refuse_unsupported(fit)
    check_level(level)
    if data is None and not fit.has_rows:
        raise UnsupportedError(
            "This fit does not hold its rows, and the page averages over rows. Give them: "
            "result.explore(path, data)."
        )
    equations = fit.problem.equations
    labels = [left_to_right(str(label)) for label in equations.alternatives]
    k = equations.n_alternatives
    # Complete rows once and for all: what is left out is said once.
    complete = None if data is None else raw_table(fit, data)
    controls = make_controls(fit, complete)
    sample = sample_rows(fit, complete, rows, data)
    fits, about = _fits(fit, correlations)
    weights = sample.rows.weights
    return {
        "title": headline(fit),
        "notices": notices(fit, level),
        "nothing": nothing_to_warn_of(fit),
        "model": f"{fit.problem.rule.name}; noise is {fit.problem.noise.name}",
        "left_out": listed(controls.left_out),
        "sentence": sample.sentence,
        "about_correlation": about,
        "outcome": left_to_right(str(equations.outcome)),
        "level": level,
        "labels": labels,
        "computes": {
            "labels": labels,
            "codes": [repr(_plain(label)) for label in equations.alternatives],
            "outcome": left_to_right(str(equations.outcome)),
            "way": direction_of(fit.problem.ordered_rule),
            "level": level,
            "reach": interval_reach(level, fit.covariance.df),
            "fits": fits,
            "controls": controls.controls,
            "numbers": controls.numbers,
            "covariates": len(equations.covariates),
            "rows": packed(coded_numbers(sample.rows, k)),
            "weights": None if weights is None else weights.tolist(),
            "base": sample.code,
            "given": data is not None,
            "amounts": _amounts(fit),
            "tail": {"centre": CENTRE, "gap": GAP},
        },
    }


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _amounts(fit: FitResult) -> list[float]:
    """Return subsidies and taxes to choose from: round, and up to half the range of outcomes."""
    low, high = fit.facts.outcome_range
    most = 0.5 * (high - low) or 1.0
    power = int(np.floor(np.log10(most / SUBSIDY_STEPS)))
    factor = next(one for one in (1, 2, 5, 10) if one * 10.0**power * SUBSIDY_STEPS >= most)
    digits = max(0, -power)
    step = factor * 10.0**power
    return [round(i * step, digits) for i in range(-SUBSIDY_STEPS, SUBSIDY_STEPS + 1)]


def _fits(fit: FitResult, asked: Sequence[float] | None) -> tuple[list[dict[str, Any]], str]:
    """Return the fit, and the model fitted again at assumed correlations; say what is missing."""
    own = model_of(fit.problem, fit.values, fit.covariance.matrix)
    made = [own | {"assumed": None, "code": ""}]
    if not fit.problem.noise.correlated:
        if asked is not None:
            raise OptionError(
                "correlations=... are for a fit with correlated noise. Fit with "
                "noise='correlated', or ask result.sensitivity()."
            )
        return made, ""
    if not fit.has_rows:
        return made, (
            "The correlation cannot be varied: the model would have to be fitted again, and this "
            "fit does not hold its rows."
        )
    if asked is None and fit.nobs > MOST_REFITTED:
        return made, (
            "The correlation cannot be varied here: fitting the model again takes long with this "
            "many rows. Give correlations=[...] to do it anyway."
        )
    grid = np.unique(np.asarray(CORRELATIONS if asked is None else asked, dtype=float))
    if not grid.size or not (np.abs(grid) < 1).all():
        raise OptionError("Give correlations between -1 and 1 in `correlations`.")
    left_out = []
    for value, problem, solution in sorted(fits_along(fit, grid), key=itemgetter(0)):
        if problem is None or solution is None:
            left_out.append(value)
            continue
        spread = covariance_of_refit(fit, problem, solution, Continuation()).matrix
        reported = problem.layout.report(solution.free).values
        made.append(
            model_of(problem, reported, spread)
            | {"assumed": value, "code": f"ss.noises.{problem.noise!r}"}
        )
    about = "At an assumed correlation the model was fitted again; all else is as in the fit."
    if left_out:
        values = ", ".join(f"{value:g}" for value in left_out)
        about += f" No optimum was found at {values}."
    return made, about
