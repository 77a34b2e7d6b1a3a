"""Methods of a fit that predict and that compute effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from selfselect.results.memberships import responsibilities, unobserved_types
from selfselect.results.predictions import predict

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from selfselect.effects.base import EffectTable
    from selfselect.effects.counterfactual import Counterfactual
    from selfselect.effects.gains import Gains
    from selfselect.effects.mte import MarginalTreatment
    from selfselect.effects.policy import Policy
    from selfselect.options import Covariates, PredictionKind, Scale
    from selfselect.results.fit_result import FitResult
    from selfselect.results.memberships import UnobservedTypes


# What methods of a fit that stand in files of their own share: the fit they belong to.


class FitMethods:
    """Methods of a fit by subject; only `FitResult` derives from them."""

    @property
    def _fit(self) -> FitResult:
        """The fit, as what it is."""
        return cast("FitResult", self)


# Predictions as methods of a fit: of outcomes, choices and types, and draws of them.


class PredictionMethods(FitMethods):
    """What a fit says of single rows, its own or new ones."""

    def predict(
        self,
        data: Any = None,
        kind: PredictionKind = "latent",
        scale: Scale = "model",
        *,
        level: float | None = None,
        progress: bool | None = None,
    ) -> pd.DataFrame | pd.Series[Any]:
        """Predict for new rows, or for those of the fit where `data` is None.

        Parameters
        ----------
        data : any table with the covariates (and cost and availability columns, if any).
        kind : ``latent``, the mean of every outcome; ``chance``, the probability that each
            alternative is chosen; ``outcome``, the mean of the observed outcome;
            ``given_seen``, the mean of every outcome where each alternative is chosen;
            ``scale``, the scale of every alternative's noise, its own in every row where scales
            move with covariates. Sample
            selection has one outcome: ``outcome`` is its mean where it is selected, and
            ``given_seen`` its means where it is and where it is not.
        scale : ``model``, as the formula's left side has it; ``level``, where that is a logarithm,
            means of what it is the logarithm of; the noise must be normal or a mixture of
            normals.
        level : None for predictions alone; 0.95 for a table with ``estimate``, ``std_error``,
            ``conf_low`` and ``conf_high`` of each. Intervals are of these means and chances, by
            the errors of the estimates (delta method), not of single outcomes. Those of chances
            are made on the logit scale, those of levels and noise scales on the log scale.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> made = result.predict(kind="chance", level=0.95)
        >>> made["hunting"].columns.tolist()
        ['estimate', 'std_error', 'conf_low', 'conf_high']
        """
        return predict(self._fit, data, kind, scale, level, progress)

    def simulate(self, data: Any = None, *, seed: int | None = None) -> pd.DataFrame:
        """Draw outcomes and choices from the fitted model: a table that can be fitted again.

        Parameters
        ----------
        data : a table with the covariates (and cost and availability columns, if any); None for
            the rows of the fit, of which as many outcomes go unrecorded as did.
        seed : of the draws.

        Returns
        -------
        pandas.DataFrame
            The outcome, in its own column, and the chosen alternative where choices were recorded;
            at the rows of the fit, the other columns that it used as well.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(500, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> drawn = result.simulate(seed=1)
        >>> sorted(drawn)
        ['height', 'income', 'job', 'weight']
        >>> again = ss.fit("income ~ height + weight", drawn, chosen="job")
        """
        from selfselect.results.predictions import simulate

        return simulate(self._fit, data, seed)

    def responsibilities(self, data: Any = None) -> pd.DataFrame:
        """Return, per row, the probability that each alternative was the chosen one.

        Parameters
        ----------
        data : a table with covariates and outcome; None for the rows of the fit.
        """
        return responsibilities(self._fit, data)

    def types(self) -> UnobservedTypes:
        """Describe the unobserved types of a fit with `noises.Types`, and who has which."""
        return unobserved_types(self._fit)

    def write_predictions(
        self,
        out: str | Path,
        data: Any = None,
        kind: PredictionKind = "latent",
        scale: Scale = "model",
        *,
        level: float | None = None,
        keep: Sequence[str] = (),
        overwrite: bool = False,
        progress: bool | None = None,
    ) -> list[Path]:
        """Predict for files that may be larger than memory, and write Parquet files into a folder.

        Each file that is read gives one file of the same name, with its rows in their order. The
        files appear when all are written; after an error or an interrupt none is left.

        Parameters
        ----------
        out : the folder.
        data : files as in `selfselect.fit`: a path, a pattern, a list of them, an Arrow dataset;
            None for those of the fit, where it was made of files.
        kind, scale, level : as in `predict`.
        keep : columns that are copied from the files that are read, such as an id.
        overwrite : whether files of the same name may be replaced; else the folder must be empty.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.

        Returns
        -------
        list of Path
            The files that were written.
        """
        from selfselect.results.streaming import write_predictions

        return write_predictions(
            self._fit, data, out, kind=kind, scale=scale, level=level, keep=keep,
            overwrite=overwrite, progress=progress,
        )  # fmt: skip

    def write_responsibilities(
        self,
        out: str | Path,
        data: Any = None,
        *,
        keep: Sequence[str] = (),
        overwrite: bool = False,
        progress: bool | None = None,
    ) -> list[Path]:
        """Write the probabilities of `responsibilities` for files that may be larger than memory.

        Parameters are those of `write_predictions`.
        """
        from selfselect.results.streaming import write_responsibilities

        return write_responsibilities(
            self._fit, data, out, keep=keep, overwrite=overwrite, progress=progress
        )


# Effects as methods of a fit: each calls the function of `selfselect.effects` of its name.


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
        replications: int = 499,
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
