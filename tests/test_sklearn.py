"""The scikit-learn door: attributes, predictions, pipelines, searches, and its own checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import selfselect as ss
from selfselect import SelfSelectionRegressor
from selfselect.errors import DataError, OptionError

SOLVER = 1e-5
"""Two fits of the same optimum in other units: each stops within 1e-6 standard errors of it."""


@pytest.fixture(scope="module")
def villagers() -> pd.DataFrame:
    return ss.simulators.village(400, seed=6).data


@pytest.fixture(scope="module", name="X")
def covariates(villagers: pd.DataFrame) -> np.ndarray:
    return villagers[["height", "weight"]].to_numpy()


@pytest.fixture(scope="module")
def y(villagers: pd.DataFrame) -> np.ndarray:
    return villagers["income"].to_numpy()


@pytest.fixture(scope="module")
def job(villagers: pd.DataFrame) -> np.ndarray:
    return villagers["job"].to_numpy()


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_it_is_the_same_fit_as_that_of_a_formula(
    X: np.ndarray, y: np.ndarray, job: np.ndarray, villagers: pd.DataFrame
) -> None:
    model = SelfSelectionRegressor().fit(X, y, chosen=job)
    fit = ss.fit("income ~ height + weight", villagers, chosen="job")
    np.testing.assert_allclose(model.result_.params, fit.params, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_, ["fishing", "hunting"])
    np.testing.assert_allclose(model.scale_, fit.scales, rtol=1e-12)
    np.testing.assert_allclose(model.intercept_, fit.params[:, "Intercept"], rtol=1e-12)
    for j, label in enumerate(model.classes_):
        np.testing.assert_allclose(
            model.coef_[j], fit.params.loc[label].loc[["height", "weight"]], rtol=1e-12
        )
    np.testing.assert_allclose(model.predict(X), fit.predict(villagers, "outcome"), rtol=1e-12)
    np.testing.assert_allclose(model.predict_latent(X), fit.predict(villagers), rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), fit.predict(villagers, "chance"), rtol=1e-9)
    assert model.n_features_in_ == 2
    assert 0.0 < model.score(X, y) < 1.0


def test_without_intercept_there_is_none(X: np.ndarray, y: np.ndarray, job: np.ndarray) -> None:
    model = SelfSelectionRegressor(fit_intercept=False).fit(X, y, chosen=job)
    assert model.intercept_.tolist() == [0.0, 0.0]
    assert model.coef_.shape == (2, 2)
    np.testing.assert_allclose(model.predict_latent(X), X @ model.coef_.T, rtol=1e-12)


def test_names_of_columns_are_kept_and_checked(villagers: pd.DataFrame) -> None:
    frame = villagers[["height", "weight"]]
    model = SelfSelectionRegressor().fit(frame, villagers["income"], chosen=villagers["job"])
    assert model.feature_names_in_.tolist() == ["height", "weight"]
    assert "hunting:height" in model.result_.names
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["weight", "height"]])
    for name in ("scale", "Intercept"):
        with pytest.raises(DataError, match=f"cannot be named '{name}'"):
            SelfSelectionRegressor().fit(
                frame.rename(columns={"height": name}), villagers["income"],
                chosen=villagers["job"],
            )  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ((3, 11), int), ((-120, 120), np.int8), ((0, 5_000), int), ((False, True), bool),
        (("fish", "hunt"), str), (("fish", "hunt"), object), ((0.5, 2.0), float),
        ((7, 9), np.uint8),
    ],
)  # fmt: skip
def test_labels_of_every_kind_with_gaps(
    labels: tuple[Any, Any], dtype: Any, X: np.ndarray, y: np.ndarray, job: np.ndarray
) -> None:
    chosen = np.array([labels[name == "hunting"] for name in job], dtype=dtype)
    model = SelfSelectionRegressor().fit(X, y, chosen=chosen)
    expected = SelfSelectionRegressor().fit(X, y, chosen=job)
    assert model.classes_.tolist() == list(labels)
    np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_categories_and_lists_are_labels_too(X: np.ndarray, y: np.ndarray, job: np.ndarray) -> None:
    expected = SelfSelectionRegressor().fit(X, y, chosen=job)
    for chosen in (list(job), pd.Categorical(job), pd.Series(job, index=np.arange(len(job)) + 7)):
        model = SelfSelectionRegressor().fit(X, y, chosen=chosen)
        np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_weights_that_count_rows_are_rows(X: np.ndarray, y: np.ndarray, job: np.ndarray) -> None:
    weights = np.arange(len(y)) % 3
    again = np.repeat(np.arange(len(y)), weights)
    weighted = SelfSelectionRegressor().fit(X, y, chosen=job, sample_weight=weights)
    repeated = SelfSelectionRegressor().fit(X[again], y[again], chosen=job[again])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=SOLVER)


def test_a_cost_given_as_a_number_counts(
    X: np.ndarray, y: np.ndarray, job: np.ndarray, villagers: pd.DataFrame
) -> None:
    rule = ss.rules.Maximum(cost={"hunting": 25.0})
    model = SelfSelectionRegressor(rule=rule).fit(X, y, chosen=job)
    fit = ss.fit("income ~ height + weight", villagers, chosen="job", rule=rule)
    np.testing.assert_allclose(model.result_.params, fit.params, rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), fit.predict(villagers, "chance"), rtol=1e-9)
    np.testing.assert_allclose(
        model.result_.predict(X, "chance"), fit.predict(villagers, "chance"), rtol=1e-9
    )
    assert not np.allclose(model.coef_, SelfSelectionRegressor().fit(X, y, chosen=job).coef_)
    with pytest.raises(OptionError, match="arrays have no columns"):
        SelfSelectionRegressor(rule=ss.rules.Maximum(cost={"hunting": "rent"})).fit(
            X, y, chosen=job
        )


# bad input


def test_labels_must_be_complete_of_one_kind_and_one_per_row(
    X: np.ndarray, y: np.ndarray, job: np.ndarray
) -> None:
    holes = job.astype(object)
    holes[3] = None
    with pytest.raises(DataError, match="1 rows have no value in `chosen`"):
        SelfSelectionRegressor().fit(X, y, chosen=holes)
    holes[3] = 7
    with pytest.raises(DataError, match="cannot be sorted"):
        SelfSelectionRegressor().fit(X, y, chosen=holes)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SelfSelectionRegressor().fit(X, y, chosen=job[:-1])
    with pytest.raises(DataError, match="Only one alternative"):
        SelfSelectionRegressor().fit(X, y, chosen=np.ones(len(y)))


def test_nothing_that_is_not_finite_comes_in(X: np.ndarray, y: np.ndarray, job: np.ndarray) -> None:
    broken = X.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SelfSelectionRegressor().fit(broken, y, chosen=job)
    model = SelfSelectionRegressor().fit(X, y, chosen=job)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(broken)


# the company of other estimators


def test_a_pipeline_hands_the_labels_on(X: np.ndarray, y: np.ndarray, job: np.ndarray) -> None:
    pipe = Pipeline([("scale", StandardScaler()), ("model", SelfSelectionRegressor())])
    pipe.fit(X, y, model__chosen=job)
    plain = SelfSelectionRegressor().fit(X, y, chosen=job)
    np.testing.assert_allclose(pipe.predict(X), plain.predict(X), rtol=SOLVER)
    np.testing.assert_allclose(pipe.predict_proba(X), plain.predict_proba(X), atol=SOLVER)


@pytest.mark.usefixtures("routing")
def test_a_search_routes_the_labels(X: np.ndarray, y: np.ndarray, job: np.ndarray) -> None:
    pipe = make_pipeline(StandardScaler(), SelfSelectionRegressor())
    grid = {"selfselectionregressor__rule": ["max", "min"]}
    search = GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(X, y, chosen=job)
    assert search.best_params_ == {"selfselectionregressor__rule": "max"}
    predicted = cross_val_predict(SelfSelectionRegressor(), X, y, cv=3, params={"chosen": job})
    assert np.corrcoef(predicted, y)[0, 1] > 0.5


def test_a_clone_is_unfitted_and_alike() -> None:
    rule = ss.rules.Maximum(cost={"a": 1.0})
    model = SelfSelectionRegressor(rule=rule, covariance="robust", fit_intercept=False)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "result_")


# scikit-learn's own checks


@pytest.mark.filterwarnings("ignore::selfselect.errors.ConvergenceWarning")
def test_every_check_of_scikit_learn_passes() -> None:
    """Some checks have fewer rows than coefficients, or outcomes without noise: fits then warn.

    What is checked does not depend on how many starts a search has.
    """
    model = SelfSelectionRegressor(n_alternatives=2, solver=ss.solvers.MaximumLikelihood(starts=1))
    checks = check_estimator(model, on_fail=None, on_skip=None)
    failed = {check["check_name"]: check["exception"] for check in checks
              if check["status"] != "passed" and check["status"] != "skipped"}  # fmt: skip
    assert failed == {}
    assert sum(check["status"] == "passed" for check in checks) > 40


class MedianSplit(SelfSelectionRegressor):
    """Takes outcomes above the median for one alternative, so that the index is known."""

    def fit(self, X: Any, y: Any, chosen: Any = None, sample_weight: Any = None) -> Any:
        values = None if y is None else np.asarray(y)
        if chosen is None and values is not None and values.size and values.dtype.kind in "iufbO":
            values = values.astype(float).ravel()
            chosen = values > np.median(values)
        return super().fit(X, y, chosen=chosen, sample_weight=sample_weight)


TOO_FEW = {
    "check_sample_weight_equivalence_on_dense_data": "more covariates than rows",
    "check_regressors_no_decision_function": "six parameters for five rows",
}
"""With labels of a test's making; a known index with too few rows is an error, not a guess."""


