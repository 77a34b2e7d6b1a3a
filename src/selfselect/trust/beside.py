"""Models of the same rows beside each other: fitted, recognised, asked, and put into one table.

What compares models is a list of them and a question. A model is a function that fits it, and so
what cannot be fitted is an entry of the table with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pandas as pd

from selfselect.errors import ConvergenceWarning, SelfSelectError, without_warnings
from selfselect.plain import archived
from selfselect.progress import progress_bar
from selfselect.results.rejections import assumptions_tested

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

CLOSE = 10.0
"""Difference of BIC up to which a model is taken for a rival of the best one."""

SAME = 1e-6
"""Difference of the log-likelihood below which two fits are the same; optima are found closer."""


class Comparable(Protocol):
    """What models are compared by: a fit, a solved problem without errors, least squares."""

    @property
    def llf(self) -> float:
        """The log-likelihood."""

    @property
    def n_parameters(self) -> int:
        """How many parameters were estimated."""

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""

    @property
    def converged(self) -> bool:
        """Whether it ended at an optimum."""


Name = TypeVar("Name")
Model = TypeVar("Model", bound=Comparable)


@archived("answer")
@dataclass(frozen=True)
class Answer:
    """An estimate with its interval; nan where there is none, and why."""

    estimate: float = float("nan")
    std_error: float = float("nan")
    conf_low: float = float("nan")
    conf_high: float = float("nan")
    note: str = ""


def answer(ask: Callable[[], Answer]) -> Answer:
    """Return an answer, or why there is none."""
    try:
        return ask()
    except SelfSelectError as error:
        return Answer(note=str(error))


@dataclass(frozen=True, eq=False)
class Compared(Generic[Name, Model]):
    """A model beside others.

    Attributes
    ----------
    name : its name.
    model : what was fitted; None where that is impossible.
    answers : what it says, by question.
    same_as : the name of the model before it as which it came out.
    why_not : why it was not fitted.
    """

    name: Name
    model: Model | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    same_as: Name | None = None
    why_not: str = ""

    @property
    def distinct(self) -> bool:
        """Whether it converged, to what no model before it is."""
        return self.model is not None and self.model.converged and self.same_as is None

    @property
    def note(self) -> str:
        """Why there is no fit, or no answer to the last question that has none."""
        noted = [f"{name}: {one.note}" for name, one in self.answers.items() if one.note]
        return self.why_not or (noted[-1] if noted else "")

    @property
    def criteria(self) -> dict[str, Any]:
        """What every model is compared by."""
        model = self.model
        if model is None:
            return {"converged": False}
        return {
            "loglik": model.llf,
            "n_parameters": model.n_parameters,
            "aic": 2.0 * model.n_parameters - 2.0 * model.llf,
            "bic": model.bic,
            "converged": model.converged,
        }


def no_question(model: Comparable) -> Mapping[str, Answer]:
    """Ask nothing: the models' criteria are the comparison."""
    del model
    return {}


def beside(
    models: Mapping[Name, Callable[[], Model]],
    question: Callable[[Model], Mapping[str, Answer]] = no_question,
    *,
    what: str = "Models",
    needed: Collection[Name] = (),
    check: Callable[[Model], None] | None = None,
    apart: bool = False,
    progress: bool | None = False,
) -> list[Compared[Name, Model]]:
    """Fit models of the same rows one after the other, and ask each of them the same.

    A model that came out as one before it, such as noise that the data do not show, is not asked
    again: its answers are those.

    Parameters
    ----------
    models : by name, functions that fit them. What such a function raises says why there is no fit.
    question : returns what a model says, by what is asked.
    what : the models, on the progress bar.
    needed : models without which there is no comparison: what keeps them from being fitted is
        raised.
    check : refuses, of the first model, a question that no model could answer.
    apart : whether models differ whatever their likelihood, as at fixed values of a parameter.
    progress : whether to show progress.
    """
    compared: list[Compared[Name, Model]] = []
    with progress_bar(progress, what=what, total=len(models)) as bar:
        for name, make in models.items():
            bar.set_postfix_str(str(name))
            try:
                # The table says which fits did not converge.
                with without_warnings(ConvergenceWarning):
                    model = make()
            except SelfSelectError as error:
                if name in needed:
                    raise
                compared.append(Compared(name, why_not=str(error)))
            else:
                if check is not None and all(one.model is None for one in compared):
                    check(model)
                same = None if apart else same_fit(model, compared)
                answers = question(model) if same is None else same.answers
                same_as = None if same is None else same.name
                compared.append(Compared(name, model, answers, same_as))
            bar.update()
    return compared


def same_fit(
    model: Model, compared: Iterable[Compared[Name, Model]]
) -> Compared[Name, Model] | None:
    """Return the model as which another came out; None where it is new."""
    for one in compared:
        other = one.model
        alike = (
            other is not None
            and other.n_parameters == model.n_parameters
            and other.converged == model.converged
        )
        if alike and other is not None and abs(other.llf - model.llf) < SAME:
            return one
    return None


def tabulate(compared: Iterable[Compared[Name, Any]], index: str) -> pd.DataFrame:
    """Return a table of models: what they are compared by, and their estimates."""
    rows = [
        {index: one.name, **one.criteria}
        | {name: said.estimate for name, said in one.answers.items()}
        for one in compared
    ]
    return pd.DataFrame(rows).set_index(index)


def std_errors(compared: Iterable[Compared[Name, Any]], index: str) -> pd.DataFrame:
    """Return the standard errors of the answers, laid out alike."""
    rows = [
        {index: one.name} | {name: said.std_error for name, said in one.answers.items()}
        for one in compared
    ]
    return pd.DataFrame(rows).set_index(index)


def fitted(compared: Iterable[Compared[Name, Model]]) -> dict[Name, Model]:
    """Return the models that could be fitted, by name."""
    return {one.name: one.model for one in compared if one.model is not None}


def tested(fit: FitResult) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which assumptions the tests of a fit reject, and which were not tested."""
    tests = assumptions_tested(fit)
    return (
        tuple(what for what, test in tests.items() if test.rejects()),
        tuple(what for what, test in tests.items() if not test.possible),
    )
