"""An unknown index under noise that is not normal: impossible rows, threads, what is left out."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import laplace

import selfselect as ss
from selfselect.errors import ConvergenceWarning
from selfselect.noises import Independent, Mixture, Student

NOISES = {
    "2 normals": Mixture(2, scale="common"),
    "3 normals": Mixture(3, scale="common"),
    "4 normals": Mixture(4),
    "2 normals each": Mixture(2, each=True),
    "student": Student(scale="common"),
    "students": Student(each=True),
    "known student": Student(5),
    "logistic": Independent(shape="logistic"),
    "gumbel": Independent(shape="gumbel"),
    "gumbel_min": Independent(shape="gumbel_min", scale={1: 0.7, 2: 0.9, 3: 1.1}),
}


@lru_cache(maxsize=2)
def table(rule: str, n_rows: int = 600) -> pd.DataFrame:
    """Draw three alternatives under skewed noise, some of them closed."""
    rng = np.random.default_rng(11)
    x, z = rng.normal(size=(2, n_rows))
    means = np.column_stack([1.0 + x - 0.3 * z, 0.5 - 0.8 * x + z, 0.2 - z])
    latent = means + 0.7 * (rng.gamma(2.0, 1.0, means.shape) - 2.0)
    open_to = rng.uniform(size=means.shape) < [1.0, 0.8, 0.7]
    shut = -np.inf if rule == "max" else np.inf
    latent = np.where(open_to, latent, shut)
    return pd.DataFrame(
        {
            "x": x, "z": z, "w": rng.integers(0, 4, n_rows),
            "y": latent.max(axis=1) if rule == "max" else latent.min(axis=1),
            "open2": open_to[:, 1], "open3": open_to[:, 2],
        }
    )  # fmt: skip


def posed(name, k, rule, weights="w", n_rows=600):
    formulas = {1: "y ~ x + z", 2: "y ~ z", 3: "y ~ x"}
    noise = NOISES[name]
    if k == 2 and name == "gumbel_min":
        noise = replace(noise, scale={1: 0.7, 2: 0.9})
    return ss.pose(
        {j: formulas[j] for j in range(1, k + 1)}, table(rule, n_rows), noise=noise, rule=rule,
        available={j: f"open{j}" for j in range(2, k + 1)}, weights=weights,
    )  # fmt: skip


def place(problem):
    """Return natural parameters away from an optimum, at shapes the search begins with."""
    rng, layout = np.random.default_rng(3), problem.layout
    natural = layout.natural(np.zeros(layout.n_free))
    first = int(layout.starts[-1])
    natural[:first] = 0.5 * rng.normal(size=first)
    at_h = layout.inverse_scale_positions
    natural[at_h] = [0.8, 1.1, 1.4][: len(at_h)]
    family = problem.noise.family
    if family is not None:
        begins = [values for _, values in family.begins()]
        sets = layout.n_noise_extras // len(begins[0])
        natural[first:] = np.concatenate([begins[j % len(begins)] for j in range(sets)])
    return natural


def test_places_without_a_shape_have_no_likelihood():
    given = posed("2 normals", 2, "max")
    natural = place(given.problem)
    natural[-1] = 0.0
    for curvature in ("none", "exact"):
        task = partial(given.problem.likelihood.evaluate, natural, curvature=curvature)
        found = given.engine.sum(task)
        assert found.loglik == -np.inf and not found.score.any() and not found.hessian.any()


def test_impossible_rows_of_weight_zero_do_not_matter():
    """The compiled pass gives way to the atoms, which leave such rows out."""
    given = posed("student", 2, "max")
    problem, batch = given.problem, given.engine.batch
    outcome = np.where(batch.rows.weights > 0, batch.rows.outcome, np.inf)
    rows = replace(batch.rows, outcome=outcome)
    other = replace(batch, rows=rows, observation=problem.likelihood.observe(rows))
    evaluate = partial(problem.likelihood.evaluate, place(problem), curvature="none")
    assert (batch.rows.weights == 0).any()
    assert evaluate(other).loglik == pytest.approx(evaluate(batch).loglik, rel=1e-12)


@pytest.mark.compiled
def test_what_the_pass_does_not_know_is_left_to_atoms():
    data = table("max")
    for noise, more in (
        (Mixture(2, scale="~ x"), {}),
        (Independent(shape="laplace"), {}),
        (Mixture(2), {"cost": {1: "w"}}),
    ):
        given = ss.pose("y ~ x + z", data, alternatives=2, noise=noise, **more)
        assert given.engine.batch.backend == "joint"


def test_sums_are_the_same_to_the_last_bit_on_any_number_of_threads():
    given = posed("3 normals", 3, "max", n_rows=40_000)
    natural = place(given.problem)
    task = partial(given.problem.likelihood.evaluate, natural, curvature="exact")
    one, two, five = (replace(given.engine, n_threads=n).sum(task) for n in (1, 2, 5))
    for other in (two, five):
        assert one.loglik == other.loglik
        assert np.array_equal(one.score, other.score)
        assert np.array_equal(one.hessian, other.hessian)


def test_the_log_likelihood_is_that_of_the_parameters_where_a_fit_did_not_converge():
    """The optimum under Laplace noise is reached through rounded kinks, or not at all."""
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 60))
    means = np.column_stack([np.ones(60), x, z]) @ rng.normal(size=(2, 3)).T
    y = (means + 0.7 * rng.laplace(size=(60, 2))).max(axis=1)
    with pytest.warns(ConvergenceWarning):
        fit = ss.fit(
            "y ~ x + z", pd.DataFrame({"x": x, "z": z, "y": y}), alternatives=2, seed=0,
            noise=Independent(shape="laplace"),
        )  # fmt: skip
    a, b = (
        (y - fit.params[j, "Intercept"] - fit.params[j, "x"] * x - fit.params[j, "z"] * z)
        / fit.params[j, "scale"]
        for j in (1, 2)
    )
    scales = [fit.params[j, "scale"] for j in (1, 2)]
    of_a = laplace.logpdf(a) - np.log(scales[0]) + laplace.logcdf(b)
    of_b = laplace.logpdf(b) - np.log(scales[1]) + laplace.logcdf(a)
    assert fit.llf == pytest.approx(np.logaddexp(of_a, of_b).sum(), abs=1e-6)
