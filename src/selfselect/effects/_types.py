"""Over which unobserved types effects are averaged, where some never choose an alternative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from selfselect.errors import OptionError, UnsupportedError

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["check_types_word", "refuse_undetermined", "visiting"]

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
