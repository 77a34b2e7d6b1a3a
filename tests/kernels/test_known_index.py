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
)

pytestmark = pytest.mark.usefixtures("every_kernel")


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


def test_far_rows_keep_finite_scores_and_curvatures():
    location = np.array([-1e3, 1e3, -1e6, 1e6])
    for code in (BELOW, ABOVE):
        terms = row_terms(
            location, 1.0, status=np.full(4, code, dtype=np.int8), limit=np.zeros(4), upper=None
        )
        for part in vars(terms).values():
            assert np.isfinite(part).all()
        assert (terms.loglik <= 0).all() and (terms.curvature <= 0).all()
