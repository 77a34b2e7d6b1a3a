"""The contract of effects: a small tidy table that says first what is doubtful about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.statistics import (
    check_level,
    format_p_value,
    interval_ends,
    percentile_ends,
    percentile_p_values,
    two_sided_p_values,
)
from selfselect.results.averaged_rows import asked_logarithm
from selfselect.results.rejections import rejections
from selfselect.results.tables import counted
from selfselect.visible import on_one_line

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult
    from selfselect.problem.problem import Problem
    from selfselect.report.page import Block, Page
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

MODEL_REJECTED = (
    "The data reject this model. How those in one alternative would fare in another depends "
    "strongly on its assumptions."
)

PER_CENT = "per cent"

NOTHING_LEFT = -100.0
"""Per cent: no mean of a positive outcome falls by more."""

TOO_LARGE = (
    "Estimates are missing where a level is too large for a number of the computer (above "
    "1.8e308), and for groups in which no row is expected."
)

ROUNDING = 1e-9

NUMBERS = (
    "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high", "mc_error",
)  # fmt: skip


# Averages, of which effects are made, and smooth functions of them.


COMPLEX_STEP = 1e-20
"""Of derivatives, relative to what is moved: a share may be as small as 1e-100."""

STEEPEST = 1e150
"""Slope above which a function has no error: the variances of what it divides by are no numbers."""

CANCELLED = 1e-7
"""Part of the errors of its terms below which that of a sum is rounding: a root of precision."""

ROUNDED = 1e-12
"""Part of its terms below which a sum is rounding."""


@dataclass(frozen=True, eq=False)
class Averages:
    """Averages with the covariance of their errors.

    Attributes
    ----------
    mean : (q,) averages.
    covariance : (q, q) of their errors.
    jacobian : (q, m) their derivatives in the reported parameters.
    draws : (b, q) of bootstrap samples, whose percentiles are the intervals where no covariance
        says how the averages err; none of them where they are too few for that. None elsewhere.
    """

    mean: Array
    covariance: Array
    jacobian: Array
    draws: Array | None = None


def check_covariates_word(word: str) -> None:
    """Refuse words other than the two there are."""
    if word not in ("sampled", "fixed"):
        raise OptionError(
            f"covariates={word!r} is not possible. Use 'sampled' (the rows are a sample of those "
            "you ask about) or 'fixed' (they are all you ask about)."
        )


def transform(averages: Averages, function: Callable[[Any], Any]) -> Averages:
    """Return a smooth function of averages, its covariance by the delta method.

    Derivatives are taken by complex steps, exact to rounding: `function` must take a complex
    vector (q,) and be made of sums, products and quotients.
    """
    # The mean over a group that no row is expected to be in is not a number, nor is its error.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = np.asarray(function(averages.mean), dtype=float)
        slope = slope_of(function, averages.mean)
        covariance = slope @ averages.covariance @ slope.T
        jacobian = slope @ averages.jacobian
        # What the model makes zero is a sum of terms that cancel but for rounding.
        terms = np.abs(slope) @ np.sqrt(np.maximum(np.diag(averages.covariance), 0.0))
        cancelled = (np.diag(covariance) < (CANCELLED * terms) ** 2) & (
            np.abs(value) < ROUNDED * (np.abs(slope) @ np.abs(averages.mean))
        )
    value[cancelled], covariance[cancelled], covariance[:, cancelled] = 0.0, 0.0, 0.0
    return Averages(value, covariance, jacobian)


def slope_of(function: Callable[[Any], Any], at: Array) -> Array:
    """Return the derivatives (r, q) of a function by complex steps."""
    sizes = COMPLEX_STEP * np.abs(at)
    sizes[~((sizes >= np.finfo(float).tiny) & np.isfinite(sizes))] = COMPLEX_STEP
    moved = [np.imag(function(at + 1j * step)) for step in np.diag(sizes)]
    slope: Array = np.stack(moved, axis=-1) / sizes
    slope[(np.abs(slope) > STEEPEST).any(axis=1)] = np.nan
    return slope


# Effects as tables.


@dataclass(frozen=True, eq=False, repr=False)
class EffectTable:
    """An effect with standard errors and intervals.

    Attributes
    ----------
    title : what is shown.
    table : tidy; what each row is about, then ``estimate``, ``std_error``, ``conf_low`` and
        ``conf_high``; ``statistic`` and ``p_value`` where zero is a hypothesis, ``mc_error`` where
        numbers were simulated.
    level : confidence of the intervals.
    warnings : what a reader must know first; empty where there is nothing.
    notes : what was averaged, and how errors were made.
    covariance : (r, r) of the estimates' errors, in the order of the table.
    df : degrees of freedom of the t distribution that intervals refer to; infinite for the normal.
    """

    title: str
    table: pd.DataFrame
    level: float
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    covariance: Array
    df: float = float("inf")

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        from selfselect.report.page import Page

        return Page(self.title, self.warnings, (), self.to_blocks(), self.notes)

    def to_blocks(self) -> tuple[Block, ...]:
        """Cut the table into blocks, one per combination of all keys but the last."""
        from selfselect.report.page import Block

        keys = [str(name) for name in self.table if name not in NUMBERS]
        numbers = [name for name in NUMBERS if name in self.table]
        header = ("", *(self._heading(name) for name in numbers))
        named = [f"{key}: " + self.table[key].map(_shown) for key in keys[:-1]]
        outer = pd.concat(named, axis=1).agg(", ".join, axis=1) if named else None
        if outer is None or outer.nunique() == len(self.table):
            names = self.table[keys].map(_shown).agg(", ".join, axis=1)
            return (Block(", ".join(keys), header, _lines(names, self.table[numbers])),)
        blocks = []
        for title in outer.unique():
            own = self.table[outer == title]
            lines = _lines(own[keys[-1]].map(_shown), own[numbers])
            blocks.append(Block(str(title), header, lines))
        return tuple(blocks)

    def _heading(self, name: str) -> str:
        tail = 50.0 * (1.0 - self.level)
        letter = "z" if np.isinf(self.df) else "t"
        return {
            "std_error": "std err",
            "statistic": letter,
            "p_value": f"P>|{letter}|",
            "conf_low": f"[{tail:g}%",
            "conf_high": f"{100 - tail:g}%]",
            "mc_error": "MC err",
        }.get(name, name)

    def to_latex(self) -> str:
        """Write the table in LaTeX (booktabs)."""
        return self.to_page().to_latex()

    def __str__(self) -> str:
        return self.to_page().to_text()

    def __repr__(self) -> str:
        what, held = on_one_line(self.title), counted(len(self.table))
        return f"<EffectTable: {what}; {held} in .table; print it to read>"

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def _lines(names: pd.Series[Any], numbers: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    from selfselect.report.page import format_number

    def written(name: str, value: float) -> str:
        if np.isnan(value):
            return ""
        if name == "p_value":
            return format_p_value(value)
        return f"{value:.3f}" if name == "statistic" else format_number(value)

    return tuple(
        (
            str(name),
            *(written(str(c), float(v)) for c, v in zip(numbers.columns, values, strict=True)),
        )
        for name, values in zip(names, numbers.to_numpy(dtype=float), strict=True)
    )


def effect_table(
    title: str,
    keys: Mapping[str, Sequence[Any]],
    found: Averages,
    *,
    level: float,
    df: float,
    warnings: Sequence[str],
    notes: Sequence[str],
    tested: bool = False,
    share: Sequence[bool] | bool = False,
    above: Any = -np.inf,
    mc_error: Array | None = None,
) -> EffectTable:
    """Make the table of estimates.

    Parameters
    ----------
    title, level, df, warnings, notes : as in `EffectTable`.
    keys : columns that say what each row is about.
    found : estimates, and their covariance or the draws whose percentiles are their intervals.
    tested : whether zero is a hypothesis.
    share : which estimates lie between 0 and 1; their intervals, made on the logit scale, do too.
    above : bounds that estimates exceed, minus infinity where there is none; their intervals and
        tests are made on the scale of the logarithm of the distance.
    mc_error : standard error of simulated estimates due to simulation.
    """
    check_level(level)
    estimate = found.mean
    errors = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
    # What is fixed, such as the share under a quota, errs by rounding only: that is no error.
    errors[errors < ROUNDING * np.abs(estimate)] = 0.0
    if found.draws is None:
        low, high = interval_ends(estimate, errors, level, df, share=share, above=above)
    else:
        low, high = percentile_ends(found.draws, level)
    columns: dict[str, Any] = {name: list(values) for name, values in keys.items()}
    columns |= {"estimate": estimate, "std_error": errors}
    if tested:
        statistic = _distance_from_zero(estimate, errors, above)
        p_value = two_sided_p_values(statistic, df)
        if found.draws is not None:
            p_value = percentile_p_values(found.draws)
        columns |= {"statistic": statistic, "p_value": p_value}
    columns |= {"conf_low": low, "conf_high": high}
    if mc_error is not None:
        columns["mc_error"] = mc_error
    table = pd.DataFrame(columns)
    if np.isnan(estimate).any() and TOO_LARGE not in notes:
        notes = (*notes, "Means are missing for groups in which no row is expected.")
    return EffectTable(title, table, level, tuple(warnings), tuple(notes), found.covariance, df)


def _distance_from_zero(estimate: Array, errors: Array, above: Any) -> Array:
    """Return estimates in standard errors, on the scale on which their intervals are made."""
    bound = np.broadcast_to(above, estimate.shape)
    bounded = np.isfinite(bound) & (estimate > bound)
    distance = estimate.copy()
    scaled = estimate[bounded] - bound[bounded]
    distance[bounded] = scaled * np.log(scaled / -bound[bounded])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors > 0, distance / errors, np.nan)


def doubts(fit: FitResult, *, levels: bool = False) -> tuple[str, ...]:
    """Say what puts every effect of a fit in doubt.

    Parameters
    ----------
    fit : whose effects are meant.
    levels : whether a logarithm is undone, for which scales count.
    """
    found = []
    if not fit.converged:
        found.append(f"NOT CONVERGED. {fit.status} Do not use these numbers.")
    rejected = rejections(fit)
    found += rejected
    if rejected:
        found.append(MODEL_REJECTED)
    if fit.covariance.missing and (levels or len(fit.solution.held)):
        named = ", ".join(fit.names[place] for place in fit.covariance.missing)
        found.append(
            f"STANDARD ERRORS TOO SMALL: the fit has none for {named}, and the errors here treat "
            "it as known."
        )
    if not np.isfinite(fit.covariance.matrix).all():
        found.append(
            "NO STANDARD ERRORS: the fit has no covariance of its estimates. Fit with "
            "covariance='bootstrap'."
        )
    return tuple(found)


def how_averaged(
    fit: FitResult | MultinomialResult,
    n_rows: int,
    covariates: str,
    *,
    own: bool,
    left_out: tuple[int, str] | None = None,
) -> str:
    """Say over which rows an effect is averaged and what its errors account for.

    `left_out` says how many of them do not count, and which alternatives they lack a row for.
    """
    weights, rows = fit.facts.weights, "rows" if fit.facts.case is None else "cases"
    which = f"the {n_rows} {rows} of the fit" if own else f"{n_rows} given {rows}"
    if left_out is not None:
        n_left_out, labels = left_out
        which = f"{n_rows - n_left_out} of {which}, as the others have no row for {labels}"
    if weights and own:
        which += f", weighted by {weights}"
    elif weights:
        which += f", with equal weight (the weights {weights} of the fit are not used)"
    independent = "" if own or fit.facts.cluster is None else f" of {rows} that are independent"
    errors = {
        "sampled": f"errors account for estimation and for the {rows} being a sample{independent}",
        "fixed": f"errors account for estimation; they are conditional on the {rows}",
    }[covariates]
    said = f"Averages over {which}; {errors} ({fit.covariance.description})."
    carried = own and getattr(fit, "carried", None) is not None
    if covariates == "sampled" and getattr(fit.coding, "first_stages", None) and not carried:
        said += " The residuals of first stages are taken as given."
    return said


def outcome_name(fit: FitResult, scale: str) -> str:
    """Return what outcomes are called on a scale."""
    logarithm = asked_logarithm(fit, scale)
    return fit.problem.equations.outcome if logarithm is None else logarithm.level


def key_name(name: str, taken: Collection[str]) -> str:
    """Return the name, or one like it where that is taken by other columns or labels."""
    while name in taken:
        name += "_"
    return name


def only_estimation(fit: FitResult) -> str:
    """Say what the errors of made-up rows account for."""
    return f"Errors account for estimation ({fit.covariance.description})."


class HasProblem(Protocol):
    """A fit, or a problem before its fit."""

    @property
    def problem(self) -> Problem:
        """What is estimated."""


def alternative_index(fit: HasProblem, label: Any) -> int:
    """Return the position of an alternative, or say which there are."""
    alternatives = fit.problem.equations.alternatives
    texts = [str(one) for one in alternatives]
    for place, one in enumerate(alternatives):
        if type(one) is type(label) and one == label:
            return place
    # A shell can only write text, and the label may be the number 1.
    if isinstance(label, str | int | float | np.generic) and str(label) in texts:
        return texts.index(str(label))
    near = get_close_matches(str(label), texts, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise OptionError(f"There is no alternative {label!r}; there are {', '.join(texts)}.{hint}")


def refuse_undetermined(fit: FitResult, what: str, *, choices: bool = False) -> None:
    """Refuse what needs outcomes of types in alternatives that they hardly ever choose.

    `choices` says whether it also needs what they would choose if things were different.
    """
    noise: Any = fit.problem.noise
    held = noise.undetermined()
    if held is not None and (noise.held_shifts or choices):
        raise UnsupportedError(
            f"{what} needs the outcomes and choices of everybody in every alternative. {held} Use "
            "treatment_effects or potential_outcomes, which average over types that choose both."
        )
