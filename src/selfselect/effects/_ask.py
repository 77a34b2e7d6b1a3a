"""How effects are asked: of rows or profiles, and over which unobserved types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from selfselect.effects._averages import (
    Averages,
    average,
    average_of_fit,
    check_covariates_word,
    transform,
)
from selfselect.effects._moments import AverageCells, Setting, cells
from selfselect.effects._sample import code_rows, make_profiles, sample_of
from selfselect.effects.base import (
    NUMBERS,
    TOO_LARGE,
    doubts,
    how_averaged,
    key_name,
    only_estimation,
)
from selfselect.errors import OptionError, UnsupportedError
from selfselect.results.predictions import asked_logarithm

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


# Over which unobserved types effects are averaged, where some never choose an alternative.


WORDS = ("visiting", "all")


def check_types_word(types: Any) -> None:
    """Refuse a word that says nothing of types."""
    if types not in WORDS:
        raise OptionError(f"types={types!r} is not possible. Use 'visiting' or 'all'.")


def visiting(
    fit: FitResult, alternatives: Sequence[int], types: str
) -> tuple[FitResult, tuple[str, ...]]:
    """Return the fit with its effects averaged over types that choose the alternatives.

    Where every shift is determined, nothing changes. `types` is ``"visiting"`` or ``"all"``.
    """
    check_types_word(types)
    problem = fit.problem
    noise: Any = problem.noise
    labels = [problem.equations.alternatives[j] for j in alternatives]
    lost = {m for m, label, _ in getattr(noise, "held_shifts", ()) if label in labels}
    if not lost:
        return fit, ()
    named = " and ".join(map(repr, labels))
    which = ", ".join(f"type {m + 1}" for m in sorted(lost))
    which += " hardly ever chooses" if len(lost) == 1 else " hardly ever choose"
    if types == "all":
        said = (
            f"UNDETERMINED: {which} one of {named}, so the data do not identify their outcomes "
            "there. These numbers use shifts that were held fixed, and their errors ignore this."
        )
        everyone = tuple(range(noise.count))
        return _averaged(fit, everyone), (said,)
    kept = tuple(m for m in range(noise.count) if m not in lost)
    if not kept:
        raise UnsupportedError(
            f"No type chooses all of {named} often enough, so the data identify no gains. "
            "types='all' gives numbers that use shifts held fixed."
        )
    share = sum(noise.values(_extras(fit), problem.equations.alternatives).weights[list(kept)])
    said = (
        f"Over types that choose {named}, {100 * share:.0f}% of people: {which} one of them, so "
        "the data do not identify their outcomes there. types='all' averages over everybody."
    )
    return _averaged(fit, kept), (said,)


def refuse_undetermined(fit: FitResult, what: str, *, choices: bool = False) -> None:
    """Refuse what needs outcomes of types in alternatives that they hardly ever choose.

    `choices` says whether it also needs what they would choose if things were different.
    """
    noise: Any = fit.problem.noise
    held = noise.undetermined()
    if held is not None and (noise.held_shifts or choices):
        raise UnsupportedError(
            f"{what} needs the outcomes and choices of everybody in every alternative. {held} Use "
            "treatment_effects or potential_outcomes, which average over types that choose both."
        )


def _averaged(fit: FitResult, types: tuple[int, ...]) -> FitResult:
    noise: Any = fit.problem.noise
    return replace(fit, problem=replace(fit.problem, noise=replace(noise, averaged=types)))


def _extras(fit: FitResult) -> Any:
    layout = fit.problem.layout
    return layout.extras_of(fit.values)[: layout.n_noise_extras]


# Asking the model: a function of the cells, averaged over rows or at profiles.


@dataclass(frozen=True, eq=False)
class EffectAnswer:
    """What was found.

    Attributes
    ----------
    found : estimates; those of the first profile first, where there are profiles.
    points : the profiles' values, one row each; one row without columns for an average.
    warnings, notes : for the table.
    """

    found: Averages
    points: pd.DataFrame
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def keys(self, **own: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the key columns: the profiles' values, then the effect's own for each."""
        size = len(next(iter(own.values())))
        taken = {*own, *NUMBERS}
        repeated = {
            key_name(str(name), taken): list(np.repeat(self.points[name], size))
            for name in self.points
        }
        return repeated | {name: list(values) * len(self.points) for name, values in own.items()}


def ask(
    fit: FitResult,
    function: Callable[[AverageCells], Any],
    *,
    data: Any = None,
    at: Any = None,
    covariates: str = "sampled",
    scale: str = "model",
    needed: Sequence[int] = (),
) -> EffectAnswer:
    """Evaluate a smooth function of the cells.

    Parameters
    ----------
    fit : estimates.
    function : from averaged cells to a vector; sums, products and quotients only.
    data : rows to average over; None for those of the fit.
    at : None to average; else what `make_profiles` takes.
    covariates : ``"sampled"`` or ``"fixed"``.
    scale : ``"model"``, or ``"level"`` where a logarithm was modelled.
    needed : the alternatives whose covariates rows must have, whatever is open to them.
    """
    check_covariates_word(covariates)
    logarithm = asked_logarithm(fit, scale)
    k, rule = fit.problem.equations.n_alternatives, fit.problem.ordered_rule

    def of_vector(vector: Any) -> Any:
        return function(cells(vector, k))

    if at is None:
        sample = sample_of(fit, data, needed=needed)
        if sample.own and sample.left_out is None:
            found = average_of_fit(fit, covariates=covariates, logarithm=logarithm)
        else:
            settings = [Setting(sample.rows, rule, logarithm)]
            found = average(fit, settings, own=sample.own, covariates=covariates)
        note = how_averaged(
            fit, len(sample.rows), covariates, own=sample.own, left_out=sample.left_out
        )
        return EffectAnswer(
            transform(found, of_vector),
            pd.DataFrame(index=range(1)),
            (*doubts(fit, levels=logarithm is not None), *sample.warnings),
            (note,),
        )
    profiles = make_profiles(fit, at, data)
    rows = code_rows(fit, profiles.table)
    # Values far outside of the data may have levels that overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        averages = [
            average(
                fit,
                [Setting(rows.take(slice(i, i + 1)), rule, logarithm)],
                own=False,
                covariates="fixed",
            )
            for i in range(len(rows))
        ]
    each = [transform(one, of_vector) for one in averages]
    overflows = logarithm is not None and not all(
        np.isfinite(cells(one.mean, k).mean).all() for one in averages
    )
    jacobian = np.vstack([one.jacobian for one in each])
    found = Averages(
        np.concatenate([one.mean for one in each]),
        jacobian @ fit.covariance.matrix @ jacobian.T,
        jacobian,
    )
    warnings = (*doubts(fit, levels=logarithm is not None), *profiles.warnings)
    notes = (profiles.sentence, only_estimation(fit), *((TOO_LARGE,) if overflows else ()))
    return EffectAnswer(found, profiles.points, warnings, notes)
