"""The compiled pass under Student's t against its oracle, with every instruction set."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial.chebyshev import chebval
from scipy.special import stdtr

import selfselect as ss
from selfselect.kernels import fused_known
from selfselect.kernels.compiled import extension
from selfselect.noises import Student
from selfselect.noises.shapes._student import (
    FEWEST,
    MOST,
    NODES,
    StudentFamily,
    student_shape,
    student_table,
)

SUMS: Final = 1e-12
"""Of the largest sum; rows cancel in scores."""

TERMS: Final = 1e-12
"""Of one row's terms: log(1 + a^2/nu) has the digits of its sum, and nu times fewer in tails."""

ROUNDED: Final = 1e-13
"""Of a tail's mass by SciPy."""

DIFFERENCES: Final = 2e-9
"""Of derivatives by differences of seven values."""


@lru_cache(maxsize=1)
def table() -> pd.DataFrame:
    """Draw three alternatives under heavy tails, with weights that count rows."""
    rng = np.random.default_rng(4)
    x, z = rng.normal(size=(2, 700))
    means = np.column_stack([1.0 + x - 0.3 * z, 0.5 - 0.4 * x, 0.2 * z])
    latent = means + rng.standard_t(4, size=means.shape)
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "y": latent.max(axis=1),
            "j": latent.argmax(axis=1),
            "w": rng.integers(1, 4, len(x)),
        }
    )


@lru_cache(maxsize=8)
def posed(noise: Student, weighted: bool) -> Any:
    """Return the problem and its rows."""
    posed = ss.pose(
        {0: "y ~ x + z", 1: "y ~ x", 2: "y ~ z"}, table(), chosen="j", noise=noise,
        weights="w" if weighted else None,
    )  # fmt: skip
    return posed.problem, posed.engine


def by(backend: str, problem: Any, natural: Any, curvature: str, batch: Any) -> Any:
    return problem.likelihood.evaluate(natural, replace(batch, backend=backend), curvature)


def both(problem: Any, engine: Any, natural: Any, curvature: str = "exact") -> tuple[Any, Any]:
    """Evaluate by the compiled kernel and by its oracle."""
    return tuple(
        engine.sum(partial(by, backend, problem, natural, curvature))
        for backend in ("fused", "numpy")
    )


def parameters(problem: Any, degrees: float | None) -> Any:
    """Return natural parameters away from an optimum."""
    rng = np.random.default_rng(1)
    natural = problem.layout.natural(np.zeros(problem.layout.n_free))
    natural[:] = 0.3 * rng.normal(size=len(natural))
    natural[problem.layout.inverse_scale_positions] = [0.8, 1.1, 1.7]
    if degrees is not None:
        first = int(problem.layout.starts[-1])
        n_shapes = problem.layout.n_noise_extras
        natural[first : first + n_shapes] = degrees * np.linspace(1.0, 1.4, n_shapes)
    return natural


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("noise", "degrees"),
    [
        (Student(1.3), None),
        (Student(5), None),
        (Student(4, scale="~ x"), None),
        (Student(), 3.0),
        (Student(), 90.0),
        (Student(each=True), 2.2),
    ],
)
def test_sums_agree_with_the_oracle(noise, degrees, weighted):
    problem, engine = posed(noise, weighted)
    natural = parameters(problem, degrees)
    fused, oracle = both(problem, engine, natural)
    assert fused.loglik == pytest.approx(oracle.loglik, rel=SUMS)
    for found, expected in ((fused.score, oracle.score), (fused.hessian, oracle.hessian)):
        np.testing.assert_allclose(found, expected, rtol=SUMS, atol=SUMS * np.abs(expected).max())
    first, _ = both(problem, engine, natural, "none")
    np.testing.assert_allclose(first.score, fused.score, rtol=SUMS, atol=SUMS)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("degrees", [1.2, 5.0, 80.0])
