"""Predictions as methods of a fit: of outcomes, choices and types, and draws of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from selfselect.results._methods import FitMethods
from selfselect.results.memberships import responsibilities
from selfselect.results.predictions import predict
from selfselect.results.types import unobserved_types

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from selfselect.options import PredictionKind, Scale
    from selfselect.results.types import UnobservedTypes

__all__ = ["PredictionMethods"]


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
        from selfselect.results.simulate import simulate

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
