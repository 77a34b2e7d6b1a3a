"""Noise of a shape that is estimated: mixtures of normals and Student's t."""

from __future__ import annotations

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import selfselect as ss
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.kernels.mixture import mixture_terms
from selfselect.likelihoods import row_terms
from selfselect.moments._expectations import expectations
from selfselect.noises import Independent, Mixture, Student
from selfselect.noises.shapes._mixture import MixtureFamily, MixtureShape
from selfselect.noises.shapes._student import StudentFamily, student_shape
from selfselect.rules import Maximum, Minimum, RowData

STEP = 1e-5

EXACT = 1e-9
"""What quadrature owes to brute force."""


WEIGHTS = np.array([[1.0, 1.0, 0.5], [0.5, -0.5, 1.0]])
SCALES = np.array([1.0, 0.7])
SLOPES = WEIGHTS.ravel()

LAWS = {
    "t5": lambda rng, size: rng.standard_t(5, size) / np.sqrt(5 / 3),
    "skewed": lambda rng, size: (rng.gamma(2.0, 1.0, size) - 2.0) / np.sqrt(2.0),
    "normal": lambda rng, size: rng.standard_normal(size),
}


def simulated(law="skewed", n_rows=500, seed=1, rule="max"):
    rng = np.random.default_rng([seed, 9])
    covariates = rng.standard_normal((n_rows, 2))
    means = np.column_stack([np.ones(n_rows), covariates]) @ WEIGHTS.T
    latent = means + LAWS[law](rng, (n_rows, 2)) * SCALES
    chosen = latent.argmax(axis=1) if rule == "max" else latent.argmin(axis=1)
    return pd.DataFrame(covariates, columns=["x", "z"]).assign(
        outcome=latent[np.arange(n_rows), chosen],
        chosen=np.array(["a", "b"])[chosen],
        town=np.arange(n_rows) % 50,
        count=1 + np.arange(n_rows) % 3,
    )


NOISES = {
    "mixture": Mixture(2),
    "mixtures": Mixture(2, each=True),
    "student": Student(),
    "known student": Student(5),
}


