"""How a solver ended: a status that carries its sentence, and what the sentence names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from string import Formatter
from typing import Any

__all__ = ["Ending", "Status"]


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
