"""Estimates and their errors under the names of statsmodels, for every kind of result."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.tables import nearest
from selfselect.errors import OptionError, UnsupportedError
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import TestResult, check_level
from selfselect.options import Intervals
from selfselect.problem.parameters import flat_names
from selfselect.results.hypotheses import wald_test
from selfselect.results.late import LateModule
from selfselect.results.tables import coefficient_table, labelled_matrix, labelled_series

if TYPE_CHECKING:
    import selfselect.effects.lincom as lincom_module
    from selfselect.inference.profile import Interval, Surface
    from selfselect.report import page_parts as pages
    from selfselect.report.page import Page
else:
    pages = LateModule("selfselect.report.page_parts")
    lincom_module = LateModule("selfselect.effects.lincom")


# Hooks by which the `maketables` package prints our fits beside others', without either import.


if TYPE_CHECKING:
    hidden_property = property
else:

    class hidden_property(property):  # noqa: N801  # used as `property` is
        """A property that maketables does not find.

        maketables (0.2) looks at its plug-in hooks last: whatever has `params`, `bse` and `pvalues`
        it takes for a result of statsmodels, whose labels are one word each, and fails on labels of
        alternative and term. Results have those names for their users' sake, so one of them is
        hidden from maketables, which then finds the hooks.
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if sys._getframe(1).f_globals.get("__name__") == "maketables.extractors":
                raise AttributeError("params")
            return super().__get__(instance, owner)


class MaketablesHooks:
    """The plug-in protocol of maketables, answered from the fit's own tables."""

    @property
    def __maketables_coef_table__(self) -> pd.DataFrame:
        fit: Any = self
        table = fit.tidy()
        named = pd.DataFrame(
            {
                "b": table["estimate"].to_numpy(),
                "se": table["std_error"].to_numpy(),
                "t": table["statistic"].to_numpy(),
                "p": table["p_value"].to_numpy(),
                "ci95l": table["conf_low"].to_numpy(),
                "ci95u": table["conf_high"].to_numpy(),
            },
            index=pd.Index(fit.names, name="Coefficient"),
        )
        return named

    def __maketables_stat__(self, key: str) -> Any:
        fit: Any = self
        known = {
            "N": fit.nobs,
            "ll": fit.llf,
            "aic": fit.aic,
            "bic": fit.bic,
            "se_type": fit.covariance.description,
        }
        return known.get(key)

    @property
    def __maketables_depvar__(self) -> str:
        fit: Any = self
        return str(fit.problem.equations.outcome)

    @property
    def __maketables_vcov_info__(self) -> dict[str, Any]:
        fit: Any = self
        return {"vcov_type": fit.covariance.kind, "clustervar": fit.facts.cluster}

    @property
    def __maketables_fixef_string__(self) -> None:
        return None

    @property
    def __maketables_stat_labels__(self) -> dict[str, str]:
        return {"ll": "Log-likelihood", "aic": "AIC", "bic": "BIC"}

    @property
    def __maketables_default_stat_keys__(self) -> list[str]:
        return ["N", "ll", "aic", "bic"]


# Estimates and their errors under the names of statsmodels, the same for every kind of result.


Array = NDArray[np.float64]

METHODS = ("wald", "profile")

LEVEL = 0.95
"""The confidence level where none is given."""

AWAY = 2.0
"""Standard errors from an estimate at which the likelihood is compared with a quadratic one."""


def check_intervals(method: Any) -> str:
    """Return how intervals are made, or say which ways there are."""
    if method not in METHODS:
        raise OptionError(f"There are no intervals {method!r}. Use one of {', '.join(METHODS)}.")
    return str(method)


def level_of(level: float, alpha: float | None) -> float:
    """Return the confidence level that is given by it, or by statsmodels' `alpha`."""
    if alpha is None:
        return level
    if level != LEVEL:
        raise OptionError(f"Both level={level!r} and alpha={alpha!r} are given. Give one.")
    if not isinstance(alpha, Real) or not 0 < alpha < 1:
        raise OptionError(f"alpha={alpha!r} is not between 0 and 1.")
    return 1.0 - alpha


def select_parameters(
    params: Any, names: Sequence[str], labels: Sequence[tuple[Any, str]]
) -> list[int]:
    """Return the positions of parameters that are named, or share a term that is."""
    if params is None:
        return list(range(len(names)))
    asked = [params] if isinstance(params, str) else list(params)
    chosen: list[int] = []
    for name in asked:
        wanted = name if isinstance(name, str) else ":".join(map(str, name))
        found = [i for i, own in enumerate(names) if own == wanted]
        found = found or [i for i, (_, term) in enumerate(labels) if term == wanted]
        if not found:
            raise OptionError(f"There is no parameter {wanted!r}.{nearest(wanted, names)}")
        chosen += [place for place in found if place not in chosen]
    return chosen


