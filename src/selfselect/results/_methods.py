"""What methods of a fit that stand in files of their own share: the fit they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from selfselect.results.fit_result import FitResult

__all__ = ["FitMethods"]


class FitMethods:
    """Methods of a fit by subject; only `FitResult` derives from them."""

    @property
    def _fit(self) -> FitResult:
        """The fit, as what it is."""
        return cast("FitResult", self)
