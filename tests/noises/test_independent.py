from __future__ import annotations

import numpy as np
import pytest

import selfselect as ss
from selfselect.errors import OptionError
from selfselect.noises import Independent, as_noise

LABELS = ["a", "b", "c"]


def test_no_noise_given_is_independent_noise_with_a_scale_each():
    assert as_noise(None) == Independent(scale="each")


@pytest.mark.parametrize("wrong", ["unheard of", 1.0, Independent])
def test_what_is_not_a_noise_is_refused(wrong):
    with pytest.raises(OptionError, match="independent"):
        as_noise(wrong)


@pytest.mark.parametrize(
    ("scale", "fixed"),
    [
        ("each", None),
        ("common", None),
        (2, [2, 2, 2]),
        (0.5, [0.5, 0.5, 0.5]),
        ([1.0, 2.0, 3.0], [1, 2, 3]),
        (np.array([1.0, 2.0, 3.0]), [1, 2, 3]),
        ({"b": 2.0, "a": 1.0, "c": 3.0}, [1, 2, 3]),
    ],
)
def test_fixed_scales_come_in_the_order_of_the_alternatives(scale, fixed):
    found = Independent(scale=scale).fixed_scales(LABELS)
    assert found is None if fixed is None else np.array_equal(found, fixed)


@pytest.mark.parametrize("scale", [np.array([1.0, 1.1, 0.9]), (1.0, 1.1, 0.9)])
def test_scales_may_be_an_array(world, scale):
    named = world("max", 200).fit(noise=Independent(scale=dict(zip("abc", scale, strict=True))))
    given = world("max", 200).fit(noise=Independent(scale=scale))
    np.testing.assert_array_equal(given.params, named.params)
    np.testing.assert_array_equal(given.scales, scale)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan, [1.0, -1.0], {"a": 0.0}, True])
def test_a_scale_must_be_a_positive_number(scale):
    with pytest.raises(OptionError, match="positive number"):
        Independent(scale=scale)


def test_bad_scales_say_what_is_possible():
    with pytest.raises(OptionError, match=r"'each' .*'common'"):
        Independent(scale="shared")
    with pytest.raises(OptionError, match="2 scales are given for 3"):
        Independent(scale=[1.0, 2.0]).fixed_scales(LABELS)
    with pytest.raises(OptionError, match="No scale is given for b, c"):
        Independent(scale={"a": 1.0}).fixed_scales(LABELS)
    with pytest.raises(OptionError, match="'d'"):
        Independent(scale={"d": 1.0}).fixed_scales(LABELS)


def test_draws_have_the_scales_asked_for_and_no_correlation():
    draws = Independent().draw(100_000, [0.5, 1.0, 3.0], LABELS, np.random.default_rng(0))
    np.testing.assert_allclose(draws.std(axis=0), [0.5, 1.0, 3.0], rtol=0.02)
    assert np.abs(np.corrcoef(draws.T) - np.eye(3)).max() < 0.02


def test_names_say_that_independence_is_assumed():
    for scale in ("each", "common", 1.0, [1.0, 2.0]):
        assert "independent across alternatives (assumed)" in Independent(scale=scale).name
    assert ss.noises.Independent is Independent


class StudentT(Independent):
    """Draws from another distribution, and says so in its name."""

    @property
    def name(self):
        return "Student t"

    def draw(self, n_rows, scales, alternatives, rng):
        return rng.standard_t(3, (n_rows, len(alternatives))) * np.asarray(scales)


class Laplace:
    """Has all that the protocol names, and no likelihood."""

    scale = "each"
    name = "Laplace"

    def fixed_scales(self, _):
        return None

    def extras(self, _):
        return ()

    def renumbered(self, order):
        return order[:0]

    def draw(self, n_rows, scales, alternatives, rng):
        return rng.laplace(size=(n_rows, len(alternatives))) * np.asarray(scales)


@pytest.mark.parametrize("noise", [StudentT(), Laplace()], ids=lambda noise: noise.name)
def test_a_noise_without_a_likelihood_is_refused_by_fits_and_drawn_from(noise):
    table = {"x": np.linspace(-1.0, 1.0, 60)}
    truth = {"a": {"Intercept": 0.0, "x": 1.0}, "b": {"Intercept": 0.0, "x": -1.0}}
    sample = ss.simulate(truth, table, noise=noise, scales=1.0, seed=1)
    wanted = rf"no likelihood for {type(noise).__name__} \({noise.name}\).*Independent, Mixture"
    for door in (ss.fit, ss.pose):
        with pytest.raises(OptionError, match=wanted):
            door("outcome ~ x", sample.data, chosen="chosen", noise=noise)
    with pytest.raises(OptionError, match=wanted):
        ss.choose_alternatives("outcome ~ x", sample.data, [1, 2], noise=noise)
