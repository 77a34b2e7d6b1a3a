"""The kernels for tensors against their NumPy oracles, row by row and in the far tails."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from selfselect.kernels import tails, torch_card, torch_known, torch_rows  # noqa: E402
from selfselect.kernels.known_index import (  # noqa: E402
    ABOVE,
    BELOW,
    MAYBE,
    OBSERVED,
    UNKNOWN,
    row_terms,
)
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
    found, wanted = torch_rows.tails(tensor(FAR)), mills_terms(FAR)
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
    found, wanted = torch_rows.interval(tensor(lower), tensor(upper)), interval_terms(lower, upper)
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
    value = float(found.loglik) - observed * torch_rows.HALF_LOG_TWO_PI
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
    found = torch_known.unknown_terms(
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
    found = torch_known.unknown_terms(tensor([[np.nan], [1.0]]), h, status, None, side=1.0)
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


ROOM = 228 * 1024
"""Shared memory of a multiprocessor of a large card."""


@pytest.mark.parametrize("curvature", ["none", "complete", "exact"])
@pytest.mark.parametrize("known", [True, False])
def test_a_pass_is_cut_so_that_every_gram_matrix_has_a_warp_and_blocks_fit(known, curvature):
    for width in (3, 8, 22, 32):
        for k in (1, 2, 3, 4, 7):
            sizes = torch_card.Sizes.of(k, known=known, curvature=curvature)
            shape = torch_card.PassShape.of(width, k, sizes, ROOM)
            fits = torch_card.fits(width, k, known=known, curvature=curvature, room=ROOM)
            assert fits == (shape is not None)
            if shape is not None:
                assert shape.team * shape.each >= sizes.grams
                assert shape.team * shape.blocks <= torch_card.MOST_WARPS
                assert shape.blocks * (shape.shared_bytes + 1024) <= ROOM
    assert not torch_card.fits(22, 3, known=known, curvature=curvature, room=0)
    assert not torch_card.fits(22, 8, known=known, curvature=curvature, room=ROOM)


def test_sources_for_a_card_carry_sizes_and_the_polynomials():
    text = torch_card.source("sums.cu", WIDTH=22, K=3)
    assert text.startswith("#define WIDTH 22\n#define K 3\n")
    assert f"{tails.GAP[0]!r}, {tails.GAP[1]!r}" in text
    assert text.index("known_row(double at") < text.index("sum_rows(const double *table")
    assert "unknown_terms(const double *given" in torch_card.source("terms.cu", K=2)


on_a_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no card")


@on_a_card
@pytest.mark.parametrize("code", [OBSERVED, BELOW, ABOVE, UNKNOWN])
def test_a_row_on_a_card_agrees_at_any_distance(code):
    a = tensor(np.clip(FAR, -1e8, 1e8))[None]
    status = torch.full(a.shape, code, dtype=torch.int8)
    wanted = torch_known.known_terms(a, status, None)
    found = torch_card.known_terms(a.cuda(), status.cuda(), None)
    for name in ("residual", "curvature", "loglik", "observed"):
        np.testing.assert_allclose(
            getattr(found, name).cpu(), getattr(wanted, name), rtol=TERM, atol=TINY
        )


@on_a_card
@pytest.mark.parametrize(
    ("width", "k", "n_rows"),
    [(2, 1, 1), (7, 2, 33), (8, 3, 1_000), (22, 3, 4_097), (22, 6, 777), (24, 4, 640), (31, 7, 95),
     (32, 5, 2_001), (33, 3, 500), (64, 4, 501), (70, 2, 300), (5, 8, 250)],
)  # fmt: skip
def test_sums_on_a_card_agree_whatever_the_width(width, k, n_rows):
    rng = np.random.default_rng(width * k)
    table = rng.normal(size=(width, n_rows + 1))
    table[-2] = 1.0
    parameters = rng.normal(size=(3, k, width)) / np.sqrt(width)
    parameters[:, :, -1] = rng.uniform(0.5, 2.0, (3, k))
    weights = rng.uniform(0, 2, n_rows + 1)
    known = rng.choice([OBSERVED, BELOW, ABOVE, UNKNOWN], (k, n_rows + 1)).astype(np.int8)
    maybe = rng.choice([MAYBE, MAYBE, UNKNOWN], (k, n_rows + 1)).astype(np.int8)
    for status, first in ((known, 0), (known, 1), (maybe, 0), (maybe, 1)):
        # Rows that start at an odd place are not aligned.
        whole = torch_rows.TensorRows(tensor(table), tensor(status), tensor(weights))
        rows = whole.slice(first, first + n_rows)
        moved = torch_rows.TensorRows(
            tensor(table).cuda(), tensor(status).cuda(), tensor(weights).cuda(),
            codes=torch_rows.pack(tensor(status).cuda()),
        ).slice(first, first + n_rows)  # fmt: skip
        places, there = tensor(parameters), tensor(parameters).cuda()
        if status is known:
            for curved in (False, True):
                wanted = torch_known.sum_known_rows(rows, places[0], curved=curved)
                found = torch_card.sum_known_rows(moved, there[0], curved=curved)
                assert_close(found, wanted)
            continue
        for side in (1.0, -1.0):
            for curvature in ("none", "complete", "exact"):
                options = {"side": side, "curvature": curvature}
                wanted = torch_known.sum_unknown_rows(rows, places[0], **options)
                assert_close(torch_card.sum_unknown_rows(moved, there[0], **options), wanted)
            wanted = torch_known.sum_unknown_places(rows, places, side=side)
            assert_close(torch_card.sum_unknown_places(moved, there, side=side), wanted)


def assert_close(found, wanted):
    scale = max(float(wanted.abs().max()), 1.0)
    np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), rtol=0, atol=TERM * scale)
