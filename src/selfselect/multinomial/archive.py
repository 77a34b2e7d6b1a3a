"""Multinomial switching regressions in files: the same JSON as every fit, without the rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from selfselect.data.design import DataFacts
from selfselect.data.equations import Equations
from selfselect.errors import ArchiveError
from selfselect.inference.covariance import Covariance
from selfselect.multinomial.corrections import find_correction
from selfselect.multinomial.logit import Logit
from selfselect.multinomial.two_steps import Model, TwoSteps
from selfselect.plain import from_plain, to_plain
from selfselect.results._archive_checks import (
    check_clusters,
    check_covariance,
    check_equations,
    check_facts,
)
from selfselect.results.archive import write_content
from selfselect.results.saved_codings import coding_content, read_coding

if TYPE_CHECKING:
    from selfselect.multinomial.result import MultinomialResult

__all__ = ["rebuild", "save"]


def save(fit: MultinomialResult, path: str | Path) -> None:
    """Write a fit; the file appears whole or not at all."""
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
        "logit": {
            "coefficients": to_plain(logit.coefficients),
            "information": to_plain(logit.information),
            "loglik": to_plain(logit.loglik),
            "n_steps": logit.n_steps,
        },
    }


def rebuild(content: dict[str, Any]) -> MultinomialResult:
    """Return the fit that a file holds; what does not belong together is refused."""
    from selfselect.multinomial.result import MultinomialResult

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
    found = TwoSteps(
        from_plain(content["values"], np.ndarray), logit, from_plain(content["turn"], np.ndarray)
    )
    covariance = from_plain(content["covariance"], Covariance)
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
    )
