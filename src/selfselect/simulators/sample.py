"""A sample with its truth, and the sizes it may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.rows import refuse_beyond_memory
from selfselect.data.tables import column_names, to_frame
from selfselect.errors import OptionError
from selfselect.noises import Independent, Noise, as_drawn_noise
from selfselect.noises.base import Extra
from selfselect.options import NoiseOption, RuleOption
from selfselect.rules import as_rule
from selfselect.rules.base import Label, RowData, by_alternative
from selfselect.seeds import generator

# How large a sample may be, asked before anything is drawn.


COLUMNS = 8
"""Columns of doubles that a sample holds at least, with its latent outcomes and their noise."""


def check_sizes(n_rows: Any, *, n_covariates: Any = 1, n_alternatives: Any = 1) -> None:
    """Refuse sizes that are no whole numbers from 1 on, and samples that no memory holds."""
    sizes = {"n_rows": n_rows, "n_covariates": n_covariates, "n_alternatives": n_alternatives}
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise OptionError(f"{name}={size!r} is not possible. Give a whole number from 1 on.")
    columns = COLUMNS + int(n_covariates) + 2 * int(n_alternatives)
    values = int(n_rows) * columns + int(n_covariates) * int(n_alternatives)
    refuse_beyond_memory(
        f"A sample of {int(n_rows):,} rows", 8.0 * min(values, 10**300), "Ask for less."
    )


# Samples with the truth attached.


Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """Simulated rows, with the true coefficients and the outcomes that were not recorded.

    Attributes
    ----------
    data : the table a fit is given.
    formula : a formula, or one per alternative, that is right for it.
    chosen : name of the column of the chosen alternative.
    params : true coefficients and scales, labelled like those of a fit.
    latent : (n, k) all outcomes, observed or not.
    rule, noise : as given.
    """

    data: pd.DataFrame
    formula: str | dict[Label, str]
    chosen: str
    params: pd.Series[float]
    latent: pd.DataFrame
    rule: Any
    noise: Any

    def __repr__(self) -> str:
        return f"<Sample: {len(self.data)} rows of {self.formula!r}; .data, .params and .latent>"


def simulate(
    coefficients: Mapping[Label, Mapping[str, float]],
    covariates: Any,
    *,
    scales: float | Sequence[float] | Mapping[Label, float] | None = None,
    rule: RuleOption = "max",
    noise: NoiseOption = None,
    outcome: str = "outcome",
    chosen: str = "chosen",
    available: Mapping[Any, str] | None = None,
    seed: int = 0,
) -> Sample:
    """Draw outcomes for given covariates and keep the one that the rule chooses.

    Parameters
    ----------
    coefficients : per alternative ``{term: value}``; ``Intercept`` is the constant.
    covariates : a table with a column for every other term, and for costs and availability.
    scales : of the noise, one for all or one per alternative; None for 1, or what `noise` fixes.
    rule : which alternative is chosen.
    noise : how outcomes scatter; None for `noises.Independent()`.
    outcome, chosen : names of the columns to make.
    available : as in `selfselect.fit`.
    seed : of the random draws.

    Examples
    --------
    >>> import numpy as np
    >>> import selfselect as ss
    >>> x = {"x": np.linspace(-1, 1, 100)}
    >>> sample = ss.simulate({"a": {"x": 1.0}, "b": {"Intercept": 0.5, "x": -1.0}}, x, seed=3)
    >>> sorted(sample.data.columns)
    ['chosen', 'outcome', 'x']
    """
    from selfselect.data.coding import KnownColumns

    table = to_frame(covariates, column_names(covariates)).reset_index(drop=True)
    labels = tuple(coefficients)
    if len(labels) < 2:
        raise OptionError(f"Give coefficients for at least two alternatives, not {len(labels)}.")
    for name in (outcome, chosen):
        if name in table:
            raise OptionError(
                f"The covariates already have a column {name!r}. Rename it, or the columns to be "
                "made, with outcome=... and chosen=...."
            )
    rule = as_rule(rule)
    rng = generator(seed)
    spread = _scales(scales, as_drawn_noise(noise), labels)
    means = np.column_stack([_mean(coefficients[label], table) for label in labels])
    latent = means + as_drawn_noise(noise).draw(len(table), spread, labels, rng)
    known = KnownColumns.resolve(getattr(rule, "cost", None), available, labels)
    row_data: RowData = known.read(table)
    ordered = rule.for_alternatives(labels) if hasattr(rule, "for_alternatives") else rule
    picked = ordered.choose(latent, row_data)
    data = table.assign(
        **{
            outcome: latent[np.arange(len(table)), picked],
            chosen: pd.Series([labels[j] for j in picked]),
        }
    )
    return Sample(
        data=data,
        formula=_formula(coefficients, outcome),
        chosen=chosen,
        params=_truth(coefficients, spread, as_drawn_noise(noise).extras(labels)),
        latent=pd.DataFrame(latent, columns=list(labels)),
        rule=rule,
        noise=noise,
    )


def _scales(scales: Any, noise: Noise, labels: Sequence[Label]) -> list[float]:
    """Return the scale of every alternative, as given or as the noise fixes it."""
    if getattr(noise, "spread", None) is not None:
        raise OptionError(
            f"The noise has scales that move with covariates ({noise.name.split('; ')[-1]}), of "
            "which a formula gives no numbers. Draw outcomes with NumPy, or simulate with "
            "constant scales."
        )
    fixed = noise.fixed_scales(labels)
    if scales is not None and fixed is not None:
        raise OptionError("The noise fixes the scales already. Leave `scales` out.")
    if isinstance(scales, Mapping):
        given = by_alternative(scales, labels, what="scale")
        scales = {label: given.get(label, 1.0) for label in labels}
    if fixed is None:
        fixed = Independent(1.0 if scales is None else scales).fixed_scales(labels)
    if fixed is None:
        raise OptionError(f"A simulation needs scales as numbers, not {scales!r}.")
    return [float(scale) for scale in fixed]


def _mean(coefficients: Mapping[str, float], table: pd.DataFrame) -> Array:
    mean = np.zeros(len(table))
    for term, value in coefficients.items():
        if term == "Intercept":
            mean += value
        elif term in table:
            mean += value * table[term].to_numpy(dtype=float)
        else:
            raise OptionError(f"There is no covariate {term!r} in the table to simulate from.")
    return mean


def _formula(
    coefficients: Mapping[Label, Mapping[str, float]], outcome: str
) -> str | dict[Label, str]:
    formulas: dict[Label, str] = {}
    for label, terms in coefficients.items():
        names = [_quoted(term) for term in terms if term != "Intercept"]
        if "Intercept" not in terms:
            names.append("-1")
        right = " + ".join(names or ["1"]).replace("+ -1", "- 1")
        formulas[label] = f"{_quoted(outcome)} ~ {right}"
    if len(set(formulas.values())) == 1:
        return next(iter(formulas.values()))
    return formulas


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def _truth(
    coefficients: Mapping[Label, Mapping[str, float]],
    spread: Sequence[float],
    extras: Sequence[Extra],
) -> pd.Series[float]:
    truth: dict[tuple[Label, str], float] = {}
    for (label, terms), scale in zip(coefficients.items(), spread, strict=True):
        ordered = sorted(terms, key=lambda term: term != "Intercept")
        truth.update({(label, term): float(terms[term]) for term in ordered})
        truth[(label, "scale")] = float(scale)
    truth.update({extra.label: float(extra.fixed or 0.0) for extra in extras})
    index = pd.MultiIndex.from_tuples(list(truth), names=["alternative", "term"])
    return pd.Series(list(truth.values()), index=index, name="truth")
