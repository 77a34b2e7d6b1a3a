"""Every sampler against rejection: one contract for all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import spearmanr

import selfselect as ss
from selfselect.errors import OptionError, RuleError, UnsupportedError
from selfselect.rules import ConvexRule, LinearArgmax, Maximum, Minimum, RowData
from selfselect.samplers import (
    Antithetic,
    BoxExact,
    EllipticalSlice,
    Gibbs,
    ProjectedLangevin,
    Rejection,
    Sampler,
    Target,
    effective_sample_size,
    split_r_hat,
)
from selfselect.samplers.chains import Chains, controlled

SAMPLERS = [
    BoxExact(), BoxExact(moments=False), EllipticalSlice(), Antithetic(), Gibbs(), Rejection(),
]  # fmt: skip

CORRELATION = 0.4 * np.ones((4, 4)) + 0.6 * np.eye(4)
CASES = {
    "box": (Maximum(), None),
    "other box": (Minimum(), None),
    "polyhedron": (LinearArgmax(np.eye(4) + 0.4 * np.roll(np.eye(4), 1, axis=1)), None),
    "curved": (ss.simulators.curved_rule(), None),
    "correlated": (LinearArgmax(np.eye(4) + 0.4 * np.roll(np.eye(4), 1, axis=1)), CORRELATION),
}
N_ROWS, N_STEPS, BURN = 160, 50, 20

DEVIATIONS = 4.5
"""Standard errors within which means over all rows must agree: 50 comparisons."""


def make_target(rule, correlation=None, n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    means, scales = 0.7 * rng.standard_normal((n_rows, 4)), np.array([0.8, 1.0, 1.2, 0.9])
    root = np.eye(4) if correlation is None else np.linalg.cholesky(correlation)
    latent = means + (rng.standard_normal((n_rows, 4)) @ root.T) * scales
    chosen = rule.choose(latent)
    return Target(rule, chosen, latent[np.arange(n_rows), chosen], means, scales, correlation)


def run(sampler, target, n_steps=N_STEPS, burn=BURN, seed=1):
    """Return the means over steps of `first` and `square`, and whether chains stayed inside."""
    rng = np.random.default_rng(seed)
    latent = sampler.init(target, rng)
    first, square = np.zeros_like(latent), np.zeros_like(latent)
    stayed = target.contains(latent).all()
    for number in range(burn + n_steps):
        draw = sampler.step(target, latent, rng)
        latent = draw.latent
        if number >= burn:
            first += draw.first / n_steps
            square += draw.square / n_steps
    return first, square, stayed and target.contains(latent).all(), latent


@pytest.fixture(scope="module")
def referee():
    made = {}
    for name, (rule, correlation) in CASES.items():
        target = make_target(rule, correlation)
        made[name] = target, run(Rejection(), target, n_steps=60, burn=0, seed=2)
    return made


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_a_sampler_agrees_with_rejection_and_stays_inside(sampler, case, referee):
    target, (mean, second, *_) = referee[case]
    if isinstance(sampler, BoxExact) and "box" not in case:
        with pytest.raises(UnsupportedError, match="BoxExact"):
            sampler.init(target, np.random.default_rng(0))
        return
    first, square, inside, latent = run(sampler, target)
    assert inside
    each = np.arange(len(target))
    assert (latent[each, target.chosen] == target.outcome).all()
    for ours, theirs in ((first, mean), (square, second)):
        gap = ours - theirs
        assert (gap[each, target.chosen] == 0).all()
        # Rows are independent, so their spread measures the error of the mean over rows.
        error = gap.std(axis=0) / np.sqrt(len(gap))
        assert (np.abs(gap.mean(axis=0)) < DEVIATIONS * error).all()


@pytest.mark.parametrize("case", ["box", "polyhedron", "correlated"])
def test_two_chains_per_row_agree_with_rejection_and_learn_whose_sets_are_narrow(case, referee):
    target, (mean, *_) = referee[case]
    n_rows, rng = len(target), np.random.default_rng(3)
    latent = EllipticalSlice().init(target, rng)
    # The last rows belong to another part of the data.
    chains = Chains.starting_at(np.stack([np.vstack([latent, latent[:7]])] * 2), None)
    walk = chains.walk(target, slice(n_rows))
    walk.follow(BURN, rng)
    first = sum(walk.step(rng).first for _ in range(N_STEPS)) / N_STEPS
    walk.rest()
    for own in chains.latent[:, :n_rows]:
        assert target.contains(own).all()
    gap = first.reshape(2, n_rows, -1).mean(axis=0) - mean
    error = gap.std(axis=0) / np.sqrt(n_rows)
    assert (np.abs(gap.mean(axis=0)) <= DEVIATIONS * error).all()
    assert (chains.share[n_rows:] == 0.5).all()
    tries = target.means[None] + [target.deviations(rng) for _ in range(400)]
    tries[:, np.arange(n_rows), target.chosen] = target.outcome
    inside = np.mean([target.contains(one) for one in tries], axis=0)
    assert spearmanr(chains.share[:n_rows], inside).statistic > 0.7


def test_samplers_keep_the_contract_and_do_not_change_what_they_are_given():
    target = make_target(Maximum())
    for sampler in [*SAMPLERS, ProjectedLangevin()]:
        assert isinstance(sampler, Sampler) and dataclasses.is_dataclass(sampler)
        latent = sampler.init(target, np.random.default_rng(0))
        before = latent.copy()
        one = sampler.step(target, latent, np.random.default_rng(1)).latent
        other = sampler.step(target, latent, np.random.default_rng(1)).latent
        np.testing.assert_array_equal(latent, before)
        np.testing.assert_array_equal(one, other)


def test_the_exact_moments_of_boxes_have_no_noise():
    target = make_target(Minimum())
    one, other = (run(BoxExact(), target, n_steps=1, burn=0, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])


def test_two_sided_boxes_are_drawn_within_their_bounds():
    def near(_, outcome):
        return outcome[:, None] - 0.5, outcome[:, None] + 0.5

    rule = ConvexRule(Maximum().choose, bounds=near)
    target = make_target(rule)
    first, square, *_ = run(BoxExact(moments=False), target, n_steps=1_000, burn=0)
    exact = run(BoxExact(), target, n_steps=1, burn=0)
    np.testing.assert_allclose(first.mean(axis=0), exact[0].mean(axis=0), atol=0.005)
    np.testing.assert_allclose(square.mean(axis=0), exact[1].mean(axis=0), atol=0.02)


def test_far_tails_are_drawn_exactly():
    means = np.array([[0.0, 40.0]])
    target = Target(Maximum(), np.array([0]), np.array([0.0]), means, np.ones(2))
    draw = BoxExact().step(target, means, np.random.default_rng(0))
    assert draw.latent[0, 1] <= 0.0
    # 40 scales into the tail the distance to the bound is exponential with mean 1/40.
    assert draw.first[0, 1] == pytest.approx(-40.0 - 1.0 / 40.0, abs=1e-3)


def halfspace():
    """A normal outcome known to be at most zero, with mean two scales above: section 2.2."""
    n_rows = 4_000
    means = np.tile([0.0, 2.0], (n_rows, 1))
    return Target(Maximum(), np.zeros(n_rows, int), np.zeros(n_rows), means, np.ones(2))


def test_langevin_has_a_bias_that_falls_with_the_square_root_of_its_step():
    target = halfspace()
    truth = run(BoxExact(), target, n_steps=1, burn=0)[0][:, 1].mean()
    bias = {}
    for gamma, steps in ((0.2, 60), (0.05, 240)):
        sampler = ProjectedLangevin(gamma, steps)
        latent, rng = sampler.init(target, np.random.default_rng(0)), np.random.default_rng(1)
        for _ in range(steps):
            latent = sampler.step(target, latent, rng).latent
        bias[gamma] = (latent - target.center)[:, 1].mean() - truth
        assert (latent[:, 1] <= 0).all() and (latent[:, 1] == 0).mean() > 0.1
    assert bias[0.2] == pytest.approx(0.169, abs=0.02)
    assert bias[0.05] == pytest.approx(0.099, abs=0.02)


def test_langevin_starts_at_the_projection_of_zero_within_its_ball():
    rule = LinearArgmax(np.eye(4) + 0.4 * np.roll(np.eye(4), 1, axis=1))
    target = make_target(rule)
    nothing = np.random.default_rng(0)
    start = ProjectedLangevin().init(target, nothing)
    zero = np.zeros_like(start)
    np.testing.assert_allclose(start, rule.project(zero, target.chosen, target.outcome), atol=1e-8)
    longest = np.linalg.norm(start - np.where(start == target.outcome[:, None], start, 0), axis=1)
    sampler = ProjectedLangevin(gamma=0.5, radius=float(longest.max()) + 0.3)
    others = np.arange(4) != target.chosen[:, None]
    latent, rng = sampler.init(target, nothing), np.random.default_rng(1)
    for _ in range(20):
        latent = sampler.step(target, latent, rng).latent
        assert (np.linalg.norm(latent * others, axis=1) <= sampler.radius + 1e-5).all()


def test_langevin_does_not_depend_on_the_unit_of_the_outcome():
    means, outcome = np.random.default_rng(2).normal(size=(50, 2)), np.linspace(-1.0, 2.0, 50)
    scales, chosen = np.array([0.5, 1.5]), np.arange(50) % 2
    ended = []
    for unit in (1.0, 7.0):
        target = Target(Maximum(), chosen, unit * outcome, unit * means, unit * scales)
        sampler, rng = ProjectedLangevin(gamma=0.5), np.random.default_rng(3)
        latent = sampler.init(target, rng)
        for _ in range(30):
            latent = sampler.step(target, latent, rng).latent
        ended.append(latent / unit)
    np.testing.assert_allclose(*ended, rtol=1e-9, atol=1e-9)


def test_a_ball_that_misses_a_set_is_refused():
    target = Target(Minimum(), np.array([0]), np.array([3.0]), np.array([[3.0, 4.0]]), np.ones(2))
    with pytest.raises(RuleError, match="does not meet the explaining sets"):
        ProjectedLangevin(radius=1.0).init(target, np.random.default_rng(0))


def test_langevin_needs_a_projection_and_says_what_does_not():
    target = make_target(ConvexRule(Maximum().choose))
    with pytest.raises(UnsupportedError, match=r"needs a rule with projection.*EllipticalSlice"):
        ProjectedLangevin().init(target, np.random.default_rng(0))


def test_steps_that_are_none_are_refused():
    with pytest.raises(OptionError, match="no step size"):
        ProjectedLangevin(gamma=0.0)
    with pytest.raises(OptionError, match="at least 1"):
        ProjectedLangevin(steps=0)


def test_rejection_gives_up_on_sets_of_vanishing_mass():
    target = Target(Maximum(), np.array([0]), np.array([0.0]), np.array([[0.0, 30.0]]), np.ones(2))
    with pytest.raises(RuleError, match="next to no mass"):
        Rejection(most_tries=50).init(target, np.random.default_rng(0))


def test_sets_far_from_the_mean_are_found_and_sampled():
    target = Target(Maximum(), np.array([0]), np.array([0.0]), np.array([[0.0, 12.0]]), np.ones(2))
    first, *_ = run(EllipticalSlice(), target, n_steps=4_000, burn=400)
    exact = run(BoxExact(), target, n_steps=1, burn=0)[0]
    assert first[0, 1] == pytest.approx(exact[0, 1], abs=0.05)


def test_rows_that_nothing_explains_are_counted_and_named():
    never = ConvexRule(lambda latent: np.zeros(len(latent), dtype=int))
    target = Target(never, np.array([0, 1, 1]), np.zeros(3), np.zeros((3, 2)), np.ones(2), start=10)
    with pytest.raises(RuleError, match=r"In 2 of 3 rows \(rows 11, 12\) no latent outcomes"):
        EllipticalSlice().init(target, np.random.default_rng(0))


def thin_choice(latent):
    return np.where(np.abs(latent[:, 1] - 50.0) < 1e-4, 0, 1)


def thin_projection(latent, _, outcome):
    moved = latent.copy()
    moved[:, 1] = np.clip(latent[:, 1], 50.0 - 1e-4, 50.0 + 1e-4)
    moved[:, 0] = outcome
    return moved


def test_a_projection_finds_sets_too_thin_to_be_hit():
    where = (np.zeros(5, int), np.zeros(5), np.zeros((5, 2)), np.ones(2))
    rng = np.random.default_rng(0)
    with pytest.raises(RuleError, match="give the rule a `project`"):
        EllipticalSlice().init(Target(ConvexRule(thin_choice), *where), rng)
    found = ConvexRule(thin_choice, project=thin_projection)
    latent = EllipticalSlice().init(Target(found, *where), rng)
    assert (np.abs(latent[:, 1] - 50.0) < 1e-4).all()


def test_what_is_not_available_stays_at_its_mean():
    known = RowData(available=np.array([[True, True, False]] * 50))
    means = np.zeros((50, 3))
    target = Target(Maximum(), np.zeros(50, int), np.full(50, -0.5), means, np.ones(3), known=known)
    for sampler in (EllipticalSlice(), Antithetic(), Gibbs(), BoxExact(), Rejection()):
        latent = run(sampler, target, n_steps=3, burn=2)[3]
        assert (latent[:, 2] == 0).all() and (latent[:, 1] <= -0.5).all()


def test_what_is_not_available_varies_where_a_rule_mixes_outcomes():
    """The outcome of c is part of what a and b are compared by, though c cannot be chosen."""
    mixing = np.array([[1.0, 0.2, 0.9], [0.1, 1.0, -0.8], [0.0, 0.0, 1.0]])
    rule, n_rows = LinearArgmax(mixing), 400
    known = RowData(available=np.array([[True, True, False]] * n_rows))
    means = np.tile([0.3, 0.1, 0.2], (n_rows, 1))
    target = Target(
        rule, np.zeros(n_rows, int), np.full(n_rows, -0.4), means, np.ones(3), known=known
    )
    drawn = np.random.default_rng(0).standard_normal((200_000, 3)) + means[0]
    drawn[:, 0] = -0.4
    scores = drawn @ mixing.T
    explained = drawn[scores[:, 0] >= scores[:, 1]].mean(axis=0)
    assert explained[2] > 0.9
    for sampler in (EllipticalSlice(), Antithetic(), Gibbs(), Rejection()):
        away = run(sampler, target, n_steps=60, burn=20)[0].mean(axis=0)
        # 400 chains of 60 steps have errors of about a hundredth.
        np.testing.assert_allclose((means[0] + away)[1:], explained[1:], atol=0.05)


def test_diagnostics_see_slow_chains_and_chains_that_disagree():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((4, 2_000))
    slow = np.empty_like(noise)
    slow[:, 0] = noise[:, 0]
    for t in range(1, slow.shape[1]):
        slow[:, t] = 0.9 * slow[:, t - 1] + np.sqrt(1 - 0.81) * noise[:, t]
    # An autoregression of 0.9 is worth (1 - 0.9) / (1 + 0.9) of independent draws.
    assert effective_sample_size(slow) == pytest.approx(slow.size / 19.0, rel=0.35)
    assert effective_sample_size(noise) == pytest.approx(noise.size, rel=0.15)
    assert split_r_hat(noise) < 1.01
    assert split_r_hat(noise + np.arange(4)[:, None]) > 1.3
    assert split_r_hat(np.ones((2, 10))) == 1.0
    with pytest.raises(OptionError, match="4 steps or more"):
        split_r_hat(noise[:, :3])


def test_control_variates_take_out_scatter_and_leave_the_mean():
    target = make_target(Maximum(), n_rows=2_000)
    exact = run(BoxExact(), target, n_steps=1, burn=0)
    both = target.take(np.tile(np.arange(len(target)), 2))
    sampler, rng, n_steps = Antithetic(24), np.random.default_rng(0), 6
    latent = run(EllipticalSlice(), both, n_steps=1, burn=10)[3]
    total = [0.0, 0.0, 0.0]
    for _ in range(n_steps):
        draw = sampler.step(both, latent, rng)
        latent = draw.latent
        parts = (draw.first, draw.square, draw.control)
        total = [one + part / n_steps for one, part in zip(total, parts, strict=True)]
    plain = [one.reshape(2, len(target), 4) for one in total[:2]]
    control = total[2].reshape(4, 4, 2, len(target)).transpose(2, 0, 1, 3)
    for before, after, truth in zip(
        plain, controlled(*plain, control, target.spread), exact[:2], strict=True
    ):
        gap = after.mean(axis=0) - truth
        error = gap.std(axis=0) / np.sqrt(len(gap))
        assert (np.abs(gap.mean(axis=0)) < DEVIATIONS * error).all()
        # Rows in narrow sets keep their scatter, so the worst twentieth is left out.
        gaps = [np.sort(((one[0] - one[1]) ** 2).sum(axis=1)) for one in (before, after)]
        scatter = [one[: int(0.95 * len(one))].mean() for one in gaps]
        assert scatter[1] < 0.85 * scatter[0]


def test_lines_find_sets_of_little_mass_and_their_means():
    """Where next to no normal point falls: five scales off in one outcome, thin in another."""
    n_rows = 2_000
    means = np.tile([0.0, 5.0, 0.0], (n_rows, 1))

    def near(latent):
        thin = np.abs(latent[:, 2] - 1.0) < 0.01
        return np.where((latent[:, 1] < latent[:, 0]) & thin, 0, 1)

    target = Target(ConvexRule(near), np.zeros(n_rows, int), np.zeros(n_rows), means, np.ones(3))
    start = np.tile([0.0, -0.5, 1.0], (n_rows, 1))
    draws = [Gibbs().step(target, start, np.random.default_rng(seed)) for seed in range(3)]
    first = np.mean([draw.first for draw in draws], axis=0)
    exact = BoxExact().step(
        Target(Maximum(), target.chosen, target.outcome, means, np.ones(3)), start,
        np.random.default_rng(0),
    ).first  # fmt: skip
    assert first[:, 1].mean() == pytest.approx(exact[0, 1], abs=0.01)
    assert first[:, 2].mean() == pytest.approx(1.0, abs=0.002)
    assert all(target.contains(draw.latent).all() for draw in draws)
