"""Scenarios: the fitted rows in another state of the world, put together from what is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.checks import first_rows
from selfselect.data.coding import KnownColumns
from selfselect.data.rows import Rows
from selfselect.data.tables import to_frame
from selfselect.effects._moments import Setting
from selfselect.effects._sample import code_rows, extrapolations, raw_table
from selfselect.effects.base import alternative_index
from selfselect.errors import DataError, OptionError, RuleError
from selfselect.rules import as_rule, compares_scores, takes_costs
from selfselect.rules.base import RowData

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["Scenario", "build_scenario", "closed", "with_cost"]

Array = NDArray[np.float64]


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
    return ordered, RowData(costs, rows.known.available)


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
