from __future__ import annotations

import numpy as np
import pytest

from selfselect.kernels.known_index import (
    ABOVE,
    BELOW,
    BETWEEN,
    OBSERVED,
    UNKNOWN,
    row_terms,
    sum_rows,
)

pytestmark = pytest.mark.usefixtures("every_kernel")

STEP = 1e-5
FIRST = 1e-8
"""Central differences of step 1e-5 err by 1e-10 in the step and 1e-11 in rounding."""

STATUSES = {
    "observed": OBSERVED,
    "below": BELOW,
    "above": ABOVE,
    "between": BETWEEN,
    "unknown": UNKNOWN,
}
WIDE = 1.7


@pytest.fixture(params=sorted(STATUSES))
def status(request):
    return STATUSES[request.param]


LOCATION = np.linspace(-3, 3, 41)
LIMIT = np.random.default_rng(5).standard_normal(41)
INVERSE_SCALE = 0.7


def terms_at(status, location=LOCATION, inverse_scale=INVERSE_SCALE):
    return row_terms(
        location,
        inverse_scale,
        status=np.full(len(location), status, dtype=np.int8),
        limit=LIMIT,
        upper=LIMIT + WIDE if status == BETWEEN else None,
    )


def along_location(status, what):
    ahead, behind = terms_at(status, LOCATION + STEP), terms_at(status, LOCATION - STEP)
    return (getattr(ahead, what) - getattr(behind, what)) / (2 * STEP)


def along_inverse_scale(status, what):
    ahead = terms_at(status, inverse_scale=INVERSE_SCALE + STEP)
    behind = terms_at(status, inverse_scale=INVERSE_SCALE - STEP)
    return (getattr(ahead, what) - getattr(behind, what)) / (2 * STEP)


def test_residual_is_the_derivative_along_the_location(status):
    np.testing.assert_allclose(
        terms_at(status).residual, along_location(status, "loglik"), rtol=FIRST, atol=FIRST
    )


def test_score_h_is_the_derivative_along_the_inverse_scale(status):
    np.testing.assert_allclose(
        terms_at(status).score_h, along_inverse_scale(status, "loglik"), rtol=FIRST, atol=FIRST
    )


def test_curvatures_are_the_second_derivatives(status):
    terms = terms_at(status)
    for found, wanted in (
        (terms.curvature, along_location(status, "residual")),
        (terms.curvature_gh, along_location(status, "score_h")),
        (terms.curvature_gh, along_inverse_scale(status, "residual")),
        (terms.curvature_hh, along_inverse_scale(status, "score_h")),
    ):
        np.testing.assert_allclose(found, wanted, rtol=FIRST, atol=FIRST)


def test_every_row_is_concave(status):
    terms = terms_at(status)
    determinant = terms.curvature * terms.curvature_hh - terms.curvature_gh**2
    assert (terms.curvature <= 0).all() and (terms.curvature_hh <= 0).all()
    assert (determinant >= -1e-12).all()


def test_a_narrow_interval_is_as_good_as_its_middle():
    width = 1e-5
    seen = terms_at(OBSERVED)
    codes = np.full(len(LOCATION), BETWEEN, dtype=np.int8)
    ends = {"limit": LIMIT - width / 2, "upper": LIMIT + width / 2}
    between = row_terms(LOCATION, INVERSE_SCALE, status=codes, **ends)
    np.testing.assert_allclose(between.loglik, seen.loglik + np.log(width), rtol=1e-9)
    for name in ("residual", "score_h", "curvature", "curvature_gh", "curvature_hh"):
        # End densities of 1e5 leave ten digits of their differences.
        np.testing.assert_allclose(getattr(between, name), getattr(seen, name), atol=1e-8)


def test_a_silent_row_adds_nothing_whatever_its_limit():
    terms = row_terms(
        np.zeros(3),
        1.0,
        status=np.full(3, UNKNOWN, dtype=np.int8),
        limit=np.array([np.inf, -np.inf, np.nan]),
        upper=None,
    )
    for part in vars(terms).values():
        np.testing.assert_array_equal(part, 0.0)


def test_rows_of_all_kinds_mix_without_disturbing_each_other():
    codes = np.array([OBSERVED, BELOW, ABOVE, BETWEEN, UNKNOWN] * 8, dtype=np.int8)
    location, limit = LOCATION[:40], LIMIT[:40]
    together = row_terms(location, INVERSE_SCALE, status=codes, limit=limit, upper=limit + WIDE)
    for i, code in enumerate(codes):
        alone = row_terms(
            location[[i]],
            INVERSE_SCALE,
            status=codes[[i]],
            limit=limit[[i]],
            upper=limit[[i]] + WIDE if code == BETWEEN else None,
        )
        for name, part in vars(alone).items():
            assert getattr(together, name)[i] == pytest.approx(part[0], rel=1e-14, abs=1e-300)


def test_far_rows_keep_finite_scores_and_curvatures():
    location = np.array([-1e3, 1e3, -1e6, 1e6])
    for code in (BELOW, ABOVE):
        terms = row_terms(
            location, 1.0, status=np.full(4, code, dtype=np.int8), limit=np.zeros(4), upper=None
        )
        for part in vars(terms).values():
            assert np.isfinite(part).all()
        assert (terms.loglik <= 0).all() and (terms.curvature <= 0).all()


def test_sums_are_sums_of_weighted_row_scores(status):
    design = np.random.default_rng(6).standard_normal((41, 2))
    weights = np.random.default_rng(7).uniform(0, 2, 41)
    terms = terms_at(status)
    sums = sum_rows(design, terms, weights)
    np.testing.assert_allclose(
        sums.score,
        weights @ np.column_stack([design * terms.residual[:, None], terms.score_h]),
        rtol=1e-12,
        atol=1e-12,
    )
    assert sums.loglik == pytest.approx(weights @ terms.loglik, rel=1e-12)
    hessian = np.zeros((3, 3))
    for i in range(41):
        hessian[:2, :2] += weights[i] * terms.curvature[i] * np.outer(design[i], design[i])
        hessian[:2, 2] += weights[i] * terms.curvature_gh[i] * design[i]
        hessian[2, 2] += weights[i] * terms.curvature_hh[i]
    hessian[2, :2] = hessian[:2, 2]
    np.testing.assert_allclose(sums.hessian, hessian, rtol=1e-11, atol=1e-11)
