"""Combinations of parameters with standard errors, by the delta method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from selfselect.effects.base import Averages, EffectTable, effect_table
from selfselect.errors import OptionError
from selfselect.results.expressions import Expression, read_expressions

if TYPE_CHECKING:
    from selfselect.results.estimates import Estimates

Array = NDArray[np.float64]

ROUNDING = 1e-12
"""Size of a variance below zero that is rounding, as a share of what its terms could add up to."""


def lincom(fit: Estimates, *expressions: str, level: float = 0.95) -> EffectTable:
    """Return linear combinations of parameters with standard errors and intervals.

    Parameters
    ----------
    expressions : such as ``"hunting:height - fishing:height"``, parameters as in `names`. Each
        text may hold several, separated by commas.
    level : of the intervals.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> made = result.lincom("hunting:height - fishing:height", "10*hunting:weight").table
    >>> made["expression"].tolist()
    ['hunting:height - fishing:height', '10*hunting:weight']
    """
    return _combine(fit, expressions, level=level, linear=True)


def nlcom(fit: Estimates, *expressions: str, level: float = 0.95) -> EffectTable:
    """Return functions of parameters with standard errors and intervals by the delta method.

    Derivatives are exact. Intervals are symmetric; if the function is strongly curved within
    them, a more linear one, such as the logarithm of a ratio, has better intervals.

    Parameters
    ----------
    expressions : such as ``"exp(hunting:height) / fishing:height"``, of parameters as in
        `names`, numbers, ``+ - * / ^``, parentheses, and exp, log, sqrt, tanh, abs. Each text
        may hold several, separated by commas.
    level : of the intervals.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> len(result.nlcom("hunting:height / fishing:height, log(hunting:scale)").table)
    2
    """
    return _combine(fit, expressions, level=level, linear=False)


def _combine(
    fit: Estimates, expressions: Sequence[str], *, level: float, linear: bool
) -> EffectTable:
    found = _read(fit, expressions, linear)
    slopes = np.array([one.slope for one in found])
    covariance = slopes @ fit.covariance.matrix @ slopes.T
    unknown = slopes[:, list(fit.covariance.missing)].any(axis=1)
    covariance[unknown, :] = np.nan
    covariance[:, unknown] = np.nan
    negative = _negative(covariance, slopes, fit)
    covariance[negative, :] = np.nan
    covariance[:, negative] = np.nan
    notes = [f"Standard errors by the delta method ({fit.covariance.description})."]
    if negative.any():
        notes.append("There is no standard error where the covariance gives a negative variance.")
    if unknown.any():
        names = [fit.names[i] for i in fit.covariance.missing if slopes[:, i].any()]
        notes.append(f"There is no standard error where {', '.join(names)} has none.")
    warnings = [] if fit.converged else [f"NOT CONVERGED. {fit.status} Do not use these numbers."]
    if not np.isfinite(fit.covariance.matrix).all():
        warnings.append("NO STANDARD ERRORS: the fit has no covariance of its estimates.")
    return effect_table(
        f"{'Linear combinations' if linear else 'Functions'} of parameters",
        {"expression": [one.text for one in found]},
        Averages(np.array([one.value for one in found]), covariance, slopes),
        level=level,
        df=fit.covariance.df,
        warnings=warnings,
        notes=notes,
        tested=True,
    )


def _negative(covariance: Array, slopes: Array, fit: Estimates) -> NDArray[np.bool_]:
    """Say which combinations have a variance below zero by more than rounding."""
    errors = np.sqrt(np.maximum(np.diag(fit.covariance.matrix), 0.0))
    found: NDArray[np.bool_] = np.diag(covariance) < -ROUNDING * (np.abs(slopes) @ errors) ** 2
    return found


def _read(fit: Estimates, expressions: Sequence[str], linear: bool) -> list[Expression]:
    for text in expressions:
        if not isinstance(text, str):
            raise OptionError(
                f"An expression is text, such as 'alternative:term - alternative:term', not "
                f"{text!r}. Give several as several arguments."
            )
    found = [one for text in expressions for one in read_expressions(text, fit.names, fit.values)]
    if not found:
        raise OptionError(
            f"There is no expression. Write parameters as alternative:term: {', '.join(fit.names)}."
        )
    for one in found:
        if one.is_equation:
            raise OptionError(
                f"{one.text!r} is a hypothesis, since it has an '='. Test it with wald_test, or "
                "write the difference of its sides."
            )
        if linear and one.degree > 1:
            raise OptionError(
                f"The expression {one.text!r} is not linear in the parameters. Use nlcom."
            )
        if not one.has_error:
            raise OptionError(
                f"The expression {one.text!r} or its derivative is not a finite number at the "
                "estimates, or too large to be squared, so it has no standard error there."
            )
    return found
