"""The kernels for tensors against their NumPy oracles, row by row and in the far tails."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from selfselect.kernels import torch_known, torch_rows, torch_tails, torch_unknown  # noqa: E402
from selfselect.kernels.known_index import row_terms  # noqa: E402
from selfselect.kernels.status import ABOVE, BELOW, MAYBE, OBSERVED, UNKNOWN  # noqa: E402
from selfselect.kernels.tails import interval_terms, mills_terms  # noqa: E402
from selfselect.kernels.unknown_index import memberships  # noqa: E402

TERM = 1e-12
"""One row alone: the oracle's own curvature loses 900 ulps next to its far-left threshold."""

TINY = 1e-290
"""Below this the density is zero or has few digits left on one side."""

FAR = np.concatenate(
    [
        -np.geomspace(1e-8, 1e8, 400),
        np.geomspace(1e-8, 1e4, 400),
        np.linspace(-40, 40, 1_601),
        [0.0, -0.0, -30.0, np.nextafter(-30.0, 0)],
    ]
)
"""Distances from next to zero to far beyond where densities underflow."""


def tensor(values):
    return torch.from_numpy(np.ascontiguousarray(values))


def test_tails_agree_with_the_oracle_at_any_distance():
    found, wanted = torch_tails.tails(tensor(FAR)), mills_terms(FAR)
    slope = (found.ratio * found.excess).numpy()
    np.testing.assert_allclose(found.log_cdf.numpy(), wanted.log_cdf, rtol=TERM, atol=TINY)
    np.testing.assert_allclose(found.ratio.numpy(), wanted.ratio, rtol=TERM, atol=TINY)
    np.testing.assert_allclose(slope, wanted.slope, rtol=TERM, atol=TINY)
    near = np.abs(FAR) < 37
    np.testing.assert_allclose(
        found.log_ratio.numpy()[near], np.log(wanted.ratio[near]), rtol=TERM, atol=TERM
    )


@pytest.mark.parametrize("width", [1e-9, 1e-3, 0.3, 0.999, 1.0, 1.7, 8.0, 50.0])
@pytest.mark.parametrize("start", [-300.0, -20.0, -3.0, -0.4, 0.0, 0.2, 2.0, 12.0, 200.0])
def test_intervals_agree_with_the_oracle(start, width):
    lower, upper = np.array([start]), np.array([start + width])
    found, wanted = torch_tails.interval(tensor(lower), tensor(upper)), interval_terms(lower, upper)
    np.testing.assert_allclose(found.log_mass.numpy(), wanted.log_mass, rtol=TERM, atol=1e-15)
    for name in ("lower_density", "upper_density"):
        np.testing.assert_allclose(
            getattr(found, name).numpy(), getattr(wanted, name), rtol=TERM, atol=TINY
        )


@pytest.mark.parametrize("code", [OBSERVED, BELOW, ABOVE, UNKNOWN])
def test_a_row_of_the_known_index_agrees_with_the_oracle_at_any_distance(code):
    a = np.clip(FAR, -1e8, 1e8)
    status = np.full(len(a), code, np.int8)
    found = torch_known.known_terms(tensor(a)[None], tensor(status)[None], None)
    wanted = row_terms(-a, 1.0, status=status, limit=np.zeros(len(a)), upper=None)
    np.testing.assert_allclose(found.residual[0].numpy(), wanted.residual, rtol=TERM, atol=TINY)
    np.testing.assert_allclose(found.curvature[0].numpy(), -wanted.curvature, rtol=TERM, atol=TINY)
    observed = len(a) * (code == OBSERVED)
    assert float(found.observed[0]) == observed
    value = float(found.loglik) - observed * torch_tails.HALF_LOG_TWO_PI
    assert value == pytest.approx(wanted.loglik.sum(), rel=TERM)


def test_a_limit_that_means_nothing_may_be_nan():
    status = tensor(np.array([[UNKNOWN, BELOW]], np.int8))
    found = torch_known.known_terms(tensor([[np.nan, 0.5]]), status, tensor([2.0, 1.0]))
    assert found.residual[0, 0] == found.curvature[0, 0] == 0.0
    assert float(found.loglik) == pytest.approx(mills_terms(np.array([0.5])).log_cdf[0])


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("spread", [0.5, 5.0, 30.0])
def test_a_row_of_the_unknown_index_agrees_with_the_oracle(side, spread):
    rng = np.random.default_rng(3)
    location, limit = spread * rng.normal(size=(500, 3)), spread * rng.normal(size=500)
    h, weights = np.array([0.7, 1.1, 2.0]), rng.uniform(0, 2, 500)
    candidate = rng.uniform(size=(500, 3)) < 0.7
    candidate[:, 0] |= ~candidate.any(axis=1)
    wanted = memberships(location, h, limit, side=side, candidate=candidate)
    status = np.where(candidate, MAYBE, UNKNOWN).astype(np.int8)
    found = torch_unknown.unknown_terms(
        tensor((side * (h * limit[:, None] - location)).T),
        tensor(h),
        tensor(status.T),
        tensor(weights),
        side=side,
    )
    # The oracle compares logarithms of densities, whose size limits the digits of a probability.
    loose = TERM * (1.0 + spread**2)
    np.testing.assert_allclose(found.loglik.numpy(), wanted.loglik * weights, rtol=loose)
    np.testing.assert_allclose(found.chance.numpy().T, wanted.chance, rtol=loose, atol=TERM)
    residual = side * (wanted.chance * (wanted.a + wanted.ratio) - wanted.ratio)
    np.testing.assert_allclose(
        found.residual.numpy().T, residual * weights[:, None], rtol=loose, atol=loose
    )


def test_a_row_to_which_nothing_is_open_adds_nothing():
    status = tensor(np.full((2, 1), UNKNOWN, np.int8))
    h = tensor(np.ones(2))
    found = torch_unknown.unknown_terms(tensor([[np.nan], [1.0]]), h, status, None, side=1.0)
    for part in vars(found).values():
        assert not part.any()


def test_gram_matrices_of_all_factors_come_from_one_product():
    rng = np.random.default_rng(4)
    table, factors = rng.normal(size=(4, 50)), rng.normal(size=(3, 50))
    found = torch_rows.weighted_grams(tensor(table), tensor(factors)).numpy()
    np.testing.assert_allclose(found, np.einsum("pn,jn,qn->jpq", table, factors, table), atol=TERM)


def test_codes_are_packed_where_they_fit():
    status = np.random.default_rng(5).integers(0, 8, (7, 40)).astype(np.int8)
    packed = torch_rows.pack(tensor(status)).numpy()
    for j, codes in enumerate(status):
        np.testing.assert_array_equal((packed >> (torch_rows.BITS * j)) & 15, codes)
    assert torch_rows.pack(tensor(np.zeros((8, 2), np.int8))) is None
