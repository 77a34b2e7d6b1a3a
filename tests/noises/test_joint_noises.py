"""Noises that join the alternatives: what may be given, names, draws."""

from __future__ import annotations

import numpy as np
import pytest

from selfselect.errors import OptionError
from selfselect.noises import Correlated, KnownCovariance, SharedShock, as_noise

LABELS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("word", "noise"),
    [("correlated", Correlated), ("shared shock", SharedShock), ("shared-shock", SharedShock)],
)
def test_noises_have_names(word, noise):
    assert as_noise(word) == noise()


@pytest.mark.parametrize("value", [1.0, -1.0, 1.5, -7])
def test_a_correlation_lies_between_minus_one_and_one(value):
    with pytest.raises(OptionError, match="between -1 and 1"):
        Correlated(correlation=value)
    with pytest.raises(OptionError, match="between -1 and 1"):
        Correlated(correlation={("a", "b"): value})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]]), "not positive definite"),
        ({("a", "b"): 0.9, ("a", "c"): 0.9, ("b", "c"): -0.9}, "not positive definite"),
        (-0.6, "not positive definite"),
        (np.eye(2), r"shape \(2, 2\); for 3 alternatives"),
        (np.array([[1, 0.5, 0], [0.4, 1, 0], [0, 0, 1]]), "symmetric"),
        (np.diag([2.0, 2.0, 2.0]) * 0.4, "diagonal of a matrix of correlations is 1"),
        ({("a", "d"): 0.5}, r"not a pair of two of the alternatives \(a, b, c\)"),
        ({("a", "a"): 0.5}, "not a pair"),
        ({"ab": 0.5}, "not a pair"),
    ],
)
def test_correlations_of_no_distribution_are_refused(given, message):
    with pytest.raises(OptionError, match=message):
        Correlated(correlation=given).extras(LABELS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Correlated(correlation="some"), "'each' .*'common'"),
        (lambda: Correlated(correlation=[0.5]), "The matrix of correlations"),
        (lambda: Correlated(correlation=None), "a number between -1 and 1"),
        (lambda: Correlated(scale=-1.0), "positive number"),
        (lambda: Correlated(draws=2), "at least 16"),
        (lambda: Correlated(draws=100.5), "at least 16"),
        (lambda: SharedShock(loading="some"), "'each' .*'common'"),
        (lambda: SharedShock(loading=np.nan), "finite number"),
        (lambda: SharedShock(loading={"a": np.inf}), "finite number"),
        (lambda: SharedShock(loading=[0.5, 0.5]), "a number, or numbers by alternative"),
        (lambda: SharedShock(nodes=2), "at least 3"),
        (lambda: SharedShock(scale="some"), "'each' .*'common'"),
    ],
)
def test_bad_options_say_what_is_possible(make, message):
    with pytest.raises(OptionError, match=message):
        make().extras(LABELS)


def test_two_loadings_and_two_scales_cannot_be_told_apart():
    with pytest.raises(OptionError, match=r"cannot be told apart.*scale='common'"):
        SharedShock(loading="each").extras(["a", "b"])
    assert len(SharedShock(loading="each", scale="common").extras(["a", "b"])) == 2
    assert SharedShock().extras(["a", "b"])[1].tied_to == 0


def test_a_loading_of_nobody_is_refused():
    with pytest.raises(OptionError, match="'d'"):
        SharedShock(loading={"d": 0.5}).extras(LABELS)


def test_correlations_that_leave_room_for_the_others_are_taken():
    """Two of 0.9 need a third of at least 0.62: zero is no place to begin."""
    extras = Correlated(correlation={("a", "b"): 0.9, ("a", "c"): 0.9}).extras(LABELS)
    assert [extra.fixed for extra in extras] == [0.9, 0.9, None]
    assert extras[2].start > 0.62
    assert [extra.start for extra in Correlated().extras(LABELS)] == [0.0, 0.0, 0.0]


def test_fixed_values_are_found_whatever_the_order_of_the_pair():
    fixed = [extra.fixed for extra in Correlated(correlation={("c", "a"): 0.3}).extras(LABELS)]
    assert fixed == [None, 0.3, None]


@pytest.mark.parametrize("noise", [Correlated(), SharedShock()])
def test_noise_is_drawn_only_where_all_of_it_is_known(noise):
    with pytest.raises(OptionError, match="must be known"):
        noise.draw(10, [1.0, 1.0, 1.0], LABELS, np.random.default_rng(0))


