"""Estimates and their errors under the names of statsmodels, the same for every kind of result."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.inference.covariance import Covariance
from selfselect.problem.parameters import flat_names
from selfselect.results.maketables import MaketablesHooks, hide_from_maketables
from selfselect.results.tables import labelled_matrix, labelled_series

__all__ = ["Estimates"]

Array = NDArray[np.float64]


class Estimates(MaketablesHooks):
    """What follows from labelled estimates and their covariance."""

    reported: Any
    covariance: Covariance

    @abstractmethod
    def tidy(self, level: float = 0.95) -> pd.DataFrame:
        """One row per parameter: estimate, standard error, statistic, p-value, interval."""

    @property
    def values(self) -> Array:
        """The estimates as a plain array, in the order of `params`."""
        return self.reported.values

    @property
    def names(self) -> list[str]:
        """The parameters' names, ``alternative:term``, as hypotheses use them."""
        return flat_names(self.reported.labels)

    @property
    def params(self) -> pd.Series[float]:
        """Coefficients and other parameters, labelled by alternative and term."""
        hide_from_maketables("params")
        return labelled_series(self.values, self.reported.labels, "estimate")

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors."""
        return self._column("std_error")

    @property
    def tvalues(self) -> pd.Series[float]:
        """Estimate over standard error; missing for scales, for which zero is no hypothesis."""
        return self._column("statistic")

    @property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided normal tail probabilities; missing for scales."""
        return self._column("p_value")

    def _column(self, name: str) -> pd.Series[float]:
        return labelled_series(self.tidy()[name].to_numpy(), self.reported.labels, name)

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Confidence intervals; of scales on the log scale, of correlations on Fisher's."""
        return self.tidy(level)[["conf_low", "conf_high"]].set_axis(self.params.index)

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the estimates, labelled by alternative and term."""
        return labelled_matrix(self.covariance.matrix, self.reported.labels)
