"""Means of the noises of a choice, and the regressors made of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from selfselect.errors import OptionError
from selfselect.multinomial.corrections import (
    CORRECTIONS,
    Correction,
    chosen_normal,
    find_correction,
    unchosen_gumbel,
    unchosen_normal,
)

EXPECTED_LARGEST = {1: 0.0, 2: 0.5641895835, 3: 0.8462843753, 5: 1.1629644736, 10: 1.5387527308}
"""Of so many standard normal numbers, from tables of order statistics."""


def test_a_chosen_normal_noise_is_the_largest_of_so_many() -> None:
    found, _ = chosen_normal(np.log(list(EXPECTED_LARGEST)))
    np.testing.assert_allclose(found, list(EXPECTED_LARGEST.values()), atol=2e-9)


@pytest.mark.parametrize("function", [chosen_normal, unchosen_normal, unchosen_gumbel])
def test_slopes_are_those_of_differences(function: object) -> None:
    t = np.array([2e-3, 0.01, 0.039, 0.041, 0.3, 1.7, 5.01, 20.0, 39.9])
    step = 1e-4 * t
    assert callable(function)
    up, down = (function(t + sign * step)[0] for sign in (1, -1))
    np.testing.assert_allclose(function(t)[1], (up - down) / (2 * step), rtol=1e-6, atol=1e-8)


def test_a_noise_has_mean_zero_over_choosing_and_not_choosing() -> None:
    t = np.array([1e-4, 2e-3, 0.01, 0.02, 0.039, 0.041, 0.3, 1.7, 5.01, 20.0])
    chosen, unchosen = chosen_normal(t)[0], unchosen_normal(t)[0]
    chance, rest = np.exp(-t), -np.expm1(-t)
    np.testing.assert_allclose(chance * chosen + rest * unchosen, 0.0, atol=1e-12)


def test_limits_are_reached_without_warnings() -> None:
    ends = np.array([0.0, 1e-12, 700.0])
    for function in (chosen_normal, unchosen_normal, unchosen_gumbel):
        assert all(np.isfinite(one).all() for one in function(ends))
    np.testing.assert_allclose(unchosen_gumbel(ends)[0], [-1.0, -1.0, 0.0], atol=1e-11)


def test_means_of_noises_are_those_of_simulated_choices() -> None:
    rng = np.random.default_rng(2)
    utility = np.array([0.2, -0.4, 0.7])
    noise = rng.gumbel(size=(400_000, 3))
    chosen = (utility + noise).argmax(axis=1)
    log_p = (utility - np.log(np.exp(utility).sum()))[None, :]
    turned = ndtri(np.exp(-np.exp(-noise)))
    for correction, noises in (("dmf1", noise - np.euler_gamma), ("dmf2", turned)):
        for given in range(3):
            made = find_correction(correction, None).regressors(log_p, 0, given).values[0]
            # Means over 80,000 and more rows of noises with a spread of about 1.3.
            np.testing.assert_allclose(noises[chosen == given].mean(axis=0), made, atol=0.015)


@pytest.mark.parametrize("word", CORRECTIONS)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_regressors_move_with_chances_as_their_slopes_say(word: str, k: int) -> None:
    rng = np.random.default_rng(k)
    utility = rng.standard_normal((6, k))
    log_p = utility - np.log(np.exp(utility).sum(axis=1, keepdims=True))
    correction = find_correction(word, None)
    for own in range(k):
        made = correction.regressors(log_p, own, own)
        assert made.values.shape[1] == len(correction.terms(own, range(k)))
        for m in range(k):
            step = np.zeros(k)
            step[m] = 1e-6
            up, down = (correction.regressors(log_p + s * step, own, own).values for s in (1, -1))
            np.testing.assert_allclose(
                made.slopes[:, :, m], (up - down) / 2e-6, rtol=1e-6, atol=1e-8
            )


@pytest.mark.parametrize("word", ["dmf0", "dmf1", "dmf2"])
def test_mean_noise_is_zero_over_all_choices(word: str) -> None:
    utility = np.random.default_rng(0).standard_normal((5, 4))
    log_p = utility - np.log(np.exp(utility).sum(axis=1, keepdims=True))
    correction: Correction = find_correction(word, None)
    for own in range(4):
        total = sum(
            np.exp(log_p[:, [given]]) * correction.regressors(log_p, own, given).values
            for given in range(4)
        )
        np.testing.assert_allclose(total, 0.0, atol=1e-9)


def test_an_alternative_that_is_not_available_says_nothing() -> None:
    log_p = np.log(np.array([[0.4, 0.6, 1.0]]))
    log_p[0, 2] = -np.inf
    for word in ("dmf1", "dmf2"):
        made = find_correction(word, None).regressors(log_p, 0, 0)
        assert made.values[0, 2] == pytest.approx(0.0, abs=1e-200)
        assert np.isfinite(made.slopes).all()


def test_what_is_no_correction_is_refused() -> None:
    with pytest.raises(OptionError, match="dmf0, dmf1, dmf2, lee, dahl"):
        find_correction("heckman", None)
    with pytest.raises(OptionError, match="has no degree"):
        find_correction("lee", 2)
    for degree in (0, 7, 2.5, True):
        with pytest.raises(OptionError, match="whole number from 1 to 6"):
            find_correction("dahl", degree)
