"""The door of multinomial models: fit one, save it, and read it again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from selfselect.data.build_selection import build_selection_design
from selfselect.data.design import DataFacts
from selfselect.data.equations import Equations
from selfselect.data.formulas import parse_formula, parse_formulas
from selfselect.data.selection_plan import SelectionPlan
from selfselect.errors import ArchiveError, DataError, FormulaError, OptionError
from selfselect.inference.covariance import Bootstrap, Covariance, covariance_kind
from selfselect.inference.dependence import Dependence
from selfselect.multinomial.corrections import Logit, find_correction
from selfselect.multinomial.result import MultinomialResult
from selfselect.multinomial.two_steps import (
    Model,
    TwoStepEstimate,
    bootstrap_covariance,
    condition_numbers,
    robust_covariance,
    solve,
)
from selfselect.plain import from_plain, to_plain
from selfselect.results._archive_checks import (
    check_clusters,
    check_covariance,
    check_equations,
    check_facts,
)
from selfselect.results.archive import coding_content, read_coding, write_content
from selfselect.results.refit import write_call
from selfselect.seeds import check_seed
from selfselect.threads import one_blas_thread

# The door to multinomial switching: outcomes of several alternatives, a logit between them.


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
        conditions = condition_numbers(model, rows, found)
    assert design.labels is not None
    return MultinomialResult(
        design.coding, model, found, spread, facts, rows, design.labels, influence, call, conditions
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


# Multinomial switching regressions in files: the same JSON as every fit, without the rows.


def save(fit: MultinomialResult, path: str | Path) -> None:
    """Save as versioned JSON, without the rows; `selfselect.load` reads it back."""
    write_content(lambda: _content(fit), path)


def _content(fit: MultinomialResult) -> dict[str, Any]:
    model, logit = fit.model, fit.found.logit
    return {
        "model": "multinomial",
        "call": fit.call,
        "equations": to_plain(model.equations),
        "correction": model.correction.name,
        "degree": getattr(model.correction, "degree", None),
        "base": model.base,
        "coding": coding_content(fit.coding),
        "facts": to_plain(fit.facts),
        "covariance": to_plain(fit.covariance),
        "values": to_plain(fit.found.values),
        "turn": to_plain(fit.found.turn),
        "conditions": to_plain(fit.conditions),
        "logit": {
            "coefficients": to_plain(logit.coefficients),
            "information": to_plain(logit.information),
            "loglik": to_plain(logit.loglik),
            "n_steps": logit.n_steps,
        },
    }


def rebuild(content: dict[str, Any]) -> MultinomialResult:
    """Return the fit that a file holds; what does not belong together is refused."""
    equations = from_plain(content["equations"], Equations)
    check_equations(equations, own_covariates=True, several=True)
    facts = from_plain(content["facts"], DataFacts)
    check_facts(facts, equations.n_alternatives)
    if equations.selection is None:
        raise ArchiveError("the equation of the choice is missing")
    degree = from_plain(content["degree"], int | None)
    correction = find_correction(from_plain(content["correction"], str), degree)
    model = Model(equations, correction, from_plain(content["base"], int))
    if not 0 <= model.base < model.n_alternatives:
        raise ArchiveError("the base is none of the alternatives")
    k, q = model.n_alternatives, len(model.choice_terms)
    own = content["logit"]
    logit = Logit(
        from_plain(own["coefficients"], np.ndarray),
        from_plain(own["information"], np.ndarray),
        np.empty((0, k)),
        from_plain(own["loglik"], float),
        from_plain(own["n_steps"], int),
    )
    found = TwoStepEstimate(
        from_plain(content["values"], np.ndarray), logit, from_plain(content["turn"], np.ndarray)
    )
    covariance = from_plain(content["covariance"], Covariance)
    # Fits were saved without condition numbers before they were measured.
    conditions = from_plain(content.get("conditions", []), tuple[float, ...])
    if conditions and (len(conditions) != k or not min(conditions) >= 1.0):
        raise ArchiveError("its condition numbers are not those of its outcomes")
    n_values = len(model.parameters)
    sizes = (
        (found.values, (n_values,)),
        (covariance.matrix, (n_values, n_values)),
        (found.turn, (q, q)),
        (logit.coefficients, (k, q)),
        (logit.information, ((k - 1) * q, (k - 1) * q)),
    )
    for values, shape in sizes:
        if values.shape != shape or not np.isfinite(values).all():
            raise ArchiveError("its numbers are not those of its equations")
    if not (np.isfinite(logit.loglik) and logit.n_steps >= 0):
        raise ArchiveError("the choice holds numbers that no solver returns")
    check_covariance(covariance.matrix, "the covariance")
    check_clusters(covariance)
    return MultinomialResult(
        read_coding(content["coding"], equations, facts),
        model,
        found,
        covariance,
        facts,
        call=from_plain(content["call"], str | None),
        conditions=conditions,
    )
