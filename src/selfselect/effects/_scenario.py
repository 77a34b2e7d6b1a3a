"""Scenarios of counterfactuals, and rows simulated under them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coding import KnownColumns
from selfselect.data.columns import first_rows
from selfselect.data.equations import SCALE
from selfselect.data.formulas import refuse_decided_costs
from selfselect.data.rows import Rows
from selfselect.data.tables import to_frame
from selfselect.effects._moments import (
    Setting,
    errors_of_units,
    refuse_joint,
    rows_are_repeated,
    without_negative,
)
from selfselect.effects.base import Averages, alternative_index
from selfselect.errors import DataError, OptionError, RuleError, UnsupportedError
from selfselect.moments.base import latent_means
from selfselect.progress import progress_bar
from selfselect.results.averaged_rows import code_rows, extrapolations, raw_table
from selfselect.rules import as_rule, compares_scores, takes_costs
from selfselect.rules.base import RowData
from selfselect.seeds import check_seed
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

Array = NDArray[np.float64]


# Scenarios: the fitted rows in another state of the world, put together from what is changed.


@dataclass(frozen=True, eq=False)
class Scenario:
    """Another state of the world.

    Attributes
    ----------
    setting : its rows and rule.
    words : what was changed.
    moved : the one alternative that became better (+1) or worse (-1) for everyone, as
        (alternative, direction); None where more than that was changed.
    same_rows : whether row i is the same unit as before.
    warnings : about extrapolation.
    """

    setting: Setting
    words: tuple[str, ...]
    moved: tuple[int, int] | None
    same_rows: bool
    warnings: tuple[str, ...] = ()


def build_scenario(
    fit: FitResult,
    before: Rows,
    *,
    data: Any,
    rule: Any,
    close: Any,
    open_to_all: Any,
    subsidy: Mapping[Any, float] | None,
) -> Scenario:
    """Change what is to be changed, in this order: rows, rule, menu, subsidies."""
    problem = fit.problem
    words: list[str] = []
    warnings: tuple[str, ...] = ()
    rows, same_rows = before, True
    changes: list[tuple[int, int]] = []
    several = False
    if data is not None:
        table = raw_table(fit, data)
        rows, warnings = code_rows(fit, table), extrapolations(fit, table)
        same_rows = len(rows) == len(before)
        if same_rows:
            rows = replace(rows, weights=before.weights, clusters=before.clusters)
        words.append(f"covariates are those of {len(rows)} other rows")
        several = True
    ordered = problem.ordered_rule
    if rule is not None:
        ordered, known = _other_rule(fit, rule, data, rows)
        rows = replace(rows, known=known)
        words.append(f"the rule is another: {ordered.name}")
        several = True
    for label in _listed(close):
        j = alternative_index(fit, label)
        rows = closed(rows, j, problem.equations.alternatives)
        words.append(f"{label} is closed")
        changes.append((j, -1))
    for label in _listed(open_to_all):
        j = alternative_index(fit, label)
        if rows.known.available is None:
            raise OptionError(f"{label!r} is open to everyone already.")
        available = rows.known.available.copy()
        _refuse_unknown(rows, j, label)
        available[:, j] = True
        rows = replace(rows, known=replace(rows.known, available=available))
        words.append(f"{label} is open to all")
        changes.append((j, 1))
    for label, amount in _amounts(subsidy).items():
        j = alternative_index(fit, label)
        rows = with_cost(rows, j, -amount, ordered, problem.equations.n_alternatives)
        verb = "subsidised" if amount >= 0 else "taxed"
        words.append(f"{label} is {verb} by {abs(amount):g}")
        changes.append((j, 1 if amount >= 0 else -1))
    one = len(changes) == 1 and not several and compares_scores(ordered)
    return Scenario(
        Setting(rows, ordered), tuple(words), changes[0] if one else None, same_rows, warnings
    )


def _refuse_unknown(rows: Rows, alternative: int, label: Any) -> None:
    """Refuse to open an alternative where its covariates or costs are not known."""
    known = rows.known
    lacking = np.zeros(len(rows), dtype=bool)
    for what in (known.described, known.priced):
        if what is not None:
            lacking |= ~what[:, alternative]
    if lacking.any():
        raise UnsupportedError(
            f"{label!r} cannot be opened to everyone: {lacking.sum()} of {len(rows)} cases have no "
            "row for it, so its covariates or costs are not known there. Give data=..., the cases "
            "with a row for each alternative that is then open to them; or fit one row per case, "
            "with available=...."
        )


def _listed(labels: Any) -> list[Any]:
    if labels is None:
        return []
    if isinstance(labels, Mapping):
        raise OptionError(f"Give alternatives as a list, such as ['fishing'], not {labels!r}.")
    if isinstance(labels, str) or not isinstance(labels, Sequence | set | frozenset):
        return [labels]
    return list(dict.fromkeys(labels))


def _amounts(subsidy: Any) -> dict[Any, float]:
    if subsidy is None:
        return {}
    if not isinstance(subsidy, Mapping):
        raise OptionError(
            f"subsidy={subsidy!r} must be given by alternative, as in subsidy={{'fishing': 5}}."
        )
    for label, amount in subsidy.items():
        number = isinstance(amount, int | float | np.number) and not isinstance(amount, bool)
        if not number or not np.isfinite(amount):
            raise OptionError(f"subsidy[{label!r}] must be a finite number, not {amount!r}.")
    return {label: float(amount) for label, amount in subsidy.items()}


def closed(rows: Rows, alternative: int, labels: Sequence[Any]) -> Rows:
    """Close an alternative to everyone, or say to whom nothing would be left."""
    available = rows.known.available
    available = np.ones((len(rows), len(labels)), bool) if available is None else available.copy()
    available[:, alternative] = False
    nothing = np.asarray(~available.any(axis=1))
    if nothing.any():
        raise OptionError(
            f"With {labels[alternative]!r} closed, nothing is left to {nothing.sum()} rows "
            f"({first_rows(nothing)}). Leave at least one alternative open to every row."
        )
    return replace(rows, known=replace(rows.known, available=available))


def with_cost(rows: Rows, alternative: int, cost: float, rule: Any, k: int) -> Rows:
    """Add a cost to an alternative for everyone, in the units in which the rule compares."""
    if not takes_costs(rule):
        raise OptionError(
            f"{type(rule).__name__} has no costs, so subsidies, taxes and quotas by price are not "
            "defined."
        )
    costs = rows.known.costs
    costs = np.zeros((len(rows), k)) if costs is None else costs.copy()
    costs[:, alternative] += cost
    return replace(rows, known=replace(rows.known, costs=costs))


def _other_rule(fit: FitResult, rule: Any, data: Any, rows: Rows) -> tuple[Any, RowData]:
    """Put another rule in the order of the alternatives and read its costs."""
    labels = fit.problem.equations.alternatives
    rule = as_rule(rule)
    ordered = rule.for_alternatives(labels) if hasattr(rule, "for_alternatives") else rule
    _probe(ordered, len(labels))
    check_range = getattr(ordered, "check_range", None)
    if check_range is not None:
        check_range(*fit.facts.outcome_range)
    known = KnownColumns.resolve(getattr(rule, "cost", None), None, labels)
    if known.columns:
        outcome = getattr(fit.coding, "outcome", None)
        recorded = () if outcome is None else outcome.columns
        refuse_decided_costs(known.columns, recorded, fit.facts.chosen)
        source = fit.table if data is None else data
        if source is None or isinstance(source, np.ndarray):
            raise DataError(
                f"The rule's cost is in the column {known.columns[0]!r}, which the fit did not "
                "keep. Give data=... with that column, or a number."
            )
        table = to_frame(source, known.columns)
    else:
        table = pd.DataFrame(index=range(len(rows)))
    costs = known.read(table).costs
    if costs is not None and len(costs) != len(rows):
        raise DataError("Costs of the other rule are needed for every row; some rows lack them.")
    return ordered, replace(rows.known, costs=costs, priced=None)


def _probe(rule: Any, k: int) -> None:
    """Refuse a rule made for another number of alternatives."""
    latent = np.vstack([np.eye(k), -np.eye(k)])
    try:
        chosen = np.asarray(rule.choose(latent))
        fine = chosen.shape == (2 * k,) and bool(((chosen >= 0) & (chosen < k)).all())
        if fine and hasattr(rule, "bounds"):
            lower, upper = rule.bounds(chosen, latent[np.arange(2 * k), chosen])
            fine = lower.shape[1] in (1, k) and upper.shape[1] in (1, k)
    except (IndexError, ValueError) as error:
        raise RuleError(
            f"The rule {rule!r} cannot choose among the {k} alternatives of this fit: {error}."
        ) from error
    if not fine:
        raise RuleError(
            f"The rule {rule!r} is made for another number of alternatives than the {k} of this "
            "fit. Give one that chooses among those."
        )


# Simulated statistics, for what has no closed form, with all of their errors.
#
# The same random numbers serve every evaluation, so a statistic is a fixed, if slightly ragged,
# function of the parameters. Its derivatives are differences over one standard error along each
# axis of the estimates' covariance, wide enough that raggedness does not show, and no wider than
# the estimates may be off. The spread due to the rows is that of their
# influence; the spread due to simulation is taken from the draws of each row.


DRAWS = 200_000
"""Draws in all, unless asked otherwise."""

AT_ONCE = 50_000
"""Draws whose influence is looked at together."""


@dataclass(frozen=True, eq=False)
class DrawnOutcomes:
    """Outcomes (N, k) drawn for rows in one setting, levels where it asks for those, and chosen."""

    latent: Array
    chosen: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Simulated:
    """A simulated statistic with all of its errors, and the covariance (r, r) simulation adds."""

    found: Averages
    mc: Array


class Statistic(Protocol):
    """Anything that is computed from draws."""

    def value(self, drawn: Sequence[DrawnOutcomes], weights: Array) -> Array:
        """Return the statistic (r,) of draws with weights (N,), one `DrawnOutcomes` per setting."""

    def linearise(
        self, drawn: Sequence[DrawnOutcomes], weights: Array
    ) -> Callable[[Sequence[DrawnOutcomes]], Array]:
        """Return the function that gives the influence (N, r) of draws on the statistic.

        Its weighted mean over all draws is zero.
        """


def n_repeats(draws: int | None, n_rows: int) -> int:
    """Return how often every row is drawn; twice at least, to see how much draws scatter."""
    if draws is None:
        draws = DRAWS
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise OptionError(f"draws={draws!r} is not a number of draws. Use a positive integer.")
    return max(2, -(-draws // n_rows))


@one_blas_thread()
def simulate(
    fit: FitResult,
    settings: Sequence[Setting],
    statistic: Statistic,
    *,
    own: bool,
    covariates: str,
    draws: int | None,
    seed: int,
) -> Simulated:
    """Simulate a statistic of rows in one or several settings, with common random numbers.

    Parameters
    ----------
    fit, settings, own, covariates : as in `average`.
    statistic : what is computed from the draws.
    draws : how many in all; None for 200,000.
    seed : of the random numbers.
    """
    refuse_joint(fit.problem)
    check_seed(seed)
    rows = settings[0].rows
    repeats = n_repeats(draws, len(rows))
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    every = np.tile(weights, repeats)

    def at(reported: Array) -> list[DrawnOutcomes]:
        return [draw(fit, setting, reported, repeats, seed) for setting in settings]

    here = at(fit.values)
    value = statistic.value(here, every)
    directions = _axes(fit)
    along = np.zeros((len(value), len(directions)))
    with progress_bar(None, what="Simulations", total=len(directions)) as bar:
        for place, step in enumerate(directions):
            up, down = (statistic.value(at(_moved(fit, one)), every) for one in (step, -step))
            along[:, place] = 0.5 * (up - down)
            bar.update(1)
    # Along each axis the estimates err by one step, so no derivative is needed in between.
    covariance = along @ along.T if len(directions) else np.full((len(value),) * 2, np.nan)
    jacobian = along @ np.linalg.pinv(directions).T if len(directions) else along

    influence = statistic.linearise(here, every)
    direct, squares = np.zeros((len(rows), len(value))), np.zeros((len(value), len(value)))
    size = max(1, AT_ONCE // len(rows)) * len(rows)
    for start in range(0, len(every), size):
        part = slice(start, start + size)
        found = influence([DrawnOutcomes(one.latent[part], one.chosen[part]) for one in here])
        direct += found.reshape(-1, len(rows), len(value)).sum(axis=0) / repeats
        found *= every[part, None]
        squares += found.T @ found
    weighted = direct * weights[:, None]
    within = squares - repeats * (weighted.T @ weighted)
    mc = within / (repeats * (repeats - 1) * weights.sum() ** 2)
    if covariates == "sampled":
        # Simulation adds to the spread of the rows' influence what it adds to the statistic.
        covariance += _spread(fit, rows, direct, own=own)
    else:
        covariance += mc
    return Simulated(Averages(value, covariance, jacobian), mc)


def _axes(fit: FitResult) -> Array:
    """Return axes (r, m) of the estimates' covariance, each one standard error long.

    They are those of the correlations, so that they do not depend on the covariates' units.
    """
    matrix = fit.covariance.matrix
    if not np.isfinite(matrix).all():
        return np.empty((0, len(matrix)))
    errors = np.sqrt(np.diag(matrix))
    lengths, vectors = np.linalg.eigh(matrix / np.outer(errors, errors))
    kept = lengths > 0
    return np.asarray((vectors[:, kept] * np.sqrt(lengths[kept])).T * errors)


def _moved(fit: FitResult, step: Array) -> Array:
    """Return the estimates moved by a step; a scale stays positive however wide its error."""
    moved = fit.values + step
    is_scale = np.array([term == SCALE for _, term in fit.reported.labels])
    return np.where(is_scale, np.maximum(moved, 0.1 * fit.values), moved)


def _spread(fit: FitResult, rows: Rows, direct: Array, *, own: bool) -> Array:
    """Return the covariance of the mean of the rows' influence."""
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    if own:
        shares = direct * (weights / weights.sum())[:, None]
        total: Array = sum(
            (one.whole for one in errors_of_units(fit, shares)), np.zeros((direct.shape[1],) * 2)
        )
        return without_negative(total)
    power = 0.5 if rows_are_repeated(fit) else 1.0
    units = direct * (weights**power)[:, None]
    return units.T @ units / weights.sum() ** 2


def draw(
    fit: FitResult, setting: Setting, reported: Array, repeats: int, seed: int
) -> DrawnOutcomes:
    """Draw the latent outcomes of rows, all rows `repeats` times over."""
    problem, n_rows = fit.problem, len(setting.rows)
    means = np.tile(latent_means(problem, reported, setting.rows), (repeats, 1))
    scales, layout = problem.row_scales(reported, setting.rows), problem.layout
    rng, labels = np.random.default_rng(seed), problem.equations.alternatives
    extras = layout.extras_of(reported)[: layout.n_noise_extras]
    if layout.spreads:
        # Every row has scales of its own.
        noise = problem.noise.draw_at(extras, repeats * n_rows, [1.0] * len(labels), labels, rng)
        noise = noise * np.tile(scales, (repeats, 1))
    else:
        each = scales[0].tolist()
        noise = problem.noise.draw_at(extras, repeats * n_rows, each, labels, rng)
    latent = means + noise
    known = setting.rows.known.take(np.tile(np.arange(n_rows), repeats))
    chosen = setting.rule.choose(latent, known)
    return DrawnOutcomes(
        latent if setting.logarithm is None else setting.logarithm.undo(latent), chosen
    )