@pytest.mark.filterwarnings("ignore::selfselect.errors.ConvergenceWarning")
def test_with_labels_every_check_passes() -> None:
    """Three outcomes, split at their median, do not vary above it: such fits may not converge."""
    checks = check_estimator(
        MedianSplit(), on_fail=None, on_skip=None, expected_failed_checks=TOO_FEW
    )
    failed = {check["check_name"]: check["exception"] for check in checks
              if check["status"] == "failed"}  # fmt: skip
    assert failed == {}
    refused = {check["check_name"] for check in checks if check["status"] == "xfail"}
    assert refused == set(TOO_FEW)


# the chosen alternative was not recorded


@pytest.fixture(scope="module")
def hidden() -> Any:
    return ss.simulators.gaussian(1_500, 2, 3, norm=2.5, seed=3)


def test_without_labels_it_is_the_fit_of_unnamed_alternatives(hidden: Any) -> None:
    X, y = hidden.data[["x1", "x2"]].to_numpy(), hidden.data["outcome"].to_numpy()
    model = SelfSelectionRegressor(n_alternatives=np.int64(3)).fit(X, y)
    fit = ss.fit("outcome ~ x1 + x2", hidden.data, alternatives=3)
    np.testing.assert_allclose(model.result_.params, fit.params, rtol=1e-12)
    assert model.classes_.tolist() == [1, 2, 3]
    assert model.coef_.shape == (3, 2)
    assert model.scale_.tolist() == [fit.scales[1]] * 3
    np.testing.assert_allclose(model.predict(X), fit.predict(kind="outcome"), rtol=1e-12)
    np.testing.assert_allclose(model.result_.predict(X, "chance").sum(axis=1), 1.0, rtol=1e-12)
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)


