"""What a solver is asked and returns, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from numbers import Integral
from string import Formatter
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.engines.base import Engine
from selfselect.errors import OptionError, UnsupportedError
from selfselect.noises import FittedNoise
from selfselect.problem.problem import Problem
from selfselect.rules.base import HasBounds

# How a solver ended: a status that carries its sentence, and what the sentence names.


class Status(Enum):
    """How a solver ended.

    Attributes
    ----------
    sentence : what is printed; names in braces are filled in from `Ending.details`.
    converged : whether the estimate is the one that the solver looks for.
    """

    def __init__(self, sentence: str, converged: bool) -> None:
        self.sentence = sentence
        self.converged = converged

    CONVERGED = ("Converged in {steps} {method} step{steps:s}.", True)
    CONVERGED_BY_DRAWS = (
        "Converged in {passes} passes; Monte-Carlo error at most {error:.2g}% of every standard "
        "error, worth {worth:.0f} independent draws a row.",
        True,
    )
    CONVERGED_WITHOUT_ERROR = (
        "Converged in {passes} passes; Monte-Carlo error at most 0% of every standard error.",
        True,
    )
    FROM_MOMENTS = ("Estimated from moments by {method}, not by maximum likelihood.", True)
    AVERAGED = (
        "Estimated by averaging {average} iterates of {passes} pass{passes:es}, not by maximum "
        "likelihood: the score there says that the optimum is {distance:.2g} standard errors away.",
        True,
    )
    SOLVED = ("{sentence}", True)
    """For a solver that converged and has a sentence of its own."""

    AVERAGED_TOO_EARLY = (
        "Estimated by averaging {average} iterates of {passes} pass{passes:es}, not by maximum "
        "likelihood: the score there says that the optimum is {distance:.2g} standard errors away. "
        "Allow more passes, or use MonteCarloNewton.",
        False,
    )
    OUT_OF_STEPS = (
        "Stopped after {steps} steps, {distance:.2g} standard errors from the optimum.",
        False,
    )
    OUT_OF_PASSES = ("Stopped after {passes} passes over the rows.", False)
    INTERRUPTED = ("Interrupted after {passes} pass{passes:es}: the best so far is kept.", False)
    NOT_FINITE = ("Stopped: the {what} is not finite.", False)
    FROM_MOMENTS_TOO_FAR = (
        "Estimated from moments by {method}, not by maximum likelihood, and the likelihood does "
        "not agree: {distance}. Use it as the start= of MaximumLikelihood.",
        False,
    )
    NO_PROGRESS = (
        "Stopped after {steps} steps: the last {last} raised the log-likelihood by {gain:.2g} in "
        "all, of {promised:.2g} that its slope promises. It bends too sharply there to be climbed, "
        "often because estimates are at the edge of what is possible.",
        False,
    )
    NO_STEP_UP = ("Stopped: no {method} step raises the log-likelihood.", False)
    SADDLE = ("Stopped at a saddle: the information matrix is not positive.", False)
    NO_SOUND_OPTIMUM = ("No sound optimum.", False)
    NO_FINITE_ESTIMATE = (
        "No finite estimate: the information matrix is singular along {term!r} of "
        "{alternative!r}. The likelihood rises forever that way, for example because the "
        "alternative is never chosen where the covariate differs. Leave the term out, or merge "
        "the category with another.",
        False,
    )
    NEVER_CHOSEN = (
        "No estimate to rely on: {alternative!r} was never chosen where {term!r} differs, so "
        "nothing but choices tells its coefficient, and it may have no finite value. Leave the "
        "term out, or merge the category with another.",
        False,
    )
    NOT_DETERMINED = (
        "Not determined: along some direction the likelihood is flat, mainly in {parameters}. "
        "Only together do they fit the data. Fix one of them, or give an equation a covariate "
        "that the others do not have.",
        False,
    )
    AT_BOUNDARY = ("At the boundary: {reason}", False)
    SAME_FOR_ALL = (
        "{rows} rows cannot tell {alternatives} alternatives apart: all have the same "
        "least-squares fit.",
        False,
    )
    STOPPED = ("{sentence}", False)
    """For a solver that did not converge and has a sentence of its own."""

    def plain(self) -> dict[str, Any]:
        """Return the name, which is what files hold."""
        return {"name": self.name}

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Status:
        """Return the member that a file names."""
        return cls[values["name"]]


class _Words(Formatter):
    """Fills in sentences; ``{steps:s}`` is the ending of the plural, empty where there is one."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in ("s", "es"):
            return "" if value == 1 else format_spec
        return str(super().format_field(value, format_spec))


@dataclass(frozen=True)
class Ending:
    """How a solver ended, with what its sentence names.

    Attributes
    ----------
    status : the kind of end.
    details : numbers and names that the sentence of the status has places for.
    notes : further sentences for the reader, such as how many starts reached the optimum.

    Examples
    --------
    >>> from selfselect.solvers import Ending, Status
    >>> ending = Ending(Status.CONVERGED, {"steps": 3, "method": "Newton"})
    >>> ending.converged, str(ending)
    (True, 'Converged in 3 Newton steps.')
    """

    status: Status
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        str(self)  # A detail that is missing shows here, not on a page.

    @property
    def converged(self) -> bool:
        """Whether the estimate is the one that the solver looks for."""
        return self.status.converged

    def noting(self, *notes: str | None) -> Ending:
        """Return the same end with further sentences; those that are None or empty are left out."""
        return replace(self, notes=(*self.notes, *filter(None, notes)))

    def __str__(self) -> str:
        first = _Words().vformat(self.status.sentence, (), self.details)
        return " ".join((first, *self.notes))


# The contract of solvers: a problem and an engine in, a `Solution` out.


Array = NDArray[np.float64]


