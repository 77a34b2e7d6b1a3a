"""Doubts about a fit, and which of its intervals need the likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.panels import weighted_quantiles
from selfselect.engines.base import Engine
from selfselect.inference.evidence import Evidence
from selfselect.likelihoods import Batch, RowSums, row_terms
from selfselect.problem.problem import Problem
from selfselect.problem.units import Ties

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# Diagnosis in plain sentences: what the data determines well, and what it does not.
#
# These are the assumptions of the theory made visible: every alternative is chosen often enough
# (paper, Assumption 1), covariates are bounded and vary in all directions also among the rows
# where it is chosen (Assumption 2), and explaining sets have mass.


Array = NDArray[np.float64]

RARE_SHARE = 0.02
FEW_PER_PARAMETER = 10
THIN = 0.01
"""Share of the covariates' variation, in its weakest direction, that lies where the alternative
was chosen; below it the equation rests on the assumed shape of the noise."""
ILL_CONDITIONED = 1e6
WEAK_MILLS = 0.1
"""Share of the Mills ratio's spread below which it is all but a combination of covariates."""
SAMPLE = 20_000
SAMPLE_DRAWN = 2_000
"""Rows, and draws of each, where the mass of explaining sets is sampled."""


@dataclass(frozen=True)
class Finding:
    """One sentence with its verdict: ``fine``, ``weak``, or ``note`` where there is none."""

    verdict: str
    sentence: str


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What was looked at and found, in the order of reading."""

    findings: tuple[Finding, ...]

    @property
    def weak(self) -> tuple[Finding, ...]:
        """The findings a reader should worry about."""
        return tuple(finding for finding in self.findings if finding.verdict == "weak")

    def __repr__(self) -> str:
        n_findings, n_weak = len(self.findings), len(self.weak)
        said = f"{n_findings} finding{'' if n_findings == 1 else 's'}, {n_weak} weak"
        return f"<Diagnosis: {said}; print it to read>"

    def __str__(self) -> str:
        from selfselect.report.page import fold

        mark = {"fine": "  ", "weak": "! ", "note": "? "}
        return "\n".join(fold(mark[one.verdict] + one.sentence) for one in self.findings)

    def _repr_html_(self) -> str:
        from selfselect.report.page import Page

        worry = tuple(finding.sentence for finding in self.weak)
        fine = tuple(one.sentence for one in self.findings if one.verdict != "weak")
        return Page("Diagnosis", worry, (), (), fine).to_html()


def diagnose(fit: FitResult) -> Diagnosis:
    """Report in plain sentences what the data determine well, and what they do not.

    The last sentences list the assumptions on the noise that were not tested, with the reason.
    """
    from selfselect.results.rejections import untested

    if fit.kept:
        return fit.kept.diagnosis
    notes = (Finding("note", sentence) for sentence in untested(fit))
    if fit.answers.findings is None:
        fit.answers.findings = _find(fit)
    return Diagnosis((*fit.answers.findings, *notes))


def _find(fit: FitResult) -> tuple[Finding, ...]:
    """Look at the rows, and where there may be other optima at the likelihood's curvature."""
    problem = fit.problem
    look = _look_at_selection if problem.noise.selected else _look_at_rows
    findings = look(fit.evidence)
    # Where one optimum is all there is, the likelihood is close to quadratic.
    if problem.likelihood.concave or problem.index == "unknown":
        return findings
    return (*findings, *look_at_curvature(fit))


def _look_at_rows(evidence: Evidence) -> tuple[Finding, ...]:
    """Look at shares, overlap, collinearity and the mass of the explaining sets."""
    problem, engine, natural = evidence.problem, evidence.engine, evidence.natural
    information, sums = evidence.solution.information, evidence.observed
    findings: list[Finding] = []
    for j, equation in enumerate(problem.equations.each):
        everywhere, where_chosen = sums.everywhere[j], sums.where_chosen[j]
        label = equation.alternative
        spread = problem.layout.spread_of[j]
        moving = 0 if spread is None else len(spread.places)
        n_parameters = problem.equations.own_terms[j] + 1 + moving
        findings.append(_share(label, float(sums.counts[j]), sums.weight, n_parameters))
        if problem.layout.ties is None and equation.terms:
            findings.append(_overlap(repr(label), equation.terms, everywhere, where_chosen))
            findings.append(_collinearity(repr(label), equation.terms, everywhere))
    if problem.layout.ties is not None and problem.layout.ties.n_moved:
        findings += _restricted(problem.layout.ties, sums)
    if np.isfinite(information).all():
        findings.append(_information(information))
    held = problem.noise.undetermined()
    if held is not None:
        findings.append(Finding("weak", held))
    if problem.index == "unknown":
        findings.append(_certainty(problem, engine, natural))
    elif problem.likelihood.convex_sets:
        findings.append(_mass(problem, engine, natural))
    return tuple(findings)


