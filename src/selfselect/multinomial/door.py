"""The door to multinomial switching: outcomes of several alternatives, a logit between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from selfselect.data.build_selection import build_selection_design
from selfselect.data.formulas import parse_formula, parse_formulas
from selfselect.data.selection_plan import SelectionPlan
from selfselect.errors import DataError, FormulaError, OptionError
from selfselect.inference.bootstrap import Bootstrap
from selfselect.inference.covariance import covariance_kind
from selfselect.inference.dependence import Dependence
from selfselect.multinomial.corrections import find_correction
from selfselect.multinomial.result import MultinomialResult
from selfselect.multinomial.two_steps import (
    Model,
    bootstrap_covariance,
    robust_covariance,
    solve,
)
from selfselect.results.call import write_call
from selfselect.seeds import check_seed
from selfselect.threads import one_blas_thread

__all__ = ["multinomial_switching"]


def multinomial_switching(
    formula: str | Mapping[Any, str],
    choice: str,
    data: Any,
    *,
    correction: str = "dmf1",
    degree: int | None = None,
    base: Any = None,
    available: Mapping[Any, str] | None = None,
    weights: Any = None,
    weights_kind: str | None = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    covariance: Any = "robust",
    cluster: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> MultinomialResult:
    r"""Fit outcomes of several alternatives between which a multinomial logit chooses.

    The first step is the logit of the choice, the second least squares of every outcome on its
    covariates and on regressors that stand for the mean of its noise given the choice. This is what
    Stata's ``selmlog`` does. If the largest outcome is chosen, `selfselect.fit` uses that rule and
    needs no excluded covariate.

    Parameters
    ----------
    formula : one formula for all outcomes, or one by alternative.
    choice : the formula of the choice, ``"sector ~ age + distance"``; its left side is the column
        that says which alternative was chosen. Covariates of outcomes belong in it too.
    data : a pandas or polars frame, a pyarrow table, or a dict of arrays.
    correction : how the noise of outcomes depends on the choice: ``"dmf1"``, ``"dmf0"`` or
        ``"dmf2"`` (Dubin and McFadden), ``"lee"``, or ``"dahl"``. They assume different things,
        which the summary says.
    degree : of Dahl's polynomial in the chances of the chosen and the likeliest other
        alternative; None for 2.
    base : the alternative whose coefficients in the choice are zero; None for the first. The
        outcomes' estimates do not depend on it.
    available : columns that say in which rows an alternative is available, as in `selfselect.fit`.
    covariance : ``"robust"``, ``"HC0"``, ``"HC1"``, ``"clustered"``, ``"bootstrap"`` or a
        `selfselect.inference.Bootstrap`, all over both steps.
    weights, weights_kind, missing, missing_outcome, cluster : as in `sample_selection`.
    seed : of bootstrap samples.
    progress : whether to show progress; None shows it on a terminal for what takes seconds.

    Returns
    -------
    MultinomialResult
        Start with ``print(result.summary())``.

    Examples
    --------
    >>> import numpy as np
    >>> import selfselect as ss
    >>> rng = np.random.default_rng(1)
    >>> x, z = rng.standard_normal((2, 3_000))
    >>> pull = np.column_stack([0 * x, 0.5 * x + z, z - 0.5 * x]) + rng.gumbel(size=(3_000, 3))
    >>> job = pull.argmax(axis=1)
    >>> wage = 1 + x + 0.3 * pull[np.arange(3_000), job] + rng.standard_normal(3_000)
    >>> table = {"x": x, "z": z, "job": job, "wage": wage}
    >>> result = ss.multinomial_switching("wage ~ x", "job ~ x + z", table)
    >>> len(result.treatment_effects(1, 0).table)
    3
    """
    call = write_call(multinomial_switching, locals())
    method = find_correction(correction, degree)
    outcomes, between = parse_formulas(formula), parse_formula(choice)
    first = next(iter(outcomes.values())) if isinstance(outcomes, dict) else outcomes
    shared = set(first.outcome_columns) & set(between.term_columns)
    if shared:
        raise FormulaError(
            f"The choice is explained by the outcome {', '.join(map(repr, sorted(shared)))}, "
            "which the choice decides. Leave it out."
        )
    number = check_seed(seed, optional=True)
    with one_blas_thread():
        design = build_selection_design(
            SelectionPlan(outcomes, between, switching=True, several=True),
            data,
            weights=weights,
            weights_kind=weights_kind,
            cluster=cluster,
            missing=missing,
            missing_outcome=missing_outcome,
            available=available,
        )
        facts, rows = design.facts, design.rows
        model = Model(design.equations, method, _find_base(design.equations.alternatives, base))
        _refuse_names(model)
        _refuse_constant(model, rows.covariates)
        dependence = Dependence(design.cluster_sizes, facts.cluster, facts.weights_kind)
        kind = _kind(covariance, dependence)
        found = solve(model, rows)
        influence = None
        if isinstance(kind, Bootstrap):
            spread = bootstrap_covariance(
                model, rows, found, kind, dependence, seed=SeedSequence(number), progress=progress
            )
        else:
            spread, influence = robust_covariance(
                model, rows, found, kind=kind, dependence=dependence
            )
    assert design.labels is not None
    return MultinomialResult(
        design.coding, model, found, spread, facts, rows, design.labels, influence, call
    )


def _find_base(labels: tuple[Any, ...], base: Any) -> int:
    if base is None:
        return 0
    texts = [str(label) for label in labels]
    if str(base) not in texts:
        raise OptionError(f"base={base!r} is no alternative. Use one of {', '.join(texts)}.")
    return texts.index(str(base))


def _refuse_names(model: Model) -> None:
    """Refuse covariates that bear the name of a parameter of the correction."""
    for j, equation in enumerate(model.equations.each):
        taken = set(equation.terms) & set(model.correction.terms(j, model.labels))
        if taken:
            raise FormulaError(
                f"A covariate cannot be named {taken.pop()!r}: results use the word for a "
                "parameter. Rename the column."
            )


def _refuse_constant(model: Model, covariates: np.ndarray[Any, Any]) -> None:
    """Refuse a choice that nothing moves: then corrections are constants."""
    assert model.equations.selection is not None
    moving = [column for column in model.equations.selection.columns if column]
    if not moving or not (covariates[:, [column - 1 for column in moving]].std(axis=0) > 0).any():
        raise DataError(
            "No covariate moves the choice, so its correction is a constant that is not "
            "identified separately from that of the outcome. Add covariates to the choice."
        )


def _kind(covariance: Any, dependence: Dependence) -> str | Bootstrap:
    kind = covariance_kind(covariance, dependence)
    if isinstance(kind, str) and kind in ("observed", "opg"):
        raise OptionError(
            f"covariance={covariance!r} needs maximum likelihood, and this estimate has two "
            "steps. Use 'robust', 'HC0', 'HC1', 'clustered' or 'bootstrap'."
        )
    if isinstance(kind, Bootstrap) and len(dependence.clusters) > 1:
        raise OptionError(
            "A bootstrap draws whole clusters, which is not possible for clusters by "
            f"{dependence.cluster_name} at once. Use covariance='clustered', or cluster by one of "
            "them."
        )
    return kind
