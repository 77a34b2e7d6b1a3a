from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from selfselect.moments._expectations import expectations
from selfselect.noises.shapes._mixture import MixtureShape
from selfselect.noises.shapes._student import student_shape
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.rules import Maximum, Ranked, RowData

QUADRATURE = 1e-8
"""Ten nodes a piece, on pieces of up to six standard deviations, err by 1e-9 at most."""

MEANS = 3e-5
"""In scales. Means divide by the chance of what is seen, down to 1e-12."""

NOTHING = RowData()


@pytest.mark.parametrize("ratio", [1e-3, 1e-2, 0.1, 1.0, 10.0, 1e3])
def test_scales_may_differ_by_orders_of_magnitude(ratio):
    scales = np.array([1.0, ratio])
    means = np.array([[0.0, 0.5 * ratio], [1.0, 0.0], [-0.4, -2.0 * ratio]])
    found = expectations(Maximum(), means, scales, NOTHING, [NORMAL] * means.shape[1])
    gap = (means[:, 0] - means[:, 1]) / np.hypot(*scales)
    np.testing.assert_allclose(found.chance[:, 0], norm.cdf(gap), atol=QUADRATURE)


@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3])
def test_five_alternatives_agree_with_adaptive_quadrature(spread):
    rng = np.random.default_rng(1)
    scales = spread ** np.linspace(-0.5, 0.5, 5)
    means = rng.normal(0, 1, (3, 5)) * scales
    found = expectations(Maximum(), means, scales, NOTHING, [NORMAL] * means.shape[1])
    for i in range(3):
        for j in range(5):
            others = [m for m in range(5) if m != j]

            def integrand(z, i=i, j=j, others=others):
                y = means[i, j] + scales[j] * z
                return norm.pdf(z) * np.prod(norm.cdf((y - means[i, others]) / scales[others]))

            cuts = np.sort(np.clip((means[i, others] - means[i, j]) / scales[j], -8.9, 8.9))
            edges = np.concatenate([[-9.0], cuts, [9.0]])
            wanted = sum(
                integrate.quad(integrand, low, high, limit=200, epsabs=1e-11)[0]
                for low, high in pairwise(edges)
            )
            assert found.chance[i, j] == pytest.approx(wanted, abs=QUADRATURE)


@pytest.mark.parametrize("gap", [5.0, 6.0, 7.0, 8.0, 10.0, 20.0, 200.0])
@pytest.mark.parametrize("ratio", [0.01, 1.0, 100.0])
def test_the_mean_of_what_is_next_to_impossible_is_right_or_missing(gap, ratio):
    scales = np.array([1.0, ratio])
    spread = np.hypot(*scales)
    means = np.array([[0.0, gap * spread]])
    found = expectations(Maximum(), means, scales, NOTHING, [NORMAL] * means.shape[1])
    assert found.chance[0, 1] == pytest.approx(norm.cdf(gap), abs=QUADRATURE)
    ratio_of_tails = np.exp(norm.logpdf(-gap) - norm.logcdf(-gap))
    wanted = scales[0] ** 2 / spread * ratio_of_tails
    given = found.given_seen[0, 0, 0]
    assert np.isnan(given) or given == pytest.approx(wanted, abs=MEANS)


def test_a_rule_may_share_one_bound_and_not_the_other():
    class Capped(Maximum):
        """The largest outcome; the lower limit is shared, the upper one is not."""

        def bounds(self, chosen, outcome, rows=NOTHING):
            lower, upper = super().bounds(chosen, outcome, rows)
            return lower, np.broadcast_to(upper, (len(outcome), 3)).copy()

    means, scales = np.array([[0.0, 0.4, 1.0]]), np.ones(3)
    np.testing.assert_allclose(
        expectations(Capped(), means, scales, NOTHING, [NORMAL] * means.shape[1]).chance,
        expectations(Maximum(), means, scales, NOTHING, [NORMAL] * means.shape[1]).chance,
        rtol=1e-11,  # that of the pieces its range is cut into
    )


def test_the_ranks_share_out_every_alternative():
    """Each alternative has some rank, so its chances over all ranks add up to one."""
    rng = np.random.default_rng(8)
    means, scales = rng.normal(0, 1, (20, 4)), np.array([0.5, 1.0, 2.0, 0.7])
    each = [
        expectations(Ranked(rank), means, scales, NOTHING, [NORMAL] * means.shape[1]).chance
        for rank in range(1, 5)
    ]
    np.testing.assert_allclose(np.sum(each, axis=0), 1.0, atol=1e-7)


@pytest.mark.parametrize("chosen", [0, 1])
def test_every_alternative_may_have_a_shape_of_its_own(chosen):
    shapes = [MixtureShape(np.array([[0.7, -0.3, 0.5], [0.3, 0.7, 1.2]])), student_shape(5.0)]
    means, scales = np.array([[0.4, -0.2]]), np.array([0.8, 1.3])
    found = expectations(Maximum(), means, scales, NOTHING, shapes)
    u = np.linspace(-14.0, 14.0, 20_001)
    y = np.sinh(u)
    own, other = shapes[chosen], shapes[1 - chosen]
    z = (y - means[0, chosen]) / scales[chosen]
    limit = (y - means[0, 1 - chosen]) / scales[1 - chosen]
    density = own.pdf(z) / scales[chosen] * np.cosh(u) * (u[1] - u[0])
    chance = density @ other.cdf(limit)
    below = means[0, 1 - chosen] * other.cdf(limit) + scales[1 - chosen] * other.partial_mean(limit)
    assert found.chance[0, chosen] == pytest.approx(chance, abs=QUADRATURE)
    given = found.given_seen[0, :, chosen]
    assert given[chosen] == pytest.approx((density * y) @ other.cdf(limit) / chance, abs=MEANS)
    assert given[1 - chosen] == pytest.approx(density @ below / chance, abs=MEANS)