def test_the_number_of_alternatives_can_be_searched(hidden: Any) -> None:
    X, y = hidden.data[["x1", "x2"]], hidden.data["outcome"]
    pipe = make_pipeline(StandardScaler(), SelfSelectionRegressor())
    grid = {"selfselectionregressor__n_alternatives": np.array([2, 3])}
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_ == {"selfselectionregressor__n_alternatives": 3}


@pytest.mark.parametrize("number", [1, 0, 2.0, "two", False])
def test_a_number_of_alternatives_is_whole_and_at_least_two(number: Any, hidden: Any) -> None:
    with pytest.raises(OptionError, match=r"whole number from 2 on.*least squares"):
        SelfSelectionRegressor(n_alternatives=number).fit(hidden.data[["x1"]], hidden.data.outcome)


def test_unnamed_alternatives_are_not_fitted_unasked(
    X: np.ndarray, y: np.ndarray, job: np.ndarray
) -> None:
    said = r"`chosen` was not given.*fit\(X, y, chosen=job\).*n_alternatives=2"
    with pytest.raises(OptionError, match=said):
        SelfSelectionRegressor().fit(X, y)
    with pytest.raises(OptionError, match=said):
        Pipeline([("scale", StandardScaler()), ("model", SelfSelectionRegressor())]).fit(X, y)
    search = GridSearchCV(SelfSelectionRegressor(), {"rule": ["max", "min"]}, cv=2)
    with pytest.raises(ValueError, match=r"(?s)All the 4 fits failed.*`chosen` was not given"):
        search.fit(X, y)
    assert SelfSelectionRegressor().fit(X, y, chosen=job).classes_.tolist() == [
        "fishing", "hunting",
    ]  # fmt: skip


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("scale", ["common", "each", 0.5])
def test_too_few_rows_get_least_squares_and_a_warning(fit_intercept: bool, scale: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 9)), rng.standard_normal(6)
    noise = ss.noises.Independent(scale)
    model = SelfSelectionRegressor(n_alternatives=2, noise=noise, fit_intercept=fit_intercept)
    with pytest.warns(ss.errors.ConvergenceWarning, match="6 rows cannot tell 2 alternatives"):
        model.fit(X, y)
    linear = LinearRegression(fit_intercept=fit_intercept).fit(X, y)
    for j in range(2):
        np.testing.assert_allclose(model.coef_[j], linear.coef_, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(model.intercept_[j], linear.intercept_, atol=1e-10)
    assert not model.result_.converged
    assert model.result_.bse.isna().all()
    said = " ".join(str(model.result_.summary()).split())
    assert "NOT CONVERGED. 6 rows cannot tell 2 alternatives apart" in said


def test_least_squares_of_too_few_rows_counts_weights() -> None:
    rng = np.random.default_rng(1)
    X, y, weights = rng.standard_normal((9, 5)), rng.standard_normal(9), np.arange(9) % 3
    again = np.repeat(np.arange(9), weights)
    with pytest.warns(ss.errors.ConvergenceWarning, match="cannot tell"):
        weighted = SelfSelectionRegressor(n_alternatives=2).fit(X, y, sample_weight=weights)
    with pytest.warns(ss.errors.ConvergenceWarning, match="cannot tell"):
        repeated = SelfSelectionRegressor(n_alternatives=2).fit(X[again], y[again])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-8)


