"""The distribution of gains: how many would gain, how many would lose, and how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.effects._moments import Setting, refuse_selection
from selfselect.effects._scenario import DrawnOutcomes, draw, n_repeats, simulate
from selfselect.effects.base import (
    EffectTable,
    check_covariates_word,
    doubts,
    effect_table,
    how_averaged,
    refuse_undetermined,
)
from selfselect.effects.potential_outcomes import EVERYONE
from selfselect.effects.treatment_effects import two_alternatives
from selfselect.errors import OptionError
from selfselect.options import Covariates
from selfselect.results.averaged_rows import sample_of
from selfselect.results.tables import Tables
from selfselect.seeds import generator

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult


Array = NDArray[np.float64]

SHOWN = 20_000
"""Draws kept for pictures."""

WINDOW = 0.05
"""Half width, in standard deviations, of the window in which the density is estimated."""


@dataclass(frozen=True, eq=False, repr=False)
class Gains(Tables):
    """The distribution of gains.

    Attributes
    ----------
    effect : mean, standard deviation, share above zero and quantiles by group.
    draws : simulated gains, with the chosen alternative of each, for pictures.
    """

    effect: EffectTable
    draws: pd.DataFrame

    @property
    def table(self) -> pd.DataFrame:
        """The tidy table of `effect`."""
        return self.effect.table

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know first."""
        return self.effect.warnings

    def __str__(self) -> str:
        return str(self.effect)

    def _repr_html_(self) -> str:
        return self.effect._repr_html_()


def gains(
    fit: FitResult,
    to: Any,
    versus: Any,
    data: Any = None,
    *,
    quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
    level: float = 0.95,
    covariates: Covariates = "sampled",
    draws: int | None = None,
    seed: int = 0,
) -> Gains:
    r"""Return the distribution of the gain :math:`y_{to} - y_{versus}`.

    The gain is that of the outcomes themselves, noise included, among everyone and among those who
    choose each of the two alternatives. The distribution is simulated, with the simulation error in
    ``mc_error``. Its spread depends on the assumption that noise is independent across
    alternatives.

    Parameters
    ----------
    fit : a fitted model.
    to, versus : labels of two alternatives.
    quantiles : between 0 and 1.
    draws : how many; None for 200,000.
    seed : of the draws.
    data, level, covariates : see `selfselect.effects`.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(300, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> gains = result.gains("hunting", "fishing", draws=3_000)
    >>> gains.table["group"].unique().tolist()
    ['everyone', 'hunting chosen', 'fishing chosen']
    """
    refuse_undetermined(fit, "A distribution of gains")
    refuse_selection(fit.problem, "The distribution of gains depends")
    a, b = two_alternatives(fit, to, versus)
    check_covariates_word(covariates)
    wanted = np.atleast_1d(np.asarray(quantiles, dtype=float))
    if wanted.size == 0 or not ((wanted > 0) & (wanted < 1)).all():
        raise OptionError(f"quantiles={quantiles!r} must lie between 0 and 1.")
    sample = sample_of(fit, data, needed=(a, b))
    setting = Setting(sample.rows, fit.problem.ordered_rule)

    found = simulate(
        fit,
        [setting],
        _Distribution(a, b, wanted),
        own=sample.own,
        covariates=covariates,
        draws=draws,
        seed=seed,
    )
    quantities = ["mean", "std", "share above zero", *(f"quantile {q:g}" for q in wanted)]
    groups = [EVERYONE, f"{to} chosen", f"{versus} chosen"]
    effect = effect_table(
        f"Distribution of the gain of {to} over {versus} in {fit.problem.equations.outcome}",
        {
            "group": [group for group in groups for _ in quantities],
            "quantity": quantities * len(groups),
        },
        found.found,
        level=level,
        df=fit.covariance.df,
        warnings=(*doubts(fit), *sample.warnings),
        notes=(
            how_averaged(
                fit, len(sample.rows), covariates, own=sample.own, left_out=sample.left_out
            ),
            f"By simulation with {n_repeats(draws, len(sample.rows)) * len(sample.rows)} draws, "
            f"seed {seed}; MC err is the error due to it. Outcomes are assumed independent across "
            "alternatives given the covariates: the data do not identify the spread of gains.",
        ),
        share=[quantity == "share above zero" for _ in groups for quantity in quantities],
        mc_error=np.sqrt(np.diag(found.mc)),
    )
    return Gains(effect, _sample_of_draws(fit, setting, a, b, seed))