@pytest.fixture(scope="module", params=NOISES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def noise(name):
    return NOISES[name]


@pytest.fixture(scope="module")
def data():
    return simulated()


@pytest.fixture(scope="module")
def result(noise, data):
    return ss.fit("outcome ~ x + z", data, chosen="chosen", noise=noise)


def shapes_of(fit):
    layout = fit.problem.layout
    extras = layout.extras_of(fit.values)[: layout.n_noise_extras]
    return fit.problem.noise.margins(extras, 2)


def coefficients_of(fit):
    return np.concatenate([fit.params[label].to_numpy()[:3] for label in "ab"])


# the distributions


def test_a_mixture_has_mean_zero_and_variance_one():
    family = MixtureFamily(3)
    values = np.array([0.2, 0.3, 0.5, -0.4, 0.9, 1.1])
    share, mean, spread = family.components_of(values).T
    assert share.sum() == pytest.approx(1.0, abs=1e-14)
    assert share @ mean == pytest.approx(0.0, abs=1e-14)
    assert share @ (spread**2 + mean**2) == pytest.approx(1.0, abs=1e-14)
    shape = family.at(values)
    a = np.linspace(-6.0, 6.0, 49)
    density = sum(p * stats.norm(m, s).pdf(a) for p, m, s in family.components_of(values))
    np.testing.assert_allclose(shape.pdf(a), density, rtol=1e-12)
    np.testing.assert_allclose(np.exp(shape.density(a).value), density, rtol=1e-12)
    below = sum(p * stats.norm(m, s).cdf(a) for p, m, s in family.components_of(values))
    np.testing.assert_allclose(np.exp(shape.below(a).value), below, rtol=1e-11)
    np.testing.assert_allclose(np.exp(shape.above(a).value), 1.0 - below, atol=1e-14)
    np.testing.assert_allclose(shape.quantile(below[5:44]), a[5:44], atol=1e-9)
    draws = shape.draw((200_000,), np.random.default_rng(0))
    assert abs(draws.mean()) < 0.02
    assert draws.std() == pytest.approx(1.0, abs=0.02)


def test_what_a_mixture_may_be_does_not_depend_on_which_component_is_the_first():
    """The first follows from the rest, and may be as narrow as they may be."""
    family = MixtureFamily(2)
    said = []
    for narrow in np.geomspace(0.002, 0.5, 40):
        wide = np.sqrt((1.0 - 0.4 * (narrow**2 + 0.09) - 0.6 * 0.04) / 0.6)
        second, first = np.array([0.4, 0.3, narrow]), np.array([0.6, -0.2, wide])
        np.testing.assert_allclose(family.components_of(second)[0], first, rtol=1e-12)
        said.append(family.possible(second))
        assert family.possible(first) == said[-1]
    assert said == sorted(said) and len(set(said)) == 2


def test_tails_of_a_mixture_are_finite_far_out():
    shape = MixtureShape(np.array([[0.7, -0.3, 0.6], [0.3, 0.7, 1.3]]))
    far = np.array([-1e5, -300.0, 300.0, 1e5])
    for terms in (shape.density(far), shape.below(far), shape.above(far)):
        assert all(np.isfinite(part).all() for part in terms)


def test_means_between_limits_are_integrals():
    nodes, weights = np.polynomial.legendre.leggauss(200)
    for shape in (MixtureShape(np.array([[0.7, -0.3, 0.6], [0.3, 0.7, 1.3]])), student_shape(4.0)):
        for low, high in ((-3.0, 1.0), (0.5, 4.0), (-6.0, -2.0)):
            t = low + 0.5 * (high - low) * (1.0 + nodes)
            density = 0.5 * (high - low) * weights * shape.pdf(t)
            ends = np.array([low]), np.array([high])
            assert shape.mass(*ends)[0] == pytest.approx(density.sum(), rel=EXACT)
            assert shape.partial(*ends)[0] == pytest.approx(density @ t, rel=EXACT, abs=1e-14)


def test_student_is_students_t():
    a = np.linspace(-30.0, 30.0, 61)
    shape, law = student_shape(4.5), stats.t(4.5)
    np.testing.assert_allclose(shape.density(a).value, law.logpdf(a), rtol=1e-12)
    np.testing.assert_allclose(shape.below(a).value, law.logcdf(a), rtol=1e-9)
    assert shape.deviation == pytest.approx(law.std())
    assert np.isinf(student_shape(2.0).deviation)


@pytest.mark.parametrize(("degrees", "far"), [(30.0, 1e11), (100.0, 1e4), (200.0, 400.0)])
def test_a_student_tail_that_is_lost_in_rounding_keeps_its_logarithm(degrees, far):
    with mpmath.workdps(50):
        ratio = degrees / (degrees + mpmath.mpf(far) ** 2)
        mass = mpmath.betainc(degrees / 2, 0.5, 0, ratio, regularized=True) / 2
        expected = float(mpmath.log(mass))
    assert stats.t(degrees).cdf(-far) < 1e-280
    assert student_shape(degrees).below(np.array([-far])).value[0] == pytest.approx(
        expected, abs=1e-7
    )


@pytest.mark.parametrize("degrees", [2.5, 4.0, 30.0])
def test_the_largest_and_the_smallest_of_two_heavy_tailed_outcomes_are_both(degrees):
    """Either is the largest where the other is the smallest; both means add up to all there is."""
    means, scales = np.array([[0.0, 0.5], [1.0, -2.0], [0.0, 4.0]]), np.array([1.0, 0.7])
    shapes = [student_shape(degrees)] * 2
    most, least = (
        expectations(rule, means, scales, RowData(), shapes) for rule in (Maximum(), Minimum())
    )
    np.testing.assert_allclose(most.chance, 1.0 - least.chance, rtol=0, atol=1e-12)
    np.testing.assert_allclose(most.outcome + least.outcome, means.sum(axis=1), rtol=0, atol=1e-11)


@pytest.mark.parametrize("side", [0, 1, -1])
@pytest.mark.parametrize(
    ("family", "values"),
    [
        (MixtureFamily(2), [0.3, 0.5, 1.2]),
        (MixtureFamily(3), [0.2, 0.3, 0.5, -0.4, 0.9, 1.1]),
        (StudentFamily(), [4.7]),
        (StudentFamily(), [30.0]),
    ],
)  # fmt: skip
def test_shapes_have_their_derivatives(family, values, side):
    from selfselect.noises.shapes.base import chained

    values, a = np.array(values), np.linspace(-5.0, 5.0, 23)

    def terms(moved, shift=0.0):
        inner = family.inner(values + moved)
        return chained(family.evaluate(a + shift, side, inner.values, curvature=True), inner)

    here = terms(0.0)
    moves = [
        (0.0, STEP),
        *((STEP * (np.arange(len(values)) == i), 0.0) for i in range(len(values))),
    ]
    for place, (moved, shift) in enumerate(moves):
        up, down = terms(moved, shift), terms(-np.asarray(moved), -shift)
        np.testing.assert_allclose(
            here.gradient[:, place], (up.value - down.value) / (2 * STEP), atol=1e-8
        )
        np.testing.assert_allclose(
            here.hessian[:, place], (up.gradient - down.gradient) / (2 * STEP), atol=1e-7
        )


def test_one_component_is_the_normal_distribution():
    a = np.linspace(-8.0, 8.0, 33)
    for side, wanted in ((0, stats.norm.logpdf), (1, stats.norm.logcdf), (-1, stats.norm.logsf)):
        found = mixture_terms(a, side, np.array([[1.0, 0.0, 1.0]]))
        np.testing.assert_allclose(found.value, wanted(a), rtol=1e-12)


# likelihoods


KINDS = {
    "estimated costs": {"chosen": "chosen", "cost": {"a": "~ z"}},
    "partly recorded": {
        "chosen": "chosen",
        "missing_outcome": "silent",
        "outcome_between": ("low", "high"),
        "possible": {"a": "open", "b": "open"},
    },
    "unknown index": {"alternatives": 2},
}


@pytest.mark.parametrize("kind", ["estimated costs", "unknown index"])
@pytest.mark.parametrize("name", ["mixture", "student"])
def test_fits_that_join_alternatives_find_the_truth(name, kind):
    law = "skewed" if name == "mixture" else "t5"
    data = simulated(law, 1_200)
    fit = ss.fit("outcome ~ x + z", data, noise=NOISES[name], seed=1, **KINDS[kind])
    assert fit.converged
    if kind == "unknown index":
        errors = np.concatenate([fit.bse[label].to_numpy()[:3] for label in (1, 2)])
        found = np.concatenate([fit.params[label].to_numpy()[:3] for label in (1, 2)])
    else:
        errors = np.concatenate([fit.bse[label].to_numpy()[:3] for label in "ab"])
        found = coefficients_of(fit)
    assert (np.abs(found - SLOPES) < 4.5 * errors).all()


@pytest.mark.parametrize("rule", ["max", "min"])
def test_a_smallest_outcome_does_not_mirror_the_mixture(rule):
    data = simulated("skewed", 2_000, rule=rule)
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen", rule=rule, noise=Mixture(2))
    shape = shapes_of(fit)[0]
    share, mean, spread = shape.components.T
    skewness = share @ (mean**3 + 3.0 * mean * spread**2)
    assert skewness > 0.5
    errors = np.concatenate([fit.bse[label].to_numpy()[:3] for label in "ab"])
    assert (np.abs(coefficients_of(fit) - SLOPES) < 4.5 * errors).all()


# what equals what


@pytest.mark.parametrize("options", [{"chosen": "chosen"}, {"alternatives": 2}])
def test_one_component_is_the_normal_fit_exactly(data, options):
    table = data.iloc[:600]
    one = ss.fit("outcome ~ x + z", table, noise=Mixture(1), seed=1, **options)
    normal = ss.fit("outcome ~ x + z", table, noise=Independent(), seed=1, **options)
    np.testing.assert_array_equal(one.params, normal.params)
    np.testing.assert_array_equal(one.bse, normal.bse)
    assert one.llf == normal.llf
    assert one.normality_test(0).possible == normal.normality_test(0).possible
    np.testing.assert_array_equal(one.predict(kind="outcome"), normal.predict(kind="outcome"))


def test_many_degrees_of_freedom_are_the_normal_fit(data):
    many = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Student(1e7))
    normal = ss.fit("outcome ~ x + z", data, chosen="chosen")
    np.testing.assert_allclose(many.params, normal.params, atol=1e-5)
    np.testing.assert_allclose(many.bse, normal.bse, rtol=1e-4)
    assert many.llf == pytest.approx(normal.llf, abs=0.01)


