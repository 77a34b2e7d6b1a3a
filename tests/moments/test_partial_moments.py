"""Partial moments where shapes are mixtures or bounds are far out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from selfselect.moments import _expectations
from selfselect.moments._expectations import chances, expectations
from selfselect.moments.margins import PartialMoments, partial_moments, partial_values
from selfselect.noises.shapes._mixture import MixtureShape
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.rules import Maximum, Minimum, MonotoneArgmax, Ranked
from selfselect.rules.base import RowData

RULES: dict[str, Any] = {
    "max": Maximum(),
    "min": Minimum(),
    "transforms": MonotoneArgmax(["exp", "negative", (np.arcsinh, np.sinh)]),
    "ranked": Ranked(2),
}
SCALES = {"alike": np.array([1.0, 0.8, 1.3]), "steep": np.array([1.0, 0.05, 3.0])}

QUADRATURE = 1e-6
"""Gauss-Legendre on pieces, on either side of the comparison."""


def known_of(n_rows: int, rng: np.random.Generator) -> RowData:
    """Make costs, and availability that leaves the first alternative open to all."""
    available = rng.uniform(size=(n_rows, 3)) < 0.7
    available[:, 0] = True
    return RowData(rng.uniform(0, 1, (n_rows, 3)), available)


def moments(
    rule: str, scales: str, known: bool, n_rows: int = 30
) -> tuple[PartialMoments, np.ndarray, RowData]:
    rng = np.random.default_rng(5)
    means = rng.normal(size=(n_rows, 3))
    rows = known_of(n_rows, rng) if known else RowData()
    return (
        partial_moments(RULES[rule], means, SCALES[scales], rows, [NORMAL] * means.shape[1]),
        means,
        rows,
    )


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_trapezoid_rule_has_nine_digits(name: str) -> None:
    found, means, _ = moments(name, "alike", known=False)
    np.testing.assert_allclose(found.value[:, 1:].sum(axis=2), means, atol=1e-9)


def test_bounds_beyond_all_numbers_are_no_trouble() -> None:
    rule = MonotoneArgmax(["exp", "log"])
    means = np.array([[0.0, 1.0], [300.0, -200.0]])
    found = partial_moments(rule, means, np.array([1.0, 1.0]), RowData(), [NORMAL] * means.shape[1])
    assert np.isfinite(found.value).all()
    assert np.isfinite(found.by_mean).all() and np.isfinite(found.by_scale).all()
    assert found.value[1, 0].tolist() == pytest.approx([1.0, 0.0])


def skewed_mixture(share: float, spread: float) -> MixtureShape:
    """Return a mixture of two normals with mean zero and variance one."""
    shares, means = np.array([share, 1 - share]), np.array([-0.9, 0.9 * share / (1 - share)])
    left = 1 - shares @ means**2
    spreads = np.array([spread, np.sqrt((left - share * spread**2) / (1 - share))])
    return MixtureShape(np.column_stack([shares, means, spreads]))


MIXTURES = {
    "one each": [skewed_mixture(0.4, 0.5), skewed_mixture(0.3, 0.7), skewed_mixture(0.2, 0.3)],
    "one for all": [skewed_mixture(0.4, 0.5)] * 3,
    "beside normal": [skewed_mixture(0.3, 0.6), NORMAL, NORMAL],
}


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("shapes", MIXTURES)
def test_mixtures_of_normals_by_the_kernel_are_those_by_quadrature(
    name: str, shapes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    means, scales, margins = rng.normal(size=(40, 3)), SCALES["alike"], MIXTURES[shapes]
    asked = (RULES[name], means, scales, known_of(40, rng), margins)
    assert _expectations.of_largest(RULES[name], scales, margins)
    fast, fast_chances, expected = partial_moments(*asked), chances(*asked), expectations(*asked)
    monkeypatch.setattr(_expectations, "MOST_COMBINATIONS", 0)
    slow, reference = partial_moments(*asked), expectations(*asked)
    for field in ("value", "by_mean", "by_scale"):
        np.testing.assert_allclose(getattr(fast, field), getattr(slow, field), atol=QUADRATURE)
    np.testing.assert_allclose(fast_chances, reference.chance, atol=QUADRATURE)
    np.testing.assert_allclose(expected.given_seen, reference.given_seen, atol=1e-4)


def far_component(share: float, mean: float) -> MixtureShape:
    """Return a mixture of mean zero and variance one whose second component is small and far."""
    rest = -share * mean / (1 - share)
    left = 1 - share * (mean**2 + 1) - (1 - share) * rest**2
    return MixtureShape(
        np.array([[1 - share, rest, np.sqrt(left / (1 - share))], [share, mean, 1.0]])
    )


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_a_small_component_far_out_leaves_the_tail_of_the_large_one_resolved(way: float) -> None:
    shape, rule = far_component(0.005, way * 12.0), MonotoneArgmax([1.0, 1.0])
    means, scales = np.array([[0.0, 1.5], [0.0, -1.5]]), np.array([1.0, 0.1])
    asked = (rule, means, scales, RowData(), [shape] * 2)
    y = np.linspace(-25.0, 25.0, 2_000_001)
    for row, mean in enumerate(means):
        below = shape.cdf((y - mean[1]) / scales[1])
        first = float(np.trapezoid(shape.pdf(y - mean[0]) * below, y))
        for found in (chances(*asked), partial_moments(*asked).value[:, 0]):
            assert found[row, 0] == pytest.approx(first, abs=1e-9)


def test_a_component_without_a_share_changes_nothing() -> None:
    shape = MixtureShape(np.array([[1.0, 0.0, 1.0], [1e-20, 0.5, 0.7]]))
    means, scales = np.array([[0.0, 1.0, 0.5]]), SCALES["alike"]
    one, other = (
        partial_moments(Maximum(), means, scales, RowData(), [margin] * 3)
        for margin in (shape, NORMAL)
    )
    for field in ("value", "by_mean", "by_scale"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), atol=1e-12)
    alone = partial_values(Maximum(), means, scales, RowData(), [shape] * 3)
    np.testing.assert_allclose(alone, other.value, atol=1e-12)