def test_what_sample_weights_mean_is_an_option(X: Any, y: Any, villagers: pd.DataFrame) -> None:
    times = np.random.default_rng(0).integers(0, 3, len(y))
    counted = SelfSelectionRegressor(weights_kind="frequency").fit(
        X, y, chosen=villagers["job"], sample_weight=times
    )
    assert counted.result_.nobs == times.sum()
    sampled = SelfSelectionRegressor(weights_kind="probability").fit(
        X, y, chosen=villagers["job"], sample_weight=times
    )
    assert sampled.result_.covariance.kind == "robust"
    np.testing.assert_allclose(sampled.coef_, counted.coef_, rtol=SOLVER)
    # Without weights there is nothing to mean.
    assert clone(sampled).fit(X, y, chosen=villagers["job"]).result_.nobs == len(y)
    with pytest.raises(DataError, match="numbers of identical rows"):
        SelfSelectionRegressor(weights_kind="frequency").fit(
            X, y, chosen=villagers["job"], sample_weight=times + 0.5
        )


def test_a_number_of_alternatives_that_chosen_denies_is_refused(villagers):
    X, y = villagers[["height", "weight"]], villagers["income"]
    for number in (None, 2):
        SelfSelectionRegressor(n_alternatives=number).fit(X, y, chosen=villagers["job"])
    with pytest.raises(OptionError, match="does not agree with `chosen`, which has 2 alternatives"):
        SelfSelectionRegressor(n_alternatives=3).fit(X, y, chosen=villagers["job"])