def test_estimated_degrees_are_the_best_of_the_known_ones():
    data = simulated("t5", 2_000)
    free = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Student())
    degrees = free.params["(common)", "shape: degrees"]
    known = [
        ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Student(degrees * factor))
        for factor in (0.9, 1.0, 1.1)
    ]
    assert known[1].llf == pytest.approx(free.llf, abs=1e-6)
    assert max(known[0].llf, known[2].llf) < free.llf
    np.testing.assert_allclose(known[1].params, free.params[known[1].params.index], rtol=1e-4)
    low, high = free.conf_int().loc[("(common)", "shape: degrees")]
    assert low < 5.0 < high


@pytest.mark.parametrize("law", ["t5", "skewed"])
def test_a_mixture_comes_closer_to_the_truth_than_normal_noise(law):
    errors = {"normal": [], "mixture": []}
    for seed in range(2):
        data = simulated(law, 3_000, seed)
        for name, noise in (("normal", Independent()), ("mixture", Mixture(2))):
            fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=noise)
            errors[name].append(coefficients_of(fit) - SLOPES)
    rmse = {name: np.sqrt(np.mean(np.square(found))) for name, found in errors.items()}
    assert rmse["mixture"] < rmse["normal"]


def test_every_start_is_recorded(data):
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Mixture(2))
    assert list(fit.starts["name"]) == ["heavy tails", "a long right tail", "a long left tail"]


