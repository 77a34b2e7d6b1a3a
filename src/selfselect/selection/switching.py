"""The door to endogenous switching: two outcomes, and a selection of its own between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selfselect.data.build_selection import build_selection_design
from selfselect.data.formulas import parse_formula, parse_formulas
from selfselect.data.selection_plan import SelectionPlan
from selfselect.errors import FormulaError
from selfselect.options import Limits
from selfselect.results.call import arguments_for, write_call
from selfselect.results.fit_result import FitResult
from selfselect.selection._estimate import estimate

__all__ = ["switching"]


def switching(
    formula: str | Mapping[Any, str],
    selection: str,
    data: Any,
    *,
    method: str = "ml",
    start: str = "search",
    towards: Any = None,
    ordered: Any = None,
    shared: Any = None,
    offset: Any = None,
    endogenous: Mapping[str, str] | None = None,
    weights: Any = None,
    weights_kind: str | None = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    outcome_between: Limits = None,
    covariance: Any = "observed",
    cluster: Any = None,
    engine: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> FitResult:
    r"""Fit a switching regression with endogenous switching: tobit-5, or ordered.

    The first of two outcomes is observed if :math:`z'\gamma + u > 0`, else the second; both are
    linear with normal noise that is correlated with u. This is the model of Stata's ``movestay``
    and of R's ``sampleSelection::selection`` with two outcomes. The Roy model of `selfselect.fit`
    with two alternatives is a special case, in which the selection is by the larger outcome:
    `lr_test` of both fits tests it.

    Parameters
    ----------
    formula : ``{"union": "wage ~ educ", "other": "wage ~ educ + firm"}``, by the values of the
        column on the left side of `selection`; or one formula for both.
    selection : the formula of the selection, ``"sector ~ educ + married"``; its left side is the
        column that says which outcome was observed.
    data : a table, files or a `dask.dataframe`, as in `selfselect.fit`.
    method : ``"ml"`` for maximum likelihood, ``"two-step"`` for least squares with Mills ratios
        and standard errors that account for the first step.
    towards : the alternative that a positive index selects. By default true (or 1 of 0 and 1),
        else the first of the formulas, or of the labels in order.
    ordered : for alternatives in an order, any number of them, such as hours of work: their labels
        from the lowest to the highest, ``["few", "part", "full"]``; True takes the order of
        numbers, or of an ordered category. The index passes a cut point between each two, an
        ordered probit, and has no constant.
    shared : coefficients that the alternatives have in common, as in `selfselect.fit`; or
        ``"slopes"`` for an endogenous treatment: the outcomes differ by a constant, and have all
        slopes and the noise, with its scale and its correlation, in common. It is the model of
        Stata's ``etregress`` and R's ``sampleSelection::treatReg``.
    offset : a column that is added to the mean of every outcome, with no coefficient; or
        ``{"union": "dues"}`` for some.
    start, endogenous, weights, weights_kind : as in `sample_selection`.
    missing, missing_outcome, outcome_between : as in `sample_selection`.
    covariance, cluster, engine, seed, progress : as in `sample_selection`.

    Returns
    -------
    FitResult
        Start with ``print(result.summary())``.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(2_000, seed=1).data
    >>> result = ss.switching("income ~ height + weight", "job ~ height + weight", villagers)
    >>> result.converged
    True
    >>> roy = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> bool(result.lr_test(roy).rejects())  # the larger income was chosen: that is not rejected
    False

    Three alternatives in an order:

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x, z, u = rng.standard_normal((3, 2_000))
    >>> hours = np.digitize(z + u, [-0.5, 0.8])  # 0, 1 or 2
    >>> wage = 1 + hours + x + 0.5 * u + rng.standard_normal(2_000)
    >>> table = {"x": x, "z": z, "hours": hours, "wage": wage}
    >>> ordered = ss.switching("wage ~ x", "hours ~ x + z", table, ordered=True)
    >>> ordered.params["selection"].index.tolist()
    ['x', 'z', 'cut 0|1', 'cut 1|2']
    """
    given = dict(locals())
    call = write_call(switching, given)
    outcomes = parse_formulas(formula)
    choice = parse_formula(selection)
    first = next(iter(outcomes.values())) if isinstance(outcomes, dict) else outcomes
    explained = set(first.outcome_columns) & set(choice.term_columns)
    if explained:
        raise FormulaError(
            f"The selection is explained by the outcome {', '.join(map(repr, sorted(explained)))}, "
            "which selection decides. Leave it out."
        )
    return estimate(
        SelectionPlan(
            outcomes,
            choice,
            switching=True,
            ordered=ordered,
            shared=shared,
            offset=offset,
            endogenous=endogenous,
        ),
        call=call,
        **arguments_for(given, estimate, build_selection_design),
    )
