"""A fit rehearsed: whether its procedure would find the truth if the model were right."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.covariance import estimate_covariance
from selfselect.inference.rehearsal import DrawnFit, Ended, check_draws, rehearse_fits
from selfselect.inference.simulation import why_no_redraw, write_out
from selfselect.inference.statistics import interval_reach
from selfselect.kernels.tails import chdtri
from selfselect.problem.problem import Problem
from selfselect.results.late import LateModule
from selfselect.results.tables import OwnScales, Tables, labelled_series
from selfselect.seeds import check_seed
from selfselect.solvers import choose_solver
from selfselect.solvers.base import Solution, Solver

if TYPE_CHECKING:
    from selfselect.report.page import Page
    from selfselect.results.fit_result import FitResult
    from selfselect.selection import two_step
else:
    two_step = LateModule("selfselect.selection.two_step")


Array = NDArray[np.float64]

PERCENTILES_FROM = 99
"""Samples from which their percentiles are read."""

SURE = 0.999
"""Confidence at which a bias is said, of every parameter."""

TOO_WIDE = 1.5
"""Ratio of the samples' spread to the standard error that is said, where chance does not make it so
large at the same confidence: from 10 samples that is 1.76, from 22 on 1.5."""

OFTEN = 0.1
"""Share of the searches from which it is said that they did not return."""


@dataclass(frozen=True, eq=False, repr=False)
class Rehearsal(Tables):
    """What samples drawn from a fit, each fitted from scratch, say of it.

    Attributes
    ----------
    table : per parameter the estimate, which is the truth of the samples; the mean estimate of
        samples less it, ``bias``, and how far chance moves that, ``bias_error``; their standard
        deviation, ``spread``, beside the fit's ``std_error``; the share of the samples' own
        95% intervals that hold the truth, ``coverage``.
    draws : the estimates of every sample that was fitted, in the columns of the parameters; nan
        where it was fitted by simpler noise, which lacks the parameter.
    ended : how many searches ended where.
    replications : samples in all.
    warnings, notes : sentences.
    """

    table: pd.DataFrame
    draws: pd.DataFrame
    ended: pd.Series[int]
    replications: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def returned(self) -> float:
        """The share of searches that returned to the simulated truth."""
        return float(self.ended[Ended.RETURNED.value]) / self.replications

    def conf_int(self, level: float = 0.95, method: str = "t") -> pd.DataFrame:
        """Return intervals from the spread of the samples.

        Parameters
        ----------
        level : of the intervals.
        method : ``"t"``, the estimate and Student's t times the spread; ``"percentile"``, the
            estimate less the quantiles of the samples' errors, from 99 samples on. Both are made
            on the log scale for scales, and on Fisher's for correlations.
        """
        counts = self.draws.notna().sum().to_numpy()
        labels = list(self.table.index)
        own = OwnScales.of(labels, self.table["estimate"].to_numpy())
        if method == "t":
            reach = _reaches(level, counts) * self.table["spread"].to_numpy()
            low, high = own.interval(reach)
        elif method == "percentile":
            if len(self.draws) < PERCENTILES_FROM:
                raise OptionError(
                    f"Percentiles of {len(self.draws)} samples are unreliable. Use method='t', or "
                    f"rehearse with replications={PERCENTILES_FROM} or more."
                )
            tails = self.draws.quantile([0.5 - 0.5 * level, 0.5 + 0.5 * level]).to_numpy()
            tails = np.where(counts < PERCENTILES_FROM, np.nan, tails)
            low, high = (
                own.back(2.0 * own.moved - OwnScales.of(labels, tail).moved) for tail in tails[::-1]
            )
        else:
            raise OptionError(f"There is no method {method!r}. Use 't' or 'percentile'.")
        return pd.DataFrame({"conf_low": low, "conf_high": high}, index=self.table.index)

    def to_page(self) -> Page:
        """Compose a page, which renders as text, HTML, LaTeX and Markdown."""
        from selfselect.report.page import Block, Page

        facts = [("Samples", str(self.replications))]
        facts += [(f"Searches that {name}", str(count)) for name, count in self.ended.items()
                  if count or name == Ended.RETURNED.value]  # fmt: skip
        shown = self.table.join(self.conf_int())
        header = ("", "estimate", "bias", "spread", "std err", "coverage", "[2.5%", "97.5%]")
        columns = ["estimate", "bias", "spread", "std_error", "coverage", "conf_low", "conf_high"]
        lines = tuple(
            (": ".join(map(str, label)), *(_written(name, row[name]) for name in columns))
            for label, row in zip(shown.index, shown.to_dict("records"), strict=True)
        )
        block = Block("Samples drawn from the fit", header, lines)
        return Page("Rehearsal", self.warnings, tuple(facts), (block,), self.notes)

    def __str__(self) -> str:
        return self.to_page().to_text()

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def _reaches(level: float, counts: NDArray[np.int64]) -> Array:
    """Return the quantiles of Student's t for spreads of so many samples; nan for fewer than 2."""
    return np.array([interval_reach(level, n - 1.0) if n > 1 else np.nan for n in counts])