@dataclass(frozen=True, eq=False)
class _Distribution:
    """Mean, standard deviation, share above zero and quantiles in three groups of draws."""

    a: int
    b: int
    quantiles: Array

    def value(self, drawn: Sequence[DrawnOutcomes], weights: Array) -> Array:
        gain, groups = self._gain(drawn), self._groups(drawn)
        order = np.argsort(gain)
        return np.concatenate([self._describe(gain, weights * own, order) for own in groups])

    def linearise(
        self, drawn: Sequence[DrawnOutcomes], weights: Array
    ) -> Callable[[Sequence[DrawnOutcomes]], Array]:
        gain, groups = self._gain(drawn), self._groups(drawn)
        described = np.split(self.value(drawn, weights), len(groups))
        shares = [weights @ own / weights.sum() for own in groups]
        density = [
            self._density(gain, weights * own, found[3:], WINDOW * found[1])
            for own, found in zip(groups, described, strict=True)
        ]

        def influence(some: Sequence[DrawnOutcomes]) -> Array:
            here, columns = self._gain(some), []
            for own, found, share, at in zip(
                self._groups(some), described, shares, density, strict=True
            ):
                mean, spread, above = found[:3]
                part = own / share
                columns += [
                    part * (here - mean),
                    part * ((here - mean) ** 2 - spread**2) / (2.0 * spread),
                    part * ((here > 0) - above),
                ]
                columns += [
                    part * (q - (here <= place)) / height
                    for q, place, height in zip(self.quantiles, found[3:], at, strict=True)
                ]
            return np.column_stack(columns)

        return influence

    def _gain(self, drawn: Sequence[DrawnOutcomes]) -> Array:
        gain: Array = drawn[0].latent[:, self.a] - drawn[0].latent[:, self.b]
        return gain

    def _groups(self, drawn: Sequence[DrawnOutcomes]) -> list[Array]:
        chosen = drawn[0].chosen
        return [np.ones(len(chosen)), 1.0 * (chosen == self.a), 1.0 * (chosen == self.b)]

    def _describe(self, gain: Array, weights: Array, order: NDArray[np.intp]) -> Array:
        total = weights.sum()
        mean = weights @ gain / total
        spread = np.sqrt(weights @ (gain - mean) ** 2 / total)
        running = np.cumsum(weights[order])
        place = np.searchsorted(running, self.quantiles * running[-1])
        found = gain[order[np.minimum(place, len(gain) - 1)]]
        return np.concatenate([[mean, spread, weights @ (gain > 0) / total], found])

    @staticmethod
    def _density(gain: Array, weights: Array, places: Array, width: float) -> list[float]:
        """Estimate the density at some places by the share of draws near each."""
        total = 2.0 * width * weights.sum()
        near = [float(weights @ (np.abs(gain - place) <= width)) for place in places]
        return [max(one, np.finfo(float).tiny) / total for one in near]


def _sample_of_draws(fit: FitResult, setting: Setting, a: int, b: int, seed: int) -> pd.DataFrame:
    """Return some thousands of gains, rows drawn in proportion to their weights."""
    rows = setting.rows
    chance = None if rows.weights is None else rows.weights / rows.weights.sum()
    rng = generator(seed, 2)
    which = rng.choice(len(rows), size=SHOWN, p=chance)
    drawn = draw(fit, Setting(rows.take(which), setting.rule), fit.values, 1, seed)
    labels = np.array(fit.problem.equations.alternatives, dtype=object)
    return pd.DataFrame(
        {"gain": drawn.latent[:, a] - drawn.latent[:, b], "seen": labels[drawn.chosen]}
    )