def _look_at_selection(evidence: Evidence) -> tuple[Finding, ...]:
    """Look at counts, and at what tells selection from an outcome's own covariates."""
    # Imported here: few fits have a selection equation, and all should start quickly.
    from selfselect.solvers.second_step import second_steps
    from selfselect.solvers.selection_search import selection_places

    problem, engine, solution = evidence.problem, evidence.engine, evidence.solution
    gamma, information = solution.free[selection_places(problem)], solution.information
    findings = []
    for equation, step in zip(
        problem.equations.each, second_steps(problem, engine, gamma), strict=True
    ):
        label, n_parameters = equation.alternative, len(equation.terms) + 2
        findings.append(
            _share(label, step.total, engine.weight_total, n_parameters, said="observed")
        )
        sentence = (
            f"The covariates of {label} explain all but {100 * step.unexplained:.1f}% of the Mills "
            "ratio's size"
        )
        if step.unexplained < WEAK_MILLS:
            sentence += ": selection is hard to separate from them. Expect wide intervals"
        verdict = "weak" if step.unexplained < WEAK_MILLS else "fine"
        findings.append(Finding(verdict, f"{sentence}."))
    if np.isfinite(information).all():
        findings.append(_information(information))
    return tuple(findings)


def _share(
    label: object, count: float, total: float, n_parameters: int, said: str = "chosen"
) -> Finding:
    share = count / total
    sentence = (
        f"{label!r} is {said} in {count:.6g} of {total:g} rows ({100 * share:.1f}%), "
        f"{count / n_parameters:.0f} per parameter."
    )
    few = [f"fewer than {100 * RARE_SHARE:g}% of all"] * (share < RARE_SHARE)
    few += [f"fewer than {FEW_PER_PARAMETER} per parameter"] * (
        count < FEW_PER_PARAMETER * n_parameters
    )
    if few:
        sentence += f" Its estimates rest on few outcomes: {' and '.join(few)}."
    return Finding("weak" if few else "fine", sentence)


def _restricted(ties: Ties, sums: RowSums) -> list[Finding]:
    """Look at the covariates of all equations at once, as they share coefficients."""
    both = sums.everywhere, sums.where_chosen
    padded = [[np.pad(gram, (0, 1)) for gram in grams] for grams in both]
    everywhere, where_chosen = (ties.gather_grams(grams)[0] for grams in padded)
    terms = tuple(f"{alternative}:{term}" for alternative, term in ties.labels)
    return [
        _overlap("the alternative concerned", terms, everywhere, where_chosen),
        _collinearity("all equations", terms, everywhere),
    ]


def _scaled(gram: Array, scale: Array) -> Array:
    return gram * np.outer(scale, scale)