def _written(name: str, value: float) -> str:
    from selfselect.report.page import format_number

    if np.isnan(value):
        return ""
    return f"{100 * value:.0f}%" if name == "coverage" else format_number(value)


def rehearse(
    fit: FitResult,
    replications: int = 39,
    *,
    solver: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> Rehearsal:
    """Simulate samples from the fit, at its own covariates, and fit each from scratch.

    This shows whether the procedure, including its search, would find the truth if the model
    were correct: the share of searches that return to it, the bias and spread of every estimate
    beside its standard error, and intervals from the spread.

    Parameters
    ----------
    replications : how many samples, 10 at least. Intervals from their percentiles need 99.
    solver : by which samples are fitted; None for the one that such fits are given.
    seed : of the samples.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.rehearse(replications=19).returned
    1.0
    """
    replications = check_draws(replications)
    held = fit.problem.noise.undetermined()
    if held is not None:
        raise UnsupportedError(
            f"{held} Samples drawn from the fit may leave others undetermined, so there is no "
            "rehearsal. Use fewer types."
        )
    used = solver_of(fit, solver)
    drawn = rehearse_fits(
        fit.problem,
        rows_to_redraw(fit),
        fit.solution,
        used,
        _errors(fit, used),
        replications=replications,
        seed=check_seed(seed, optional=True) or 0,
        progress=progress,
    )
    whole = [one for one in drawn if one.values is not None]
    if len(whole) < 0.5 * replications:
        raise UnsupportedError(
            f"Only {len(whole)} of {replications} samples drawn from the fit could be fitted. An "
            "alternative may be too rare, or a parameter at a boundary; see diagnose()."
        )
    return _described(fit, drawn, whole, replications)


def rows_to_redraw(fit: FitResult) -> Any:
    """Return the rows at whose covariates samples are drawn, or say why there are none."""
    if fit.engine is not None and not fit.has_rows:
        raise UnsupportedError(
            "Samples are drawn at the rows of the fit, which are read piece by piece and are never "
            "all in memory. Fit a sample of them as a table, or fit with engine=engines.Memory() "
            "where they fit."
        )
    rows = write_out(fit.rows, fit.facts.weights_kind)
    reason = why_no_redraw(fit.problem, rows)
    if reason is not None:
        raise UnsupportedError(f"Samples cannot be drawn from this fit: {reason}.")
    return rows


def solver_of(fit: FitResult, given: Any) -> Solver:
    """Return the solver by which samples are fitted: the one given, or the one of such fits."""
    if given is None and fit.method == "two-step":
        return two_step.TwoStep()
    return choose_solver(fit.problem, given)[0]


def _errors(fit: FitResult, solver: Solver) -> Any:
    """Return the function that gives standard errors of a sample's fit."""

    def errors(problem: Problem, sample: Any, found: Solution) -> Array:
        kind, by_person = fit.covariance.kind, fit.dependence.by_person
        # Clusters of a sample are as independent as its rows, unless they are people of the model.
        by_rows = kind == "clustered" and not by_person
        if fit.method == "two-step" or kind == "bootstrap" or by_rows:
            return np.full(len(problem.layout.report(found.free).values), np.nan)
        covariance = estimate_covariance(
            problem, sample, found, kind=fit.covariance.kind, dependence=fit.dependence,
            solver=solver, rng=np.random.default_rng(0), progress=False,
        )  # fmt: skip
        return np.asarray(np.sqrt(np.maximum(np.diag(covariance.shown), 0.0)))

    return errors


def _described(
    fit: FitResult, drawn: list[DrawnFit], whole: list[DrawnFit], replications: int
) -> Rehearsal:
    labels, truth = fit.reported.labels, fit.values
    draws = np.array([one.values for one in whole])
    errors = np.array([one.errors for one in whole])
    # What pandas makes of samples leaves out those that lack a parameter.
    table_of_draws = pd.DataFrame(draws, columns=labelled_series(truth, labels, "").index)
    counts = table_of_draws.notna().sum().to_numpy()
    bias, spread = table_of_draws.mean().to_numpy() - truth, table_of_draws.std().to_numpy()
    known = np.isfinite(errors)
    ends = [
        OwnScales.of(labels, values).interval(interval_reach(0.95) * of_values)
        for values, of_values in zip(draws, errors, strict=True)
    ]
    hit = np.array([(low <= truth) & (truth <= high) for low, high in ends])
    with np.errstate(invalid="ignore"):
        coverage = np.where(
            known.any(axis=0), (hit & known).sum(axis=0) / known.sum(axis=0), np.nan
        )
    columns = {
        "estimate": truth,
        "bias": bias,
        "bias_error": spread / np.sqrt(np.maximum(counts, 1)),
        "spread": spread,
        "std_error": np.sqrt(np.diag(fit.covariance.shown)),
        "coverage": coverage,
    }
    series = [labelled_series(values, labels, name) for name, values in columns.items()]
    table = pd.concat(series, axis=1)
    counted = Counter(one.ended for one in drawn)
    ended: pd.Series[int] = pd.Series(
        [counted[one] for one in Ended], index=[one.value for one in Ended], name="searches"
    )
    return Rehearsal(
        table,
        table_of_draws,
        ended,
        replications,
        _warnings(fit, table, ended, replications, counts),
        _notes(fit, ended, counts),
    )


def _warnings(
    fit: FitResult,
    table: pd.DataFrame,
    ended: pd.Series[int],
    replications: int,
    counts: NDArray[np.int64],
) -> tuple[str, ...]:
    found = []
    lost = int(ended[Ended.WORSE.value] + ended[Ended.FAILED.value])
    if lost > OFTEN * replications:
        found.append(
            f"NOT RECOVERED: in {lost} of {replications} samples drawn from this fit the search "
            "ended at a worse optimum or at none. It may have missed the best optimum of the "
            "data as well: use a solver with more starts."
        )
    elsewhere = int(ended[Ended.ELSEWHERE.value])
    if elsewhere > OFTEN * replications:
        found.append(
            f"ELSEWHERE: in {elsewhere} of {replications} samples the best optimum is not the one "
            "nearest to the truth. With this number of rows the maximum of the likelihood itself "
            "is elsewhere."
        )
    simpler = int(ended[Ended.SIMPLER.value])
    if simpler > OFTEN * replications:
        found.append(
            f"NOISE NOT SHOWN: in {simpler} of {replications} samples drawn from this fit the "
            "search settled on simpler noise. This number of rows often does not show the noise of "
            "the fit: rows below that are of its parameters rest on the other samples."
        )
    left = int(ended[Ended.UNDETERMINED.value])
    if left > OFTEN * replications:
        found.append(
            f"NOT DETERMINED: in {left} of {replications} samples drawn from this fit some shifts "
            "or costs of types are not determined. These samples are not in the table. Use fewer "
            "types."
        )
    names = np.array([": ".join(map(str, label)) for label in table.index])
    sure = _reaches(SURE, counts) * table["bias_error"]
    off = (np.abs(table["bias"]) > np.maximum(sure, 0.25 * table["spread"])).to_numpy()
    if off.any():
        listed = ", ".join(names[off][:5])
        found.append(f"BIAS of more than a quarter of the spread: {listed}.")
    ratio = (table["spread"] / table["std_error"]).to_numpy()
    wide = np.isfinite(ratio) & (ratio > _widest_by_chance(counts))
    by_person = fit.dependence.by_person
    if wide.any() and (by_person or not fit.dependence.clusters):
        found.append(
            "STANDARD ERRORS TOO SMALL: in the samples, estimates spread at least "
            f"{ratio[wide].min():.1f} times as widely for {', '.join(names[wide][:5])}. Read the "
            "intervals below, or profile intervals."
        )
    return tuple(found)


def _widest_by_chance(counts: NDArray[np.int64]) -> Array:
    """Return the ratio of spread to standard error beyond which an error is taken for too small.

    That of so many normal estimates with this standard error exceeds it rarely.
    """
    df = np.maximum(counts - 1.0, 1.0)
    return np.maximum(TOO_WIDE, np.sqrt(chdtri(df, 1.0 - SURE) / df))


def _notes(fit: FitResult, ended: pd.Series[int], counts: NDArray[np.int64]) -> tuple[str, ...]:
    fewer = counts.min() < counts.max()
    many = "t(samples - 1)" if fewer else f"t({counts.max() - 1})"
    notes = [
        "Each sample was fitted from scratch. Intervals are the estimate plus or minus the "
        f"{many} quantile times the spread (the standard deviation over samples).",
        "A rehearsal assumes that the model is true: it shows sampling error and errors of the "
        "search, not the effect of a wrong model.",
    ]
    if ended[Ended.SIMPLER.value]:
        notes.append(
            "A sample that settled on simpler noise counts with the parameters that this has: its "
            "coefficients and scales are compared with the truth. Others rest on the "
            f"{counts.min()} samples that have them."
        )
    if fit.problem.noise.selected:
        notes.append(
            "With a weak exclusion these intervals are unreliable: use profile intervals first, "
            "conf_int(method='profile'); the rehearsal shows how far those can be trusted."
        )
    if fit.dependence.clusters and not fit.dependence.by_person:
        notes.append(
            "Rows were drawn independently of each other, so the spread does not include what "
            "clusters add to the standard errors."
        )
    return tuple(notes)