class Estimates(MaketablesHooks):
    """What follows from labelled estimates and their covariance."""

    reported: Any
    covariance: Covariance

    @abstractmethod
    def _surface(self) -> Surface | str:
        """Return the log-likelihood to follow profiles on, or why there is none."""

    @property
    @abstractmethod
    def equation_labels(self) -> tuple[Any, ...]:
        """The labels of all equations."""

    @abstractmethod
    def summary(
        self, level: float = 0.95, *, intervals: Intervals = "wald", stars: bool = False
    ) -> Page:
        """Compose the page to read first."""

    @property
    @abstractmethod
    def converged(self) -> bool:
        """Whether the solver reached the optimum."""

    @property
    @abstractmethod
    def status(self) -> str:
        """How the solver ended, in a sentence."""

    @cached_property
    def _profiles(self) -> dict[tuple[int, float], Interval]:
        """Profile intervals that were found, by position and level."""
        return {}

    def tidy(self, level: float = 0.95, *, intervals: Intervals = "wald") -> pd.DataFrame:
        """One row per parameter: estimate, standard error, statistic, p-value, interval.

        Parameters
        ----------
        level : of the intervals.
        intervals : ``"wald"`` or ``"profile"``, see `conf_int`.
        """
        ends = None
        if check_intervals(intervals) == "profile":
            found = self.conf_int(level, method="profile")
            ends = found["conf_low"].to_numpy(), found["conf_high"].to_numpy()
        return coefficient_table(self.reported, self.covariance, level, ends)

    @property
    def values(self) -> Array:
        """The estimates as a plain array, in the order of `params`."""
        return self.reported.values

    @property
    def names(self) -> list[str]:
        """The parameters' names, ``alternative:term``, as hypotheses use them."""
        return flat_names(self.reported.labels)

    @hidden_property
    def params(self) -> pd.Series[float]:
        """Coefficients and other parameters, labelled by alternative and term."""
        return labelled_series(self.values, self.reported.labels, "estimate")

    @property
    def bse(self) -> pd.Series[float]:
        """Standard errors."""
        return self._column("std_error")

    @property
    def tvalues(self) -> pd.Series[float]:
        """Estimate over standard error, of correlations on Fisher's scale; missing for scales."""
        return self._column("statistic")

    @property
    def pvalues(self) -> pd.Series[float]:
        """Two-sided tail probabilities; missing for scales.

        Of the normal, or of Student's t where errors are clustered.
        """
        return self._column("p_value")

    def _column(self, name: str) -> pd.Series[float]:
        return labelled_series(self.tidy()[name].to_numpy(), self.reported.labels, name)

    def conf_int(
        self,
        level: float = LEVEL,
        method: Intervals = "wald",
        *,
        alpha: float | None = None,
        params: Any = None,
        progress: bool | None = None,
    ) -> pd.DataFrame:
        """Confidence intervals of the parameters.

        Parameters
        ----------
        level : of the intervals.
        method : ``"wald"``, from standard errors, of scales on the log scale and of correlations
            on Fisher's; or ``"profile"``, all values that a likelihood-ratio test does not reject.
            Profile intervals are better where the likelihood is not quadratic, as in weakly
            identified models; they cost some tens of evaluations per parameter. They are not
            available with robust or clustered covariances or probability weights, where the
            likelihood ratio is not chi-square.
        alpha : one less the level, the word of statsmodels: ``alpha=0.1`` is ``level=0.9``.
        params : which parameters, as in `names`: ``"hunting:height"``, or a list of such, or terms
            of all alternatives, ``"height"``; None for all.
        progress : whether to show progress; None shows it on a terminal for what takes seconds.

        Returns
        -------
        pandas.DataFrame
            ``conf_low`` and ``conf_high``, labelled by alternative and term. Profiles have a
            ``reason`` too: why an end is infinite, at a limit of what is possible, or missing;
            else empty.
        """
        level = level_of(level, alpha)
        which = select_parameters(params, self.names, self.reported.labels)
        if check_intervals(method) == "wald":
            table = coefficient_table(self.reported, self.covariance, level)
            table = table[["conf_low", "conf_high"]].set_axis(self.params.index)
            return table.iloc[which]
        found = self._profile(level, which, progress)
        made = {
            "conf_low": [one.low for one in found],
            "conf_high": [one.high for one in found],
            "reason": [one.reason for one in found],
        }
        return pd.DataFrame(made, index=self.params.index[which])

    def _profile(self, level: float, which: Sequence[int], progress: bool | None) -> list[Interval]:
        check_level(level)
        missing = [place for place in which if (place, level) not in self._profiles]
        if missing:
            surface = self._surface()
            if isinstance(surface, str):
                raise UnsupportedError(f"There are no profile intervals: {surface}.")
            errors = coefficient_table(self.reported, self.covariance, level)["std_error"]
            from selfselect.inference.profile import profile_intervals

            found = profile_intervals(surface, errors.to_numpy(), level, missing, progress)
            self._profiles.update({(p, level): one for p, one in zip(missing, found, strict=True)})
        return [self._profiles[place, level] for place in which]

    @cached_property
    def curvature(self) -> pd.DataFrame | None:
        """How far the likelihood is from quadratic two standard errors below and above.

        Signed roots of the fall of the likelihood, ``below`` and ``above`` each estimate: -2 and 2
        where the likelihood is quadratic, so that standard errors suffice. None where there is no
        exact likelihood.
        """
        surface = self._surface()
        if isinstance(surface, str):
            return None
        errors = coefficient_table(self.reported, self.covariance, 0.95)["std_error"]
        from selfselect.inference.profile import signed_roots

        roots = signed_roots(surface, errors.to_numpy(), AWAY)
        return pd.DataFrame(roots, columns=["below", "above"], index=self.params.index)

    side_by_side = pages.side_by_side

    def to_latex(self, *, stars: bool = False) -> str:
        """Write all equations side by side in one LaTeX table (booktabs); see `side_by_side`.

        Examples
        --------
        >>> import selfselect as ss
        >>> villagers = ss.simulators.village(300, seed=1).data
        >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
        >>> " & fishing & hunting" in result.to_latex()
        True
        """
        return self.side_by_side(stars=stars).to_latex()

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the estimates, labelled by alternative and term."""
        return labelled_matrix(self.covariance.shown, self.reported.labels)

    def wald_test(self, hypothesis: Any) -> TestResult:
        """Test linear restrictions, such as ``"hunting:height = fishing:height"``.

        Several restrictions are separated by commas or given as a list; a matrix R tests R params =
        0.
        """
        return wald_test(self.values, self.covariance, self.names, hypothesis)

    lincom = lincom_module.lincom

    nlcom = lincom_module.nlcom