def _overlap(
    label: str, terms: tuple[str, ...], everywhere: Array, where_observed: Array
) -> Finding:
    """Compare the covariates' variation among rows where the alternative was chosen with all."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(everywhere), 1e-300))
    root = np.linalg.cholesky(_scaled(everywhere, scale) + 1e-13 * np.eye(len(scale)))
    half = np.linalg.solve(root, _scaled(where_observed, scale))
    share, direction = np.linalg.eigh(np.linalg.solve(root, half.T))
    weakest = max(float(share[0]), 0.0)
    sentence = (
        f"In its weakest direction, {100 * weakest:.2g}% of the covariates' variation lies where "
        f"{label} was chosen."
    )
    if weakest >= THIN:
        return Finding("fine", sentence)
    loading = np.abs(np.linalg.solve(root.T, direction[:, 0]))
    sentence += (
        f" That is little, mainly along {terms[int(loading.argmax())]!r}: elsewhere the equation "
        "is extrapolated by the assumed shape of the noise."
    )
    return Finding("weak", sentence)


def _collinearity(label: str, terms: tuple[str, ...], gram: Array) -> Finding:
    scale = 1.0 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
    values, vectors = np.linalg.eigh(_scaled(gram, scale))
    condition = float(values[-1] / max(values[0], 1e-300))
    sentence = f"The covariates of {label} have condition number {np.sqrt(condition):.3g}."
    if condition < ILL_CONDITIONED:
        return Finding("fine", sentence)
    loading = np.abs(vectors[:, 0])
    names = [term for term, size in zip(terms, loading, strict=True) if size > 0.1 * loading.max()]
    return Finding(
        "weak",
        f"{sentence} {', '.join(map(repr, names))} are nearly collinear: their sum is well "
        "determined, each alone is not.",
    )


def _information(information: Array) -> Finding:
    scale = 1.0 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    smallest = float(np.linalg.eigvalsh(_scaled(information, scale))[0])
    sentence = f"The smallest eigenvalue of the scaled information matrix is {smallest:.3g}."
    if smallest > 1e-6:
        return Finding("fine", sentence)
    return Finding("weak", f"{sentence} Some combination of parameters is hardly determined.")


def _certainty(problem: Problem, engine: Engine, natural: Array) -> Finding:
    """Report how well the chosen alternative can be inferred."""
    sample = engine.sample(SAMPLE, np.random.default_rng(0))
    chances = sample.collect(partial(_largest_chance, problem, natural))
    certain = float(np.average(chances, weights=sample.collect(_weights)))
    guess = 1.0 / problem.equations.n_alternatives
    sentence = (
        f"The chosen alternative can be inferred with probability {certain:.2g} on average "
        f"(guessing: {guess:.2g})."
    )
    if certain > guess + 0.1 * (1.0 - guess):
        return Finding("fine", sentence)
    if not any(problem.equations.own_terms):
        return Finding(
            "weak",
            f"{sentence} The alternatives share all their coefficients: nothing distinguishes them "
            "but covariates of their own, if they have any.",
        )
    return Finding("weak", f"{sentence} The alternatives are hardly distinct.")


def _largest_chance(problem: Problem, natural: Array, batch: Batch) -> Array:
    return np.asarray(row_terms(problem, natural, batch).chance.max(axis=1))


def _mass(problem: Problem, engine: Engine, natural: Array) -> Finding:
    """Report quantiles of the mass of the explaining sets (its minimum tends to zero anyway)."""
    low, middle = mass_quantiles(problem, engine, natural, [0.05, 0.5])
    sentence = (
        f"The chance of the recorded choice given the recorded outcome is {middle:.2g} in the "
        f"median row and {low:.2g} at the 5% quantile."
    )
    if low >= 1e-6:
        return Finding("fine", sentence)
    return Finding("weak", f"{sentence} Many choices are next to impossible under the model.")


def mass_quantiles(
    problem: Problem, engine: Engine, natural: Array, levels: Sequence[float]
) -> Array:
    """Return quantiles of the mass of the explaining sets, of a sample of the rows that count.

    Where it has no closed form it is sampled; zero is then too small to be measured.
    """
    size = SAMPLE_DRAWN if problem.likelihood.sampled else SAMPLE
    sample = engine.sample(size, np.random.default_rng(0))
    masses, weights = sample.collect(partial(_log_mass, problem, natural)), sample.collect(_weights)
    counted = weights > 0
    return np.exp(weighted_quantiles(masses[counted], levels, weights[counted]))


def _weights(batch: Batch) -> Array:
    return np.ones(len(batch.rows)) if batch.rows.weights is None else batch.rows.weights


def _log_mass(problem: Problem, natural: Array, batch: Batch) -> Array:
    return row_terms(problem, natural, batch).log_mass


# Which fits have profile-likelihood intervals, and which should be read with them.


MOST_ROWS, MOST_ROWS_WEIGHED = 10_000, 1_000
"""Rows up to which a summary compares the likelihood with a quadratic one unasked; those of a
likelihood that weighs all that may have been cost more."""

FAR_OFF = 0.25
"""How far signed roots may be from 2 standard errors: an interval of 95% then misses one end by as
much, and its tail of 2.5% is between 1.4 and 4.3%."""


def not_chi_square(fit: Any) -> str | None:
    """Say why a likelihood ratio of a fit is not chi-square, or None where it is."""
    if not fit.converged:
        return "the fit did not converge"
    if fit.covariance.sandwich or fit.facts.cluster is not None:
        return (
            "with a robust or clustered covariance the likelihood is not assumed to be correct, "
            "so its ratio is not chi-square; use method='wald'"
        )
    return None


def no_profile(fit: FitResult) -> str | None:
    """Say why a fit has no profile intervals, or None where it has."""
    problem = fit.problem
    if fit.facts.weights_kind == "probability":
        return (
            "with probability weights the likelihood is not that of a sample, so its ratios are "
            "not chi-square; use method='wald'"
        )
    reason = not_chi_square(fit)
    if reason is not None:
        return reason
    if not problem.likelihood.exact or fit.solution.loglik_error > 0:
        return "the likelihood is simulated, not exact; use covariance='bootstrap'"
    if fit.solution.noise is not None and fit.solution.noise.any():
        return "the estimates were simulated; fit with solver=None, whose likelihood is exact"
    if not problem.noise.margin.smooth:
        return f"the log-likelihood of {problem.noise.margin.name} noise has kinks; use 'wald'"
    if fit.method != "ml":
        return "two-step estimates do not maximise a likelihood; use method='ml'"
    if not np.isfinite(fit.solution.information).all():
        return "the estimate is not one of maximum likelihood"
    if fit.engine is None:
        return "the fit was loaded from a file and no longer has its rows; fit again"
    if not fit.engine.holds_rows:
        return "rows are read piece by piece, some tens of times per parameter; fit in memory"
    return None


def look_at_curvature(fit: Any) -> tuple[Finding, ...]:
    """Say which parameters' standard errors mislead; nothing where that would cost too much."""
    problem = getattr(fit, "problem", None)
    weighed = problem is not None and (problem.partial or bool(problem.equations.costs))
    most = MOST_ROWS_WEIGHED if weighed else MOST_ROWS
    if fit.facts.n_rows > most or fit.curvature is None:
        return ()
    off = (np.abs(np.abs(fit.curvature.to_numpy()) - 2.0) > FAR_OFF).any(axis=1)
    names = [name for name, poor in zip(fit.names, off, strict=True) if poor]
    if not names:
        return (Finding("fine", "The likelihood is nearly quadratic within two standard errors."),)
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return (
        Finding(
            "weak",
            f"The likelihood is far from quadratic around {shown}: intervals from standard errors "
            'are misleading there. Use result.conf_int(method="profile").',
        ),
    )
