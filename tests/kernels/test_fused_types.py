"""Types by the compiled kernel against their NumPy oracle, with every instruction set."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

from selfselect.data.rows import Rows
from selfselect.engines.memory import CHUNK, RowsInMemory
from selfselect.kernels.fused_unknown import sum_types
from selfselect.kernels.known_index import ABOVE, BELOW, OBSERVED, UNKNOWN
from selfselect.likelihoods import evaluate
from selfselect.likelihoods.boxes import row_arguments
from selfselect.noises import Types
from selfselect.posing import pose
from selfselect.problem.batch import Batch, Observation

pytestmark = pytest.mark.usefixtures("instructions")

TOLERANCE: Final = 1e-12
"""Of the sum of the rows' absolute terms, or of what bounds it."""


def problem_of(k: int, noise: Types) -> Any:
    """Pose equations with columns of their own, of which one has no constant."""
    rng = np.random.default_rng(k)
    table: dict[str, Any] = {f"x{i}": rng.normal(3.0, 2.0, 200) for i in range(3)}
    table |= {"y": rng.normal(size=200), "job": np.resize(list("abc"[:k]), 200)}
    rights = {"a": "x0 + x1", "b": "x2 + x0 - 1", "c": "1"}
    formulas = {label: f"y ~ {rights[label]}" for label in "abc"[:k]}
    return pose(formulas, table, chosen="job", noise=noise).problem


def batch_of(
    problem: Any, n_rows: int, *, size: int = 1, weighted: bool = False, far: float = 2.0
) -> Batch:
    """Draw rows that say anything of any alternative, in groups of about a size."""
    rng = np.random.default_rng(n_rows + size)
    k, n_columns = problem.equations.n_alternatives, 3
    sizes = rng.integers(1, 2 * size, n_rows) if size > 1 else np.ones(n_rows, int)
    groups = np.repeat(np.arange(n_rows), sizes)[:n_rows]
    status = rng.choice(np.array([OBSERVED, BELOW, ABOVE, UNKNOWN], np.int8), (n_rows, k))
    limit = rng.normal(0.0, far, (n_rows, k))
    limit[status == UNKNOWN] = np.nan
    weights = rng.uniform(0.5, 2.0, n_rows)[groups] * (groups % 7 > 0) if weighted else None
    rows = Rows(
        covariates=rng.normal(3.0, 2.0, (n_rows, n_columns)), outcome=None, chosen=None,
        weights=weights, groups=groups if size > 1 else None,
    )  # fmt: skip
    return Batch(rows, Observation(status, limit), "fused")


def somewhere(problem: Any) -> Any:
    natural = 0.3 * np.random.default_rng(5).normal(size=problem.layout.n_natural)
    h = problem.layout.inverse_scale_positions
    natural[h] = 0.5 + np.abs(natural[h])
    return natural


@pytest.mark.parametrize("curvature", ["exact", "complete", "none"])
@pytest.mark.parametrize("size", [1, 5, 700])
@pytest.mark.parametrize(("k", "number"), [(2, 3), (3, 2), (2, 5), (2, 1)])
def test_sums_agree_with_the_oracle(k: int, number: int, size: int, curvature: Any) -> None:
    problem = problem_of(k, Types(number))
    batch = batch_of(problem, 2_500 if size > 100 else 700, size=size, weighted=size != 5)
    natural = somewhere(problem)
    found = evaluate(problem, natural, batch, curvature=curvature)
    wanted = evaluate(problem, natural, replace(batch, backend="numpy"), curvature=curvature)
    n = len(batch)
    assert found.loglik == pytest.approx(wanted.loglik, abs=TOLERANCE * n * 10)
    for name in ("score", "hessian"):
        one = getattr(wanted, name)
        scale = np.abs(one).max() + n
        np.testing.assert_allclose(
            getattr(found, name), one, rtol=0, atol=TOLERANCE * scale, err_msg=name
        )


def test_far_out_rows_agree_with_the_oracle() -> None:
    problem = problem_of(2, Types(3))
    far = 300.0
    batch = batch_of(problem, 600, far=far)
    natural = somewhere(problem)
    found = evaluate(problem, natural, batch)
    wanted = evaluate(problem, natural, replace(batch, backend="numpy"))
    np.testing.assert_allclose(found.loglik, wanted.loglik, rtol=TOLERANCE)
    # Variances are differences of sums of squares, in the oracle, of limits and residuals.
    for name, size in (("score", far**2), ("hessian", far**4)):
        off = np.abs(getattr(found, name) - getattr(wanted, name)).max()
        assert off <= 1e-14 * len(batch) * size, name


@pytest.mark.parametrize("size", [1, 5])
def test_the_number_of_threads_does_not_change_a_bit(monkeypatch: Any, size: int) -> None:
    monkeypatch.setitem(CHUNK, "fused", 256)
    problem = problem_of(2, Types(3))
    batch, natural = batch_of(problem, 2_000, size=size), somewhere(problem)
    one, three = (RowsInMemory(batch, n).sum(partial(evaluate, problem, natural)) for n in (1, 3))
    assert one.loglik == three.loglik
    np.testing.assert_array_equal(one.score, three.score)
    np.testing.assert_array_equal(one.hessian, three.hessian)


def test_groups_that_are_not_in_order_are_refused() -> None:
    problem = problem_of(2, Types(2))
    batch = batch_of(problem, 30)
    rows = row_arguments(problem, somewhere(problem), batch)
    told: dict[str, Any] = {"offsets": np.zeros((2, 2)), "log_prior": np.log([0.5, 0.5])}
    for starts in ([1, 5], [0, 5, 5], [0, 40]):
        with pytest.raises(ValueError, match="disagree"):
            sum_types(rows, **told, starts=np.array(starts))