def test_draws_have_the_covariance_asked_for():
    matrix = np.array([[1.0, 0.5, -0.2], [0.5, 1.0, 0.3], [-0.2, 0.3, 1.0]])
    rng = np.random.default_rng(0)
    drawn = Correlated(correlation=matrix).draw(200_000, [0.5, 1.0, 2.0], LABELS, rng)
    np.testing.assert_allclose(np.corrcoef(drawn.T), matrix, atol=0.01)
    np.testing.assert_allclose(drawn.std(axis=0), [0.5, 1.0, 2.0], rtol=0.01)
    loadings = {"a": 0.8, "b": -0.5, "c": 0.0}
    drawn = SharedShock(loading=loadings).draw(200_000, [0.5, 1.0, 2.0], LABELS, rng)
    b = np.array(list(loadings.values()))
    wanted = np.diag([0.25, 1.0, 4.0]) + np.outer(b, b)
    np.testing.assert_allclose(np.cov(drawn.T), wanted, atol=0.03)


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2]])
def test_correlations_follow_their_alternatives_to_another_order(order):
    values = np.array([12.0, 13.0, 23.0])
    moved = values[Correlated().renumbered(np.array(order))]
    pairs = [(0, 1), (0, 2), (1, 2)]
    wanted = [float("".join(str(1 + m) for m in sorted((order[j], order[m_])))) for j, m_ in pairs]
    np.testing.assert_array_equal(moved, wanted)


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        (Correlated(), "correlated across alternatives; one scale per alternative"),
        (Correlated(correlation="common"), "one correlation for all pairs"),
        (Correlated(correlation={("a", "b"): 0.1}), "some correlations fixed"),
        (SharedShock(loading=2.0), "loading fixed at 2"),
        (SharedShock(loading={"a": 2.0}), "some loadings fixed"),
    ],
)
def test_names_say_what_is_free(noise, said):
    assert said in noise.name


COVARIANCE = [[1.0, 0.6, 0.0], [0.6, 4.0, -0.5], [0.0, -0.5, 2.0]]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.5]], r"square matrix of finite numbers; it has shape \(1, 2\)"),
        ([1.0, 2.0], r"square matrix of finite numbers; it has shape \(2,\)"),
        ([[1.0, np.nan], [np.nan, 1.0]], "square matrix of finite numbers"),
        ([[1.0, 0.5], [0.4, 1.0]], "not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ([["one", 0.0], [0.0, 1.0]], "must hold numbers"),
    ],
)
def test_a_known_covariance_must_be_one(matrix, message):
    with pytest.raises(OptionError, match=message):
        KnownCovariance(matrix)


def test_a_known_covariance_is_given_in_order_or_by_alternative():
    named = KnownCovariance(
        {"c": {"c": 2.0, "b": -0.5}, "a": {"a": 1.0, "b": 0.6, "c": 0.0}, "b": {"b": 4.0}}
    )
    for noise in (KnownCovariance(COVARIANCE), named):
        np.testing.assert_array_equal(noise.covariance(LABELS), COVARIANCE)
        np.testing.assert_allclose(noise.fixed_scales(LABELS), np.sqrt([1.0, 4.0, 2.0]))
        assert noise.known_correlation(LABELS)[0, 1] == pytest.approx(0.3)
    with pytest.raises(OptionError, match="3 rows but there are 2 alternatives: a, b"):
        KnownCovariance(COVARIANCE).covariance(["a", "b"])
    with pytest.raises(OptionError, match="No covariance is given for 'a' and 'b'"):
        KnownCovariance({"a": {"a": 1.0}, "b": {"b": 1.0}}).covariance(["a", "b"])


def test_draws_have_the_known_covariance():
    drawn = KnownCovariance(COVARIANCE).draw(200_000, (), LABELS, np.random.default_rng(1))
    np.testing.assert_allclose(np.cov(drawn.T), COVARIANCE, atol=0.05)
    assert KnownCovariance(np.diag([1.0, 4.0, 2.0])).known_correlation(LABELS) is None


def test_correlations_near_a_limit_are_asked_nearer_to_it_and_others_stay():
    """Whether one runs to its limit is asked between the two: a fall elsewhere tells nothing."""
    correlations = np.array([0.9965, -0.9990, 0.4, -1.0])
    asked = Correlated().at_limit(correlations)
    assert asked is not None
    near, beyond = np.abs(correlations[:2]), np.abs(asked[:2])
    assert (np.sign(asked[:2]) == np.sign(correlations[:2])).all()
    assert (near < beyond).all() and (beyond < 1.0).all()
    assert asked[2:].tolist() == correlations[2:].tolist()
    assert Correlated().at_limit(np.array([0.4, 0.4, -1.0])) is None


def test_correlations_that_are_nearly_impossible_together_are_asked_nearer_to_that():
    asked = Correlated().at_limit(np.array([-0.499, -0.499, -0.499]))
    assert asked is not None and (asked > -0.5).all() and (asked < -0.4997).all()
    assert Correlated().at_limit(np.array([-0.4, -0.4, -0.4])) is None
    # For two alternatives it is the same question as for their one correlation.
    assert Correlated().at_limit(np.array([0.996])) == pytest.approx(0.9996)
