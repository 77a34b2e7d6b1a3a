"""What people share, drawn from a fit: samples, tests of the noise, rehearsal, bounds."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.engines.memory import Memory
from selfselect.errors import ConvergenceWarning, UnsupportedError
from selfselect.inference.evidence import free_scores_of
from selfselect.inference.simulation import draw_outcomes, moments_of, write_out
from selfselect.likelihoods import row_terms
from selfselect.noises import SharedShock, Types
from selfselect.results.overfitting import FewerTypes
from selfselect.trust import alternatives

FAR = 4.5
"""Standard errors that no sum of draws is away from its mean, of some two hundred sums."""


def people(
    n_people: int = 120,
    n_years: int = 4,
    *,
    seed: int = 0,
    heavy: bool = False,
    talent: bool = False,
) -> pd.DataFrame:
    """Draw a panel of two types, who differ in both outcomes alike or not; rows in no order."""
    rng = np.random.default_rng(seed)
    n = n_people * n_years
    person = np.repeat(np.arange(n_people), n_years)
    shift = np.array([[0.9, -0.7], [-0.9, 0.7]])[rng.integers(0, 2, n_people)]
    shift = np.repeat(shift[:, :1], 2, axis=1) if talent else shift
    x, noise = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    if heavy:
        noise = rng.standard_t(5, size=(n, 2)) / np.sqrt(5 / 3)
    means = np.column_stack([0.5 + x @ [1, 0.5], 0.5 + x @ [-0.5, 1.0]])
    latent = means + shift[person] + noise * [0.8, 0.7]
    made = pd.DataFrame(
        {
            "x": x[:, 0], "v": x[:, 1], "z": rng.normal(size=n_people)[person],
            "y": latent.max(axis=1), "job": np.array(["farm", "town"])[latent.argmax(axis=1)],
            "person": person,
        }
    )  # fmt: skip
    return made.sample(frac=1, random_state=seed).reset_index(drop=True)


def fitted(data: pd.DataFrame, noise: Any, **told: Any) -> Any:
    given = {"chosen": "job", "panel": "person", "seed": 0, "noise": noise} | told
    return ss.fit("y ~ x + v", data, **given)


@pytest.fixture(scope="module")
def types() -> Any:
    return fitted(people(), Types(2))


@pytest.fixture(scope="module")
def shock() -> Any:
    return fitted(people(60), SharedShock(nodes=9))


def somewhere(problem: Any) -> Any:
    """Return natural parameters that are nobody's optimum."""
    layout = problem.layout
    free = 0.2 + 0.3 * np.random.default_rng(3).normal(size=layout.n_free)
    natural = layout.natural(free)
    h = layout.inverse_scale_positions
    natural[h] = 0.8 + 0.3 * np.abs(natural[h])
    return layout.natural(layout.gather(natural))


MODELS = {
    "types": (Types(3), {"chosen": "job"}),
    "one talent with costs": (Types(2, "talent", costs=True), {"chosen": "job"}),
    "weights by a covariate": (Types(2, covariates="~ z"), {"chosen": "job"}),
    "weights and costs by a covariate": (
        Types(2, covariates="~ z", costs=True),
        {"chosen": "job", "cost": {"town": "~ x - 1"}},
    ),
    "unknown index": (Types(2), {"alternatives": 2}),
    "minimum": (Types(2, costs=True), {"chosen": "job", "rule": "min"}),
    "silent": (Types(2), {"chosen": "job", "missing_outcome": "silent"}),
    "shock": (SharedShock(nodes=15), {"chosen": "job"}),
}


def joined(problem: Any, natural: Any, batch: Any) -> Any:
    terms = row_terms(problem, natural, batch)
    return np.column_stack([*moments_of(terms).values(), free_scores_of(terms)])