SAME_OPTIMUM = 0.01
"""Log-likelihoods of converged climbs closer than this, per mean weight of a row, are taken for
one optimum."""


@dataclass(frozen=True)
class TraceEntry:
    """One step of a solver.

    Attributes
    ----------
    rows : rows the step looked at.
    loglik : log-likelihood before the step.
    distance : estimated distance to the optimum, in standard errors.
    step_size : fraction of the full step that was taken.
    """

    rows: int
    loglik: float
    distance: float
    step_size: float


@dataclass(frozen=True)
class StartRecord:
    """Where one start of a search ended.

    Attributes
    ----------
    name : how it started.
    rows : rows it was searched on.
    loglik : log-likelihood of those rows where it ended.
    behind : that, less the best start's: zero for those that reached the same optimum.
    fault : why it was discarded; None where it was not.
    """

    name: str
    rows: int
    loglik: float
    behind: float
    fault: str | None


def record_starts(
    found: Iterable[tuple[str, float, str | None]], *, rows: int, top: float
) -> tuple[StartRecord, ...]:
    """Record where the starts of a search ended.

    Parameters
    ----------
    found : name, log-likelihood, and why it was discarded, of each.
    rows : rows that were searched.
    top : log-likelihood of the best of them.
    """
    return tuple(
        StartRecord(name, rows, loglik, loglik - top, fault) for name, loglik, fault in found
    )


def same_optimum(behind: float, mean_weight: float) -> bool:
    """Say whether a climb that ended that far from the best one reached the same optimum."""
    return behind > -SAME_OPTIMUM * mean_weight


MISSED = 0.05
"""Chance to miss an optimum that is taken for small."""


def starts_at_best(starts: Sequence[StartRecord], mean_weight: float) -> int:
    """Count the starts that reached the best optimum."""
    return sum(one.fault is None and same_optimum(one.behind, mean_weight) for one in starts)


def smallest_share_met(n_starts: int) -> float:
    """Return the share of starts that must lead to an optimum for `n_starts` to miss it rarely."""
    return 1.0 - float(MISSED ** (1.0 / n_starts))


def is_fragile(n_reached: int, n_starts: int) -> bool:
    """Say whether a search from as many other starts may well miss the best optimum."""
    return n_starts > 1 and n_reached < n_starts * smallest_share_met(n_starts)


@dataclass(frozen=True, eq=False)
class Solution:
    """Where a solver ended, as plain data.

    Attributes
    ----------
    free : free parameters in internal units.
    loglik : log-likelihood there.
    information : minus the Hessian there, in the free parameters.
    ending : how the solver ended: a `Status` with what its sentence names.
    trace : its steps.
    n_passes : passes over all rows.
    solver : its name and options.
    starts : where each start of a search ended; empty where there was no search.
    points : points of a simulated or integrated likelihood, where the solver chose them.
    settled : the noise as it was fitted, where the solver held a part of it; None elsewhere.
    noise : Monte-Carlo covariance of `free`; None where nothing was drawn.
    outer : sum of the rows' (or clusters') scores times themselves, where only draws know them.
    loglik_error : Monte-Carlo standard error of `loglik`.
    held : positions of free parameters that are at a boundary and taken as given; the information
        about them is as good as infinite.
    loglik_independent : log-likelihood without correlation of selection and outcomes, where there
        is a selection equation.
    """

    free: Array
    loglik: float
    information: Array
    ending: Ending
    trace: tuple[TraceEntry, ...]
    n_passes: int
    solver: str
    starts: tuple[StartRecord, ...] = ()
    points: int | None = None
    noise: Array | None = None
    outer: Array | None = None
    loglik_error: float = 0.0
    held: tuple[int, ...] = ()
    loglik_independent: float = float("nan")
    settled: FittedNoise | None = None

    @property
    def status(self) -> Status:
        """How the solver ended, as a member of an enumeration."""
        return self.ending.status

    @property
    def converged(self) -> bool:
        """Whether this is the optimum."""
        return self.ending.converged

    @property
    def solver_name(self) -> str:
        """The solver's name without its options."""
        return self.solver.partition("(")[0]


@runtime_checkable
class Solver(Protocol):
    """Anything that solves problems."""

    requires: ClassVar[tuple[type, ...]]
    concave: ClassVar[bool]

    def solve(
        self,
        problem: Problem,
        engine: Engine,
        *,
        rng: Generator,
        start: Array | None = None,
        progress: bool | None = None,
    ) -> Solution:
        """Estimate the parameters, from the free parameters `start` where given."""


def require(solver: Any, problem: Problem) -> None:
    """Raise one error that names what a problem lacks for a solver."""
    known = problem.noise.known_correlation(problem.equations.alternatives)
    if known is not None and HasBounds in solver.requires:
        raise UnsupportedError(
            f"{type(solver).__name__} needs noise that is independent across alternatives: boxes "
            "have no closed form under correlated noise. Use MonteCarloNewton."
        )
    likelihood = problem.likelihood
    closed = likelihood.convex_sets and not likelihood.sampled
    for capability in solver.requires:
        if capability is HasBounds and closed:
            continue
        if not isinstance(problem.ordered_rule, capability):
            raise UnsupportedError(
                f"{type(solver).__name__} cannot solve this problem: it needs a rule with "
                f"{capability.__name__.removeprefix('Has').lower()}, and "
                f"{type(problem.rule).__name__} has none. Give the rule that method."
            )


def require_counts(solver: Any, *names: str) -> None:
    """Raise an error that names an option of a solver which is not a whole number of at least 1."""
    for name in names:
        value = getattr(solver, name)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise OptionError(
                f"{type(solver).__name__}({name}={value!r}) must be a whole number of at least "
                "1. Leave it out for the default."
            )