def test_rows_are_accurate_from_tail_to_tail(degrees):
    outward = np.concatenate([[0.0, 1e-300, 1e-8], np.geomspace(1e-3, 1e6, 60)])
    a = np.concatenate([-outward[::-1], outward])
    data = pd.DataFrame({"y": np.tile(a, 2), "j": np.repeat([0, 1], len(a))})
    given = ss.pose("y ~ 1", data, chosen="j", noise=Student(), rule="max")
    problem, shape = given.problem, student_shape(degrees)
    units = problem.units
    natural = np.array([0.0, units.outcome_unit, 0.0, units.outcome_unit, degrees])
    natural[[0, 2]] = -units.outcome_shift
    batch = given.engine.sum(lambda batch: [batch])[0]
    seen, below = shape.density(a), shape.below(a)
    family = StudentFamily()
    terms = [family.evaluate(a, side, np.array([degrees]), curvature=True) for side in (0, 1)]
    for i, at in enumerate(a):
        row = problem.likelihood.evaluate(
            natural, replace(batch.take(slice(i, i + 1)), backend="fused"), "exact"
        )
        # Of a row whose alternative 0 is chosen, alternative 1 lies below the same limit.
        correct = (-seen.slope[i], -below.slope[i])
        np.testing.assert_allclose(row.score[[0, 2]], correct, rtol=TERMS, atol=TERMS, err_msg=at)
        curved = (seen.curvature[i], below.curvature[i])
        np.testing.assert_allclose(np.diag(row.hessian)[[0, 2]], curved, rtol=TERMS, atol=TERMS)
        by_degrees = sum(one.gradient[i, 1] for one in terms)
        twice = sum(one.hessian[i, 1, 1] for one in terms)
        mixed = [-one.hessian[i, 0, 1] for one in terms]
        np.testing.assert_allclose(row.score[4], by_degrees, rtol=TERMS, atol=TERMS)
        np.testing.assert_allclose(row.hessian[4, 4], twice, rtol=TERMS, atol=TERMS)
        np.testing.assert_allclose(row.hessian[4, [0, 2]], mixed, rtol=TERMS, atol=TERMS)


@pytest.mark.parametrize("degrees", [FEWEST, 2.0, 5.0, 40.0, 200.0, MOST])
def test_the_series_of_a_tail_are_students_t(degrees):
    levels, series = (one[0] for one in student_table(degrees))
    # Masses that SciPy does not lose.
    x = np.linspace(0.0, 8.0, 60)
    log_tail = np.log(stdtr(degrees, -x))
    place, power = 2.0 * x / np.sqrt(degrees + x**2) - 1.0, np.log1p(x**2 / degrees)
    found = levels[2] - 0.5 * degrees * power - np.log(chebval(place, series[0]))
    np.testing.assert_allclose(found, log_tail, rtol=0.0, atol=ROUNDED * degrees**0.5 * 10)
    step = 0.05
    values = np.array([np.log(stdtr(degrees * np.exp(step * i), -x)) for i in range(-3, 4)])
    once = np.array([-1, 9, -45, 0, 45, -9, 1]) @ values / (60 * step)
    twice = np.array([2, -27, 270, -490, 270, -27, 2]) @ values / (180 * step**2)
    scale = np.abs(twice).max()
    np.testing.assert_allclose(
        (chebval(place, series[1]) - 0.5 * power) * degrees, once, atol=DIFFERENCES * scale
    )
    np.testing.assert_allclose(
        chebval(place, series[2]) * degrees**2 + once, twice, atol=100 * DIFFERENCES * scale
    )
    # Beyond the nodes there is nothing left to compute terms from.
    assert series.shape[1] < NODES - 10


@pytest.mark.usefixtures("instructions")
def test_a_table_that_does_not_fit_is_refused():
    problem, engine = posed(Student(5), False)
    native = extension()
    seen: list[tuple[Any, ...]] = []

    class Recorder:
        def known(self, *given: Any) -> float:
            seen.append(given)
            return native.known(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused_known, "extension", Recorder)
        both(problem, engine, parameters(problem, None))
    good = list(seen[0])
    native.known(*good)
    levels, series = good[-5:-3]
    for place, wrong in (
        (-5, None),
        (-4, None),
        (-5, np.repeat(levels, 2, axis=0)),
        (-5, levels[:, :4].copy()),
        (-4, series[:, :2].copy()),
        (-3, np.zeros(1)),
        (13, 1),
    ):
        bad = list(good)
        bad[place] = wrong
        with pytest.raises(ValueError, match="disagree"):
            native.known(*bad)
