"""Effects as methods of a fit: each calls the function of `selfselect.effects` of its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from selfselect.results._methods import FitMethods

if TYPE_CHECKING:
    from selfselect.effects.base import EffectTable
    from selfselect.effects.counterfactual import Counterfactual
    from selfselect.effects.gains import Gains
    from selfselect.effects.mte import MarginalTreatment
    from selfselect.effects.policy import Policy
    from selfselect.options import Covariates, Scale

__all__ = ["EffectMethods"]


class EffectMethods(FitMethods):
    """What a fit can be asked about outcomes, choices and changes; options are those there."""

    def potential_outcomes(
        self,
        data: Any = None,
        *,
        at: Any = None,
        level: float = 0.95,
        covariates: Covariates = "sampled",
        scale: Scale = "model",
        types: str = "visiting",
    ) -> EffectTable:
        """Return the mean of every outcome by group; see `effects.potential_outcomes`."""
        from selfselect.effects import potential_outcomes

        return potential_outcomes(
            self._fit,
            data,
            at=at,
            level=level,
            covariates=covariates,
            scale=scale,
            types=types,
        )

    def choice_probabilities(
        self,
        data: Any = None,
        *,
        at: Any = None,
        level: float = 0.95,
        covariates: Covariates = "sampled",
    ) -> EffectTable:
        """Return the chance of each alternative; see `effects.choice_probabilities`."""
        from selfselect.effects import choice_probabilities

        return choice_probabilities(self._fit, data, at=at, level=level, covariates=covariates)

    def marginal_effects(
        self,
        columns: str | Sequence[str] | None = None,
        data: Any = None,
        *,
        at: Any = "average",
        of: Literal["chance", "outcome"] = "chance",
        level: float = 0.95,
        covariates: Covariates = "sampled",
        scale: Scale = "model",
    ) -> EffectTable:
        """Return how chances move with each covariate; see `effects.marginal_effects`."""
        from selfselect.effects import marginal_effects

        return marginal_effects(
            self._fit, columns, data, at=at, of=of, level=level, covariates=covariates, scale=scale
        )

    def treatment_effects(
        self,
        to: Any,
        versus: Any,
        data: Any = None,
        *,
        at: Any = None,
        level: float = 0.95,
        covariates: Covariates = "sampled",
        scale: Scale = "model",
        types: str = "visiting",
    ) -> EffectTable:
        """Return ATE, ATT and ATU of `to` instead of `versus`; see `effects.treatment_effects`."""
        from selfselect.effects import treatment_effects

        return treatment_effects(
            self._fit,
            to,
            versus,
            data,
            at=at,
            level=level,
            covariates=covariates,
            scale=scale,
            types=types,
        )

    def mte(
        self,
        data: Any = None,
        *,
        kind: Literal["normal", "polynomial"] = "normal",
        degree: int = 3,
        level: float = 0.95,
        covariates: Covariates = "sampled",
        replications: int = 200,
        seed: int = 0,
        progress: bool | None = None,
    ) -> MarginalTreatment:
        """Return marginal treatment effects of a switching regression; see `effects.mte`."""
        from selfselect.effects import mte

        return mte(
            self._fit, data, kind=kind, degree=degree, level=level, covariates=covariates,
            replications=replications, seed=seed, progress=progress,
        )  # fmt: skip

    def heterogeneity(
        self,
        to: Any,
        versus: Any,
        data: Any = None,
        *,
        at: Any = None,
        level: float = 0.95,
        covariates: Covariates = "sampled",
        scale: Scale = "model",
    ) -> EffectTable:
        """Compare those who choose `to` with the others; see `effects.heterogeneity`."""
        from selfselect.effects import heterogeneity

        return heterogeneity(
            self._fit, to, versus, data, at=at, level=level, covariates=covariates, scale=scale
        )

    def decompose(
        self,
        to: Any,
        versus: Any,
        *,
        reference: Any = "both",
        level: float = 0.95,
        covariates: Covariates = "sampled",
    ) -> EffectTable:
        """Decompose the gap between two alternatives' outcomes; see `effects.decompose`."""
        from selfselect.effects import decompose

        return decompose(
            self._fit, to, versus, reference=reference, level=level, covariates=covariates
        )

    def sorting(
        self, data: Any = None, *, level: float = 0.95, covariates: Covariates = "sampled"
    ) -> EffectTable:
        """Compare those who chose each alternative with everyone; see `effects.sorting`."""
        from selfselect.effects import sorting

        return sorting(self._fit, data, level=level, covariates=covariates)

    def gains(
        self,
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
        """Return the distribution of the gains of `to` over `versus`; see `effects.gains`."""
        from selfselect.effects import gains

        return gains(
            self._fit, to, versus, data, quantiles=quantiles, level=level, covariates=covariates,
            draws=draws, seed=seed,
        )  # fmt: skip

    def counterfactual(
        self,
        *,
        data: Any = None,
        rule: Any = None,
        close: Any = (),
        open: Any = (),
        subsidy: Mapping[Any, float] | None = None,
        quota: Mapping[Any, float] | None = None,
        rationing: Literal["price", "lottery"] = "price",
        base: Any = None,
        level: float = 0.95,
        covariates: Covariates = "sampled",
        scale: Scale = "model",
        draws: int | None = None,
        seed: int = 0,
    ) -> Counterfactual:
        """Change the rule, the choice set, costs or covariates; see `effects.counterfactual`."""
        from selfselect.effects import counterfactual

        return counterfactual(
            self._fit, data=data, rule=rule, close=close, open=open, subsidy=subsidy, quota=quota,
            rationing=rationing, base=base, level=level, covariates=covariates, scale=scale,
            draws=draws, seed=seed,
        )  # fmt: skip

    def policy(
        self,
        data: Any = None,
        *,
        goal: str | None = None,
        level: float = 0.95,
        covariates: Covariates = "sampled",
    ) -> Policy:
        """Recommend the best alternative to every row; see `effects.policy`."""
        from selfselect.effects import policy

        return policy(self._fit, data, goal=goal, level=level, covariates=covariates)