def test_bic_chooses_the_number_of_components(data):
    data = data.iloc[:300]
    chosen = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Mixture("bic"))
    two = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Mixture(2))
    assert isinstance(chosen.problem.noise.components, int)
    assert chosen.problem.noise.components > 1
    assert chosen.bic <= two.bic
    assert "BIC by number: 1:" in chosen.solver_reason
    normal = ss.fit("outcome ~ x + z", simulated("normal", 300), chosen="chosen",
                    noise=Mixture("bic"))  # fmt: skip
    assert normal.problem.noise.components == 1
    # Where components come out as one fewer, more are not tried.
    ended = normal.solver_reason.split("BIC by number: ")[1].split(", ")
    values = [float(one.split(": ")[1]) for one in ended]
    assert len(values) < 4 and values[-1] == pytest.approx(values[-2], abs=1e-4)
    with pytest.raises(UnsupportedError, match="choosing by BIC takes several"):
        ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Mixture("bic"), checkpoint="x.json")


# what belongs to a fit


def test_pages_show_components_and_deviations(data):
    mixture = str(ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Mixture(2)).summary())
    assert "Noise: mixture of 2 normals, independent" in mixture
    assert "Components: share" in mixture
    assert "shape: spread 2" in mixture
    assert "std deviation" not in mixture  # its scale is one
    student = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Student())
    spread = (
        student.params["a", "scale"]
        * student_shape(student.params["(common)", "shape: degrees"]).deviation
    )
    page = str(student.summary())
    assert f"{spread:.4f}" in page
    assert "assumes Student t noise" in " ".join(page.split())


# predictions and effects


def test_residuals_and_quantiles_are_those_of_the_shape(name, result):
    natural = result.problem.layout.natural(result.solution.free)
    residual = row_terms(result.problem, natural, result.engine.batch).residual
    # The data are skewed, which Student's t is not.
    assert np.abs(residual.mean(axis=0)).max() < (0.1 if "mixture" in name else 0.3)
    points = ss.plots.qq(result).data
    assert len(points) > 50


@pytest.mark.parametrize("name", ["mixture", "student"])
def test_independence_is_tested_with_its_size(name):
    law = "skewed" if name == "mixture" else "t5"
    noise = NOISES[name]
    p_values = [
        ss.fit("outcome ~ x + z", simulated(law, 300, seed), chosen="chosen", noise=noise)
        .independence_test().p_value
        for seed in range(8)
    ]  # fmt: skip
    # Of 8 uniform p-values more than 3 are below 5% once in 2,000 times.
    assert np.sum(np.array(p_values) < 0.05) <= 3


# bad input


def test_too_many_components_for_the_rows_are_refused(data):
    with pytest.raises(DataError, match=r"60 rows are too few for noise that is mixture of 3"):
        ss.fit("outcome ~ x + z", data.iloc[:60], chosen="chosen", noise=Mixture(3))
    with pytest.raises(DataError, match="it takes at least 150"):
        ss.fit("outcome ~ x + z", data.iloc[:120], chosen="chosen", noise=Mixture(3, each=True))


