"""Policy: which alternative to assign to each row, and what that would be worth."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.effects._averages import average, row_cells
from selfselect.effects._moments import Setting, cells, n_cells, refuse_selection
from selfselect.effects.base import (
    EffectTable,
    doubts,
    effect_table,
    how_averaged,
    refuse_undetermined,
    transform,
)
from selfselect.errors import DataError, OptionError
from selfselect.inference.statistics import interval_reach
from selfselect.moments.base import latent_means
from selfselect.moments.choose import moments_of
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.options import Covariates
from selfselect.problem.parameters import is_of_scale
from selfselect.results.averaged_rows import sample_of
from selfselect.results.predictions import errors_of_rows
from selfselect.results.tables import Tables
from selfselect.rules import Maximum, RowData, direction_of

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

GOALS = ("largest", "smallest")


@dataclass(frozen=True, eq=False, repr=False)
class Policy(Tables):
    """A recommendation for every row, and its value.

    Attributes
    ----------
    rows : per row ``recommended`` (a label), its ``expected`` outcome, the ``runner_up``, the
        ``margin`` by which it is better, the ``std_error`` of that margin, and the ``expert``'s
        expected outcome.
    value : the mean outcome under the policy, under the expert who chooses by the rule, and with
        everyone in one alternative.
    goal : whether the largest or the smallest outcome is best.
    """

    rows: pd.DataFrame
    value: EffectTable
    goal: str
    _fit: FitResult = field(repr=False)
    _coded: Rows = field(repr=False)

    @property
    def recommended(self) -> pd.Series[Any]:
        """The recommended alternative of every row."""
        return self.rows["recommended"]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know first."""
        return self.value.warnings

    def regret(self, *, params: Any = None, latent: Any = None) -> pd.DataFrame:
        """Compare with an oracle, where the truth is known as in a simulation.

        Parameters
        ----------
        params : true coefficients, labelled like those of the fit. The oracle knows them and
            sends every row to the alternative with the best true mean.
        latent : (n, k) all outcomes of these rows, in the order of the alternatives or as a frame
            with their labels. The oracle knows them and picks the best in every row.

        Returns
        -------
        One row per question: the oracle's value, the policy's, and the regret, how much worse the
        policy is.
        """
        if params is None and latent is None:
            raise OptionError("Give the truth: params=... (true coefficients) or latent=....")
        labels = self._fit.problem.equations.alternatives
        sign = 1.0 if self.goal == "largest" else -1.0
        chosen = np.array([labels.index(one) for one in self.recommended])
        found = []
        if params is not None:
            truth = latent_means(self._fit.problem, _true_values(self._fit, params), self._coded)
            found.append(("knows the coefficients", truth))
        if latent is not None:
            found.append(("knows every outcome", _true_latent(latent, labels, len(chosen))))
        rows = []
        for oracle, outcomes in found:
            open_to = self._coded.known.available
            possible = outcomes if open_to is None else np.where(open_to, outcomes, -sign * np.inf)
            best = float((sign * possible).max(axis=1).mean() * sign)
            reached = float(outcomes[np.arange(len(chosen)), chosen].mean())
            rows.append((oracle, best, reached, sign * (best - reached)))
        return pd.DataFrame(rows, columns=["oracle", "oracle_value", "policy_value", "regret"])

    def __str__(self) -> str:
        return str(self.value)

    def _repr_html_(self) -> str:
        return self.value._repr_html_()


def policy(
    fit: FitResult,
    data: Any = None,
    *,
    goal: str | None = None,
    level: float = 0.95,
    covariates: Covariates = "sampled",
) -> Policy:
    """Recommend to every row the alternative with the best expected outcome.

    The policy knows covariates only. The expert, who chose in the data, knew every outcome. So
    under the model no policy beats the expert at the expert's own goal, and the difference is the
    value of the expert's private knowledge.

    Parameters
    ----------
    fit : a fitted model.
    data : rows to decide for; None for those of the fit.
    goal : ``"largest"`` or ``"smallest"`` outcome; None for the smallest where the rule picks the
        smallest (the expert minimises), else the largest. Known costs of those two rules count:
        what is best is best net of them. Transforms of a monotone rule do not: they are how the
        expert ranks, not what the outcome is worth.
    level, covariates : see `selfselect.effects`.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.policy({"height": [190, 160], "weight": [60, 80]}).recommended.tolist()
    ['hunting', 'fishing']
    """
    refuse_undetermined(fit, "A policy", choices=True)
    problem = fit.problem
    refuse_selection(problem, "What a policy gains over those who choose depends")
    goal = _goal(problem.rule, goal)
    sample = sample_of(fit, data)
    rows, labels = sample.rows, problem.equations.alternatives
    means = moments_of(problem).latent(fit.values, rows)
    sign = 1.0 if goal == "largest" else -1.0
    worth = sign * means
    if rows.known.costs is not None and direction_of(problem.rule) is not None:
        worth = worth - rows.known.costs
    if rows.known.available is not None:
        worth = np.where(rows.known.available, worth, -np.inf)
    order = np.argsort(-worth, axis=1, kind="stable")
    best, second = order[:, 0], order[:, 1]

    value = _value(fit, rows, best, goal, sample.own, level, covariates, sample.warnings)
    each = np.arange(len(rows))
    margin = worth[each, best] - worth[each, second]
    expert = cells(row_cells(fit, Setting(rows, problem.ordered_rule)), len(labels)).observed
    names = np.array(labels, dtype=object)
    alone = np.isinf(margin)
    shown = pd.DataFrame(
        {
            "recommended": names[best],
            "expected": means[each, best],
            "runner_up": pd.Series(names[second], sample.index, dtype=object).mask(alone, None),
            "margin": np.where(alone, np.nan, margin),
            "std_error": np.where(alone, np.nan, _margin_errors(fit, rows, best, second)),
            "expert": expert,
        },
        index=sample.index,
    )
    unsure = shown["margin"] < interval_reach(level, fit.covariance.df) * shown["std_error"]
    share = np.average(unsure, weights=rows.weights)
    note = (
        f"In {100 * share:.1f}% of the rows the recommended alternative is not better than "
        f"the next by more than its {100 * level:g}% margin of error."
    )
    flattery = _optimism(shown["margin"].to_numpy(), shown["std_error"].to_numpy(), rows.weights)
    notes = [*value.notes, note]
    if flattery > 0:
        notes.append(
            f"The value of the policy is biased upwards by about {flattery:.2g}: overestimated "
            "alternatives are recommended more often than underestimated ones."
        )
    return Policy(shown, replace(value, notes=tuple(notes)), goal, fit, rows)


