"""Hooks by which the `maketables` package prints our fits beside others', without either import."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pandas as pd

__all__ = ["MaketablesHooks", "hidden_property"]


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
