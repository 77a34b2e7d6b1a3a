"""How many alternatives? The table, the recommendation and its reason."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.errors import DataError, OptionError
from selfselect.noises import Independent
from selfselect.solvers import MaximumLikelihood, MinVariance

COLUMNS = ["loglik", "n_parameters", "aic", "bic", "icl", "entropy", "converged", "spectral_gap"]
FORMULA = "outcome ~ x1 + x2 + x3"


def choose(data, numbers=(1, 2, 3, 4), formula=FORMULA, **options):
    options = {"solver": MaximumLikelihood(starts=3)} | options
    return ss.choose_alternatives(formula, data, numbers, **options)


def single(n_rows, seed):
    """Return data of one alternative: nothing was selected."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.standard_normal((n_rows, 3)), columns=["x1", "x2", "x3"])
    return table.assign(outcome=1 + table["x1"] - table["x3"] + rng.standard_normal(n_rows))


@pytest.fixture(scope="module")
def chosen():
    return choose(ss.simulators.gaussian(2_000, 3, 3, norm=2.5, seed=1).data)


def several(n_alternatives, seed, rule):
    """Return data of alternatives whose slopes are at right angles."""
    rng = np.random.default_rng([seed, 5])
    table = pd.DataFrame(rng.standard_normal((1_200, 3)), columns=["x1", "x2", "x3"])
    slopes = 2.5 * np.linalg.qr(rng.standard_normal((3, 3)))[0]
    coefficients = {
        label: {"Intercept": 0.0, **dict(zip(table, slopes[j], strict=True))}
        for j, label in enumerate("abc"[:n_alternatives])
    }
    return ss.simulate(coefficients, table, rule=rule, seed=seed).data


@pytest.mark.parametrize("truth", [2, 3])
@pytest.mark.parametrize(("seed", "rule"), [(1, "max"), (2, "min"), (3, "max")])
def test_the_true_number_is_recommended(truth, seed, rule):
    assert choose(several(truth, seed, rule), (1, 2, 3, 4), rule=rule).recommended == truth


@pytest.mark.parametrize("seed", range(4))
def test_one_alternative_is_recommended_where_nothing_was_selected(seed):
    found = choose(single(800, seed), (1, 2, 3))
    assert found.recommended == 1
    assert "1 alternative has the smallest BIC" in found.reason
    assert "least squares will do" not in found.reason
    assert "does not show that there is no selection" in found.reason


def test_one_alternative_where_two_lie_close_is_called_weak_evidence():
    """There is selection, between equations that lie close together, and BIC does not see it."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((300, 1)), columns=["x1"])
    both = np.outer(table["x1"], [0.2, -0.2]) + rng.standard_normal((300, 2))
    found = choose(table.assign(outcome=both.max(axis=1)), (1, 2), "outcome ~ x1")
    assert found.recommended == 1
    gain = found.table.loc[2, "loglik"] - found.table.loc[1, "loglik"]
    asked = 0.5 * 2 * np.log(300)  # Two parameters more.
    assert f"raise the log-likelihood by {gain:.1f}, and BIC requires {asked:.1f}" in found.reason
    assert "or that least squares is right" in found.reason
    assert "raise" not in choose(single(300, 1), [1], "outcome ~ x1").reason


def test_the_table_has_its_columns_and_they_are_what_they_say(chosen):
    table = chosen.table
    assert list(table.index) == [1, 2, 3, 4]
    assert [name for name in table if name != "note"] == COLUMNS
    n_rows = 2_000
    for k in (2, 3, 4):
        fit = chosen.fits[k]
        assert table.loc[k, "loglik"] == fit.llf
        assert table.loc[k, "n_parameters"] == 4 * k + 1
        assert table.loc[k, "bic"] == pytest.approx(np.log(n_rows) * (4 * k + 1) - 2 * fit.llf)
        chance = fit.responsibilities().to_numpy()
        entropy = -(chance * np.log(chance, where=chance > 0, out=np.zeros_like(chance))).sum()
        assert table.loc[k, "entropy"] == pytest.approx(entropy / n_rows)
        assert table.loc[k, "icl"] == pytest.approx(fit.bic + 2 * entropy)
    assert np.isnan(table.loc[1, "spectral_gap"])
    np.testing.assert_allclose(
        table.loc[[2, 3], "spectral_gap"], -np.diff(chosen.scree)[:2], rtol=1e-12
    )
    assert 1 not in chosen.fits


def test_the_scree_falls_off_after_the_directions_in_which_alternatives_differ(chosen):
    """Three alternatives differ in two directions; the rest is noise of order n^-1/2."""
    assert chosen.scree[1] > 5 * abs(chosen.scree[2])


def test_the_paper_s_matrix_shows_one_direction_more():
    """It spans three coefficient vectors, of mean zero, where residuals span two differences."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((20_000, 5))
    slopes = 2.0 * np.linalg.qr(rng.standard_normal((5, 3)))[0].T
    y = (x @ slopes.T + rng.standard_normal((20_000, 3))).max(axis=1)
    data = pd.DataFrame(x, columns=list("abcde")).assign(y=y)
    found = {
        method: choose(data, (1,), "y ~ a + b + c + d + e - 1", subspace=method)
        for method in ("residual", "paper")
    }
    # Eigenvalues of noise are of order n^-1/2 next to those of the coefficients.
    assert found["residual"].scree[1] > 5 * abs(found["residual"].scree[2])
    assert found["paper"].scree[2] > 5 * abs(found["paper"].scree[3])
    factor = np.maximum(0.0, y) ** 2
    matrix = (x.T * factor) @ x / len(y) - factor.mean() * np.eye(5)
    values = np.linalg.eigvalsh(matrix)[::-1]
    # Theirs are of covariates whitened by their sample moments, and outcomes in units of 1.
    ratio = found["paper"].scree[:3] / values[:3]
    np.testing.assert_allclose(ratio / ratio[0], 1.0, atol=0.05)
    gaps = found["paper"].table["spectral_gap"]
    assert gaps[1] == found["paper"].scree[0] - found["paper"].scree[1]