def _goal(rule: Any, goal: str | None) -> str:
    if goal is None:
        return "smallest" if getattr(rule, "direction", None) == -1.0 else "largest"
    if goal not in GOALS:
        raise OptionError(f"There is no goal {goal!r}. Use {' or '.join(map(repr, GOALS))}.")
    return goal


def _value(
    fit: FitResult,
    rows: Rows,
    best: NDArray[np.intp],
    goal: str,
    own: bool,
    level: float,
    covariates: str,
    warnings: tuple[str, ...],
) -> EffectTable:
    """Value the policy: it leaves each row one alternative, whose outcome is then observed."""
    problem = fit.problem
    labels, k = problem.equations.alternatives, problem.equations.n_alternatives
    described = rows.known.described
    everybody = np.ones(k, dtype=bool) if described is None else described.all(axis=0)
    sent = replace(rows, known=RowData(available=np.eye(k, dtype=bool)[best]))
    settings = [Setting(rows, problem.ordered_rule), Setting(sent, Maximum())]
    found = average(fit, settings, own=own, covariates=covariates)

    def values(vector: Any) -> Any:
        now, under = cells(vector[: n_cells(k)], k), cells(vector[n_cells(k) :], k)
        return np.array(
            [
                under.observed,
                now.observed,
                *now.mean[everybody],
                under.observed - now.observed,
                *(under.observed - now.mean[everybody]),
            ]
        )

    alone = [f"everyone in {labels[j]}" for j in np.flatnonzero(everybody)]
    notes = [
        how_averaged(fit, len(rows), covariates, own=own),
        "expert: every row in the alternative that it chooses itself.",
    ]
    if not everybody.all():
        left_out = " and ".join(str(labels[j]) for j in np.flatnonzero(~everybody))
        notes.append(
            f"Everyone in {left_out} is not listed: some cases have no row for it, so what they "
            "would have there is not known."
        )
    return effect_table(
        f"Value of sending every row where its expected {problem.equations.outcome} is {goal}",
        {
            "quantity": [
                "policy", "expert", *alone,
                "policy - expert", *(f"policy - {one}" for one in alone),
            ],
        },
        transform(found, values),
        level=level,
        df=fit.covariance.df,
        warnings=(*doubts(fit), *warnings),
        notes=notes,
    )  # fmt: skip


def _margin_errors(
    fit: FitResult, rows: Rows, best: NDArray[np.intp], second: NDArray[np.intp]
) -> Array:
    """Return the standard error (n,) of the difference of two alternatives' means, row by row."""
    if not np.isfinite(fit.covariance.matrix).all():
        return np.full(len(rows), np.nan)
    moments, each = moments_of(fit.problem), np.arange(len(rows))

    def margin(reported: Array) -> Array:
        means = moments.latent(reported, rows)
        return np.asarray(means[each, best] - means[each, second])

    return errors_of_rows(fit, margin, margin(fit.values), progress=False)


def _optimism(margin: Array, errors: Array, weights: Array | None) -> float:
    """Return by how much the mean of the larger of two estimates exceeds the larger mean.

    The value of the policy is the mean of the largest of estimated outcomes.
    """
    sure = ~(errors > 0)
    z = np.where(sure, 0.0, margin / np.where(sure, 1.0, errors))
    # E max(d, 0) - max(d, 0) of a normal d with that mean and spread.
    excess = errors * (NORMAL.pdf(z) - z * NORMAL.cdf(-z))
    return float(np.average(np.where(sure, 0.0, excess), weights=weights))


def _true_values(fit: FitResult, params: Any) -> Array:
    """Return true parameters in the order of the reported ones; scales do not matter here."""
    truth = dict(params.items())
    scales = {label for label in fit.reported.labels if is_of_scale(label[1])}
    missing = [label for label in fit.reported.labels if label not in scales | set(truth)]
    if missing:
        alternative, term = missing[0]
        raise DataError(
            f"The true coefficient of {term!r} in {alternative!r} is not given. Label them by "
            "(alternative, term), as result.params does."
        )
    return np.array([1.0 if one in scales else float(truth[one]) for one in fit.reported.labels])


def _true_latent(latent: Any, labels: tuple[Any, ...], n_rows: int) -> Array:
    if isinstance(latent, pd.DataFrame):
        left_out = [label for label in labels if label not in latent]
        if left_out:
            raise DataError(f"The true outcomes lack the alternative {left_out[0]!r}.")
        latent = latent[list(labels)]
    values = np.asarray(latent, dtype=float)
    if values.shape != (n_rows, len(labels)):
        raise DataError(
            f"The true outcomes have shape {values.shape}; ({n_rows}, {len(labels)}) is expected: "
            "one row per row of the policy, one column per alternative."
        )
    return values
