"""The door to sample selection: an outcome observed only in rows that were selected (tobit-2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from selfselect.data.build_selection import build_selection_design
from selfselect.data.formulas import parse_formula
from selfselect.data.selection_plan import SelectionPlan
from selfselect.errors import FormulaError
from selfselect.options import Limits
from selfselect.results.call import arguments_for, write_call
from selfselect.results.fit_result import FitResult
from selfselect.selection._estimate import estimate

__all__ = ["sample_selection"]


def sample_selection(
    outcome: str,
    selection: str,
    data: Any,
    *,
    method: str = "ml",
    start: str = "search",
    binary: bool = False,
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
    r"""Fit a regression whose outcome is observed only in selected rows: Heckman's, or tobit-2.

    A row is selected if :math:`z'\gamma + u > 0`, and only then is its outcome
    :math:`y = x'\beta + \sigma e` observed; u and e are standard normal with correlation ρ. This
    is the model of R's ``sampleSelection::selection`` and ``heckit`` and of Stata's ``heckman``.

    Parameters
    ----------
    outcome : the formula of the outcome, ``"log_wage ~ educ + exper"``.
    selection : the formula of the selection, ``"works ~ educ + kids"``; its left side is true or
        false (1 or 0). ``"~ educ + kids"`` selects the rows whose outcome is recorded.
    data : a table, files or a `dask.dataframe`, as in `selfselect.fit`. Outcome and covariates of
        the outcome may be missing in rows that were not selected.
    method : ``"ml"`` for maximum likelihood, ``"two-step"`` for Heckman's two steps with standard
        errors that account for the first.
    start : the likelihood may have several optima. ``"search"`` looks for the best of them;
        ``"two-step"`` climbs only from the two-step estimate, as other programs do.
    binary : whether the outcome is true or false (1 or 0): a probit with sample selection, of which
        the outcome is one where :math:`x'\beta + e > 0`, by maximum likelihood. It is the model of
        Stata's ``heckprobit``. Means of the outcome are probabilities; ``predict(kind="latent")``
        is :math:`x'\beta`.
    endogenous : covariates that are correlated with the noises, and their instruments,
        ``{"educ": "~ distance"}``: control functions. Each is regressed on its instruments and on
        every exogenous covariate, and the residual enters all equations as the covariate
        ``educ_residual``; standard errors account for this first stage. The summary prints its F
        and a test of exogeneity. Scales and correlations are those of the noise given the residual.
        `FitResult.with_residuals` adds the column to new rows.
    weights, weights_kind : a column, or one number per row, and what it means; as in
        `selfselect.fit`.
    missing : ``"drop"`` leaves rows that lack a covariate out, counts them and warns; ``"raise"``
        refuses them.
    missing_outcome : ``"raise"`` refuses rows that were selected but have no outcome; ``"drop"``
        leaves them out; ``"silent"`` keeps them for what they say of the selection, as if their
        outcome were missing at random given the selection.
    outcome_between : (lowest, highest) outcome of selected rows without one, in units of the
        formula's left side: columns or numbers, None (or missing) where there is no limit. Incomes
        in brackets are ``("low", "high")``, top-coded ones ``("topcode", None)``. Such a row adds
        the probability of both its limits and its selection; by maximum likelihood.
    covariance : ``"observed"`` for that of the model, ``"robust"``, ``"clustered"``,
        ``"bootstrap"``, or a `selfselect.inference.Bootstrap`.
    cluster : a column, a list of columns for several ways of clustering at once, or one label per
        row; implies ``"clustered"``, or (one way only) a bootstrap of clusters.
    engine : where rows are held and summed over, as in `selfselect.fit`.
    seed : of all random numbers: bootstrap samples, and the rows on which a search starts.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.

    Returns
    -------
    FitResult
        Start with ``print(result.summary())``.

    Examples
    --------
    >>> import numpy as np
    >>> import selfselect as ss
    >>> rng = np.random.default_rng(1)
    >>> z, x, u = rng.standard_normal((3, 2_000))
    >>> noise = 0.6 * u + 0.8 * rng.standard_normal(2_000)
    >>> works = z + 0.5 * x + u > 0
    >>> table = {"z": z, "x": x, "works": works, "wage": np.where(works, 1 + x + noise, np.nan)}
    >>> result = ss.sample_selection("wage ~ x", "works ~ x + z", table)
    >>> result.converged
    True
    >>> bool(result.independence_test().rejects())
    True
    """
    given = dict(locals())
    call = write_call(sample_selection, given)
    if_recorded = isinstance(selection, str) and selection.lstrip().startswith("~")
    equation = parse_formula(outcome)
    choice = parse_formula(f"recorded {selection}" if if_recorded else selection)
    shared = set(equation.outcome_columns) & set(choice.term_columns)
    if shared:
        raise FormulaError(
            f"The selection is explained by the outcome {', '.join(map(repr, sorted(shared)))}, "
            "which is not known where it was not selected. Leave it out."
        )
    return estimate(
        SelectionPlan(
            equation,
            choice,
            switching=False,
            if_recorded=if_recorded,
            binary=binary,
            endogenous=endogenous,
        ),
        call=call,
        **arguments_for(given, estimate, build_selection_design),
    )
