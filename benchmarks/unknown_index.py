"""The unknown index in units of one known-index pass over the same rows."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.problems import Arrays
from selfselect._fit import fit_design
from selfselect.data.build import design_from_arrays
from selfselect.engines.memory import Memory
from selfselect.likelihoods import evaluate
from selfselect.noises import Independent
from selfselect.problem.problem import Problem
from selfselect.problem.units import measure_units
from selfselect.rules import Maximum
from selfselect.solvers._search import SearchSpace
from selfselect.solvers._start import gram_matrices, least_squares_start


class Passes:
    """One pass of each kind over the rows of some data."""

    def __init__(self, data: Arrays) -> None:
        names = [f"x{i}" for i in range(data.covariates.shape[1])]
        labels = list(range(data.n_alternatives))
        known = design_from_arrays(
            data.covariates, data.outcome, data.chosen, alternatives=labels, names=names
        )
        self.unknown_design = design_from_arrays(
            data.covariates, data.outcome, None, alternatives=labels, names=names
        )
        units = measure_units(known.equations, known.rows)
        self.known = Problem(known.equations, Maximum(), Independent("common"), units)
        self.unknown = Problem(
            known.equations, Maximum(), Independent("common"), units, "unknown", True
        )
        self.known_rows = Memory().load(self.known, known.rows)
        self.unknown_rows = Memory().load(self.unknown, self.unknown_design.rows)
        grams = gram_matrices(self.known, self.known_rows)
        free = least_squares_start(self.known, grams)
        rng = np.random.default_rng(0)
        self.natural = self.known.layout.natural(free + 0.05 * rng.standard_normal(len(free)))
        self.space = SearchSpace.build(
            self.unknown, grams, weight=float(self.known_rows.n_rows), floor=0.01
        )

    def known_pass(self) -> None:
        self.known_rows.sum(partial(evaluate, self.known, self.natural))

    def em_step(self) -> None:
        task = partial(evaluate, self.unknown, self.natural, curvature="complete")
        self.unknown_rows.sum(task)

    def gradient(self) -> None:
        task = partial(evaluate, self.unknown, self.natural, curvature="none")
        self.unknown_rows.sum(task)

    def exact(self) -> None:
        self.unknown_rows.sum(partial(evaluate, self.unknown, self.natural))

    def whole_fit(self) -> tuple[float, str]:
        """Return the seconds of a fit from scratch with standard errors, and its status."""
        start = time.perf_counter()
        result = fit_design(self.unknown_design, seed=0)
        spent = time.perf_counter() - start
        assert result.converged
        assert np.isfinite(result.covariance.matrix).all()
        return spent, result.status