def test_a_subspace_that_is_none_is_refused():
    data = ss.simulators.gaussian(300, 3, 2, intercept=False, seed=1).data
    formula, known = "outcome ~ x1 + x2 + x3 - 1", Independent(1.0)
    with pytest.raises(OptionError, match="use 'residual' or 'paper'"):
        choose(data, (1, 2), formula, subspace="pca")
    with pytest.raises(OptionError, match="use 'residual' or 'paper'"):
        choose(data, (2,), formula, noise=known, solver=MinVariance(subspace="pca"))


def test_one_alternative_is_least_squares(chosen):
    data = ss.simulators.gaussian(2_000, 3, 3, norm=2.5, seed=1).data
    design = np.column_stack([np.ones(2_000), data[["x1", "x2", "x3"]]])
    left = np.linalg.lstsq(design, data["outcome"], rcond=None)[1][0]
    loglik = -1_000 * (np.log(2 * np.pi * left / 2_000) + 1)
    assert chosen.table.loc[1, "loglik"] == pytest.approx(loglik, rel=1e-10)
    assert chosen.table.loc[1, "n_parameters"] == 5
    known = choose(data, (1, 2), noise=Independent(1.0)).table
    wanted = -1_000 * np.log(2 * np.pi) - 0.5 * left
    assert known.loc[1, "loglik"] == pytest.approx(wanted, rel=1e-10)
    assert known.loc[1, "n_parameters"] == 4


def test_the_reason_says_by_how_much_and_whether_the_range_was_too_short(chosen):
    bic = chosen.table["bic"]
    second = bic.drop(3).min()
    assert f"3 alternatives have the smallest BIC, {second - bic[3]:.1f} below" in chosen.reason
    assert "largest number tried" not in chosen.reason
    assert chosen.reason in " ".join(str(chosen).split())
    short = choose(ss.simulators.gaussian(2_000, 3, 3, norm=2.5, seed=1).data, (1, 2))
    assert "it is the largest number tried, so more may be better still" in short.reason


def test_weights_count_rows():
    data = ss.simulators.gaussian(800, 3, 2, norm=2.5, seed=2).data
    weights = 1 + np.arange(800) % 2
    weighted = choose(data, (1, 2), weights=weights).table
    repeated = choose(data.loc[data.index.repeat(weights)], (1, 2)).table
    gap = "spectral_gap"
    criteria = [name for name in COLUMNS if name not in ("converged", gap)]
    np.testing.assert_allclose(weighted[criteria], repeated[criteria], rtol=1e-6)
    # Eigenvalues are in units of the outcome's spread, which is that of the rows as they are.
    np.testing.assert_allclose(weighted[gap], repeated[gap], rtol=0.01)


def test_numbers_may_be_of_numpy_and_in_any_order():
    data = ss.simulators.gaussian(800, 3, 2, norm=2.5, seed=2).data
    assert list(choose(data, np.array([2, 1, 2])).table.index) == [1, 2]


@pytest.mark.parametrize("numbers", [[], [0, 1], [1.5], ["2"]])
def test_numbers_that_are_none_are_refused(numbers):
    with pytest.raises(OptionError, match="Give whole numbers of alternatives from 1 on"):
        choose(single(100, 0), numbers)


def test_a_number_too_large_for_the_rows_is_noted_and_not_recommended():
    found = choose(single(60, 0), (1, 2, 20))
    assert "20 alternatives have 80 coefficients" in found.table.loc[20, "note"]
    assert not found.table.loc[20, "converged"]
    with pytest.raises(DataError, match="20 alternatives have 80 coefficients"):
        choose(single(60, 0), (20,))


def test_no_fit_that_converged_is_an_error_with_a_way_out():
    solver = MaximumLikelihood(starts=1, search_steps=1, max_steps=1)
    with pytest.raises(DataError, match="No fit converged, of 3 alternatives"):
        choose(single(300, 0), (3,), solver=solver)