def test_a_component_that_collapses_is_named_and_never_returned(monkeypatch):
    """Many rows of 'a' have the same residual: the likelihood is highest without a spread."""
    data = simulated("normal", 600)
    own = data.index[data["chosen"] == "a"][:80]
    data.loc[own, "outcome"] = 2.0 + data.loc[own, "x"] + 0.5 * data.loc[own, "z"]
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Mixture(2))
    assert shapes_of(fit)[0].components[:, 2].min() > 0.075
    collapsed = np.array([0.1, 1.0, 0.06])
    said = MixtureFamily(2).degenerate(collapsed)
    assert "component 2 of the mixture is as narrow as the search allows: its share is 10%" in said
    assert "few rows" not in said
    monkeypatch.setattr(MixtureFamily, "degenerate", lambda *_: "component 2 collapses.")
    limit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Mixture(2))
    assert "a mixture of 2 normals, but component 2 collapses." in str(limit.solution.ending)
    assert limit.converged
    assert limit.llf == pytest.approx(ss.fit("outcome ~ x + z", data, chosen="chosen").llf)


@pytest.mark.parametrize(("seed", "words"), [(4, "collapses"), (25, "has a share of 0.21%")])
def test_a_component_that_normal_data_do_not_show_ends_at_the_normal_fit(seed, words, tmp_path):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2_000, 2))
    latent = x @ np.array([[1.0, -0.5], [0.5, 1.0]]) + rng.standard_normal((2_000, 2))
    data = pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "outcome": latent.max(axis=1),
                         "chosen": np.array(["a", "b"])[latent.argmax(axis=1)]})  # fmt: skip
    fit = ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Mixture(2), seed=0)
    normal = ss.fit("outcome ~ x + z", data, chosen="chosen")
    assert fit.converged
    said = str(fit.solution.ending)
    assert words in said
    assert said.endswith("The estimates are those of simpler noise: normal.")
    np.testing.assert_allclose(fit.params, normal.params, rtol=1e-6)
    np.testing.assert_allclose(fit.bse, normal.bse, rtol=1e-5)
    fit.save(tmp_path / "fit.zip")
    assert str(ss.load(tmp_path / "fit.zip").solution.ending) == said


def test_degrees_of_freedom_at_the_boundary_are_said():
    with pytest.warns(ss.errors.ConvergenceWarning, match="cannot be distinguished"):
        fit = ss.fit("outcome ~ x + z", simulated("normal", 600, 3), chosen="chosen",
                     noise=Student())  # fmt: skip
    assert not fit.converged
    data = simulated("normal")
    rng = np.random.default_rng(1)
    data["outcome"] += 0.3 * np.abs(rng.standard_cauchy(len(data)))
    with pytest.warns(ss.errors.ConvergenceWarning, match="the noise has no variance"):
        ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Student())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Mixture(0), "not a number of components"),
        (lambda: Mixture("aic"), "not a number of components"),
        (lambda: Mixture(2, each="yes"), "must be True"),
        (lambda: Mixture(2, scale="both"), "no scale 'both'"),
        (lambda: Student(1.0), "are no degrees of freedom"),
        (lambda: Student(5, each=True), "these are known"),
        (lambda: Independent(shape="student"), r"Use noises.Student\(\)"),
        (lambda: Independent(shape="mixture"), r"Use noises.Mixture\(\)"),
    ],
)
def test_options_that_make_no_sense_are_refused(make, words):
    with pytest.raises(OptionError, match=words):
        make()


def test_what_has_parameters_is_not_drawn_from(data):
    with pytest.raises(OptionError, match="nothing can be drawn from it before a fit"):
        ss.simulate({"a": {"x": 1.0}, "b": {"x": 2.0}}, data[["x"]], noise=Mixture(2), seed=1)
    drawn = ss.simulate({"a": {"x": 1.0}, "b": {"x": 2.0}}, data[["x"]], noise=Student(4), seed=1)
    assert len(drawn.data) == len(data)
    with pytest.raises(UnsupportedError, match="Ranked rules need normal noise"):
        ss.fit("outcome ~ x + z", data, chosen="chosen", noise=Mixture(2), rule=ss.rules.Ranked(1))