@pytest.mark.parametrize("panel", ["person", None], ids=["people", "rows"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_and_moments_of_draws_have_mean_zero(name: str, panel: str | None) -> None:
    noise, described = MODELS[name]
    data = people(300)
    if "missing_outcome" in described:
        data["y"] = data["y"].where(data.index % 5 > 0)
    posed = ss.pose("y ~ x + v", data, noise=noise, panel=panel, **described)
    problem, natural = posed.problem, somewhere(posed.problem)
    rng = np.random.default_rng(1)
    made = draw_outcomes(problem, natural, posed.engine.rows, rng)
    drawn = Memory().load(problem, made.record())
    each = drawn.collect(partial(joined, problem, natural))
    codes = data["person"] if panel else data.index
    sums = pd.DataFrame(each).groupby(codes.to_numpy()).sum().to_numpy()
    error = np.sqrt((sums**2).sum(axis=0))
    assert (np.abs(sums.sum(axis=0)) < FAR * error + 1e-9).all()


def test_a_person_keeps_the_type_and_copies_of_a_person_have_their_own(types: Any) -> None:
    problem, rows = types.problem, write_out(types.rows, None)
    rng = np.random.default_rng(0)
    nothing = np.zeros((len(rows), 2))
    natural = problem.layout.natural(types.solution.free)
    latent = problem.likelihood.draw(natural, rows, nothing, rng).latent
    away = np.round(latent - latent_means(types), 6)
    kinds = pd.Series(away[:, 0]).groupby(rows.groups)
    assert (kinds.nunique() == 1).all() and len(np.unique(away[:, 0])) == 2
    weighted = types.rows.reweighted(np.full(len(rows), 3.0))
    assert len(np.unique(write_out(weighted, "frequency").groups)) == 3 * len(kinds)


def latent_means(fit: Any) -> Any:
    table = fit.params.unstack().loc[["farm", "town"], ["Intercept", "x", "v"]]
    values = np.column_stack([np.ones(len(fit.rows)), fit.rows.covariates])
    return values @ table.to_numpy(float).T


def test_heavy_tails_are_found_around_types() -> None:
    fit = fitted(people(seed=4, heavy=True), Types(2))
    assert fit.normality_test(0).rejects() and "NORMALITY REJECTED" in str(fit.rejections())


def test_people_are_independent_draws_of_the_model_so_its_tests_have_a_verdict(
    types: Any, shock: Any
) -> None:
    for fit, df in ((types, 4), (shock, 6)):
        quick = fit.normality_test(0)
        assert quick.df == df and quick.p_value > 0.01
        assert fit.heteroskedasticity_test(0).df == 4
    ranked = types.normality_test(19, seed=1)
    assert ranked.possible and ranked.p_value > 0.05
    page = " ".join(str(types.summary()).split())
    assert "test of normality (null: normal noise): chi2(4)" in page


def test_people_who_are_there_twice_say_twice_as_much(types: Any) -> None:
    data = people()
    both = pd.concat([data, data.assign(person=data["person"] + 1_000)], ignore_index=True)
    twice = fitted(both, Types(2), solver=ss.solvers.TypeSearch(starts=1))
    for test in ("normality_test", "heteroskedasticity_test"):
        one, two = (getattr(fit, test)(0).statistic for fit in (types, twice))
        # The spread that the model expects is drawn, and known to a few per cent.
        assert two == pytest.approx(2.0 * one, rel=0.2)


def test_types_of_rows_are_tested_as_any_other_noise() -> None:
    few = ss.solvers.TypeSearch(starts=1)
    fit = fitted(people(600, 1, seed=2), Types(2), panel=None, solver=few)
    assert fit.normality_test(0).possible and fit.heteroskedasticity_test(0).possible


def test_people_within_villages_have_no_verdict_and_a_reason() -> None:
    data = people(60).assign(village=lambda frame: frame["person"] % 20)
    test = fitted(data, Types(2), cluster="village").normality_test(19)
    assert not test.possible and "what people of one cluster share besides" in test.reason


def test_a_fit_with_types_is_rehearsed_by_person(types: Any) -> None:
    found = types.rehearse(10, seed=1)
    assert found.returned == 1.0
    # The types of every sample are those of the fit, whatever their weights.
    assert (found.table["spread"] < 3 * found.table["std_error"]).all()
    assert found.table["coverage"].mean() > 0.8
    assert "independently of each other" not in " ".join(found.notes)


def test_what_the_data_leave_undetermined_is_not_rehearsed() -> None:
    held = Types(2, held_shifts=((0, "town", -3.0),))
    fit = fitted(people(60), held)
    with pytest.raises(UnsupportedError, match=r"Not determined: the shift of type 1"):
        fit.rehearse(10)


def test_a_fit_with_types_or_a_shock_lies_within_its_bounds(types: Any, shock: Any) -> None:
    for fit in (types, shock):
        found = fit.bounds(quantiles=(0.75,))
        table = found.quantiles.set_index("of")
        assert len(found.outside()) == 0 and np.isfinite(table["fit"]).all()


def test_one_type_fewer_is_refuted_where_there_are_two(types: Any, monkeypatch: Any) -> None:
    # Ratios of samples as they would come: searches are tested below.
    monkeypatch.setattr(alternatives, "map_draws", lambda *_: [float(i) for i in range(19)])
    found = types.overfitted_test(19, seed=1)
    alone = fitted(people(), None)
    assert found.statistic == pytest.approx(2.0 * (types.llf - alone.llf))
    assert (found.null, found.df) == ("1 type", types.n_parameters - alone.n_parameters)
    assert found.p_value == 0.05 and not any("TOO MANY" in n for n in types.summary().notices)


def test_a_summary_says_that_a_type_may_be_one_too_many(monkeypatch: Any) -> None:
    data = people(60, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = fitted(data, Types(3), solver=ss.solvers.TypeSearch(starts=1))
    (notice,) = (n for n in fit.summary().notices if "TOO MANY TYPES" in n)
    assert "BIC is smaller by at least" in notice or "has a weight of only" in notice

    def four(task: Any, *_: Any) -> list[float]:
        return 5 * [task(np.random.default_rng(number)) for number in range(4)]

    # Four samples serve for twenty: each is searched twice.
    monkeypatch.setattr(alternatives, "map_draws", four)
    found = fit.overfitted_test(19, seed=1, solver=ss.solvers.TypeSearch(starts=1))
    assert found.null == "2 types" and found.p_value > 0.05
    (notice,) = (n for n in fit.summary().notices if "TOO MANY TYPES" in n)
    assert "3 do not fit significantly better than 2" in notice


@pytest.mark.parametrize("told", [{}, {"covariates": "~ z", "costs": True}], ids=["each", "all"])
def test_what_bic_gains_by_one_type_fewer_is_a_bound(told: Any) -> None:
    data, few = people(60, 3), ss.solvers.TypeSearch(starts=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        three, two = (fitted(data, Types(n, **told), solver=few) for n in (3, 2))
    gain = FewerTypes(three).gain()
    assert gain is not None and three.bic - two.bic >= gain - 1e-6


def test_one_type_fewer_is_not_tested_where_people_come_in_villages() -> None:
    data = people(60).assign(village=lambda frame: frame["person"] % 20)
    with pytest.raises(UnsupportedError, match="There is no test of one type fewer: rows are"):
        fitted(data, Types(2), cluster="village").overfitted_test()


def test_one_talent_is_tested_within_shifts_of_their_own_though_errors_are_by_person() -> None:
    data, few = people(80, 3, talent=True), ss.solvers.TypeSearch(starts=1)
    talent, each = (fitted(data, Types(2, how), solver=few) for how in ("talent", "each"))
    test = each.lr_test(talent)
    assert test.possible and test.df == 1
    assert test.statistic == pytest.approx(2.0 * (each.llf - talent.llf))
