"""A problem together with its rows, before there is a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfselect.data.design import DataFacts
from selfselect.engines.base import Engine
from selfselect.errors import OptionError
from selfselect.problem.problem import Problem
from selfselect.results.naive import fit_naive

__all__ = ["Posed"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Posed:
    """A problem and the rows it is posed on.

    Attributes
    ----------
    problem : what is to be estimated.
    engine : the rows.
    facts : what to know of the data.
    """

    problem: Problem
    engine: Engine
    facts: DataFacts

    def __repr__(self) -> str:
        equations = self.problem.equations
        what = f"{equations.outcome} of {equations.n_alternatives} alternatives"
        return f"<Posed: {what}; {self.facts.n_rows} rows, not solved>"

    def engine_of_rows(self) -> Engine:
        """Return the engine that holds the rows."""
        return self.engine

    def first_guess(self) -> Array:
        """Return free parameters of least squares on the rows in which each alternative was chosen.

        They are biased by selection.
        """
        if self.problem.index == "unknown":
            raise OptionError(
                "Where the choice was not recorded there is no quick guess of the coefficients. "
                "Give params, or fit first."
            )
        naive = fit_naive(self.problem, self.engine)
        if not all(np.isfinite(own).all() for own in naive.coefficients):
            raise OptionError(
                "Least squares gives no first guess of the coefficients: some alternative has no "
                "row with an outcome. Give params, or fit first."
            )
        layout = self.problem.layout
        scales = naive.scales if layout.scales is None else layout.scales
        return layout.collect(naive.coefficients, scales)
