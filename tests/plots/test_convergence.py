"""The picture of the solver's steps."""

from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import UnsupportedError


def test_the_trace_is_drawn_step_by_step(known: ss.FitResult, loaded: ss.FitResult) -> None:
    for fit in (known, loaded):
        picture = ss.plots.convergence(fit)
        assert picture.data["step"].tolist() == list(range(1, fit.n_steps + 1))
        np.testing.assert_allclose(picture.data["distance"], fit.trace["distance"])
        drawn = picture.axes[0].lines[0].get_ydata()
        np.testing.assert_allclose(drawn, fit.trace["distance"])
        assert picture.data["short"].iloc[-1] == 0


def test_samples_and_all_rows_have_their_own_lines() -> None:
    sample = ss.simulators.village(50_000, seed=1)
    fit = ss.fit(sample.formula, sample.data, chosen="job")
    picture = ss.plots.convergence(fit)
    labels = picture.axes[0].get_legend_handles_labels()[1]
    assert labels == ["5000 rows", "50000 rows"]
    assert (picture.data["short"] >= 0).all()


def test_a_solver_without_steps_is_named() -> None:
    sample = ss.simulators.gaussian(2_000, 2, 2, norm=2.0, seed=1)
    fit = ss.fit("outcome ~ x1 + x2 - 1", sample.data, alternatives=2,
                 solver=ss.solvers.TwoModels())  # fmt: skip
    with pytest.raises(UnsupportedError, match="TwoModels leaves no trace"):
        ss.plots.convergence(fit)
