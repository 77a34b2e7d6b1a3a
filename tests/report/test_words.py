"""Sentences of summary and report, on a spread of fits: each says what its fit is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.noises import Correlated, Independent, KnownCovariance, SharedShock
from selfselect.report.chapters import data_chapter, without_rows
from selfselect.report.page import Block
from selfselect.rules import ConvexRule, LinearArgmax, Maximum, MonotoneArgmax, Ranked

WIDTH = 79
RIDDLES = ("who was seen", "nobody", "Nobody", "nearly identical")


def draw(n_rows: int = 300, k: int = 2, seed: int = 0) -> pd.DataFrame:
    """Draw rows in which the largest of k outcomes was chosen."""
    rng = np.random.default_rng([seed, k, 31])
    x = rng.normal(size=(n_rows, 2))
    slopes = np.array([[0.8, -0.4], [-0.5, 0.6], [0.2, 0.5]])[:k]
    latent = 1.0 + x @ slopes.T + rng.normal(size=(n_rows, k))
    chosen = latent.argmax(axis=1)
    return pd.DataFrame(
        {
            "y": latent[np.arange(n_rows), chosen],
            "who": np.array(list("abc"))[chosen],
            "x1": x[:, 0],
            "x2": x[:, 1],
            "fee": rng.uniform(size=n_rows),
            "group": np.arange(n_rows) // 4,
            "times": rng.integers(1, 4, n_rows),
        }
    )


def largest(latent: np.ndarray) -> np.ndarray:
    return latent.argmax(axis=1)


def fit_of(table: pd.DataFrame | None = None, **options: object) -> ss.FitResult:
    data = draw() if table is None else table
    if "alternatives" not in options:
        options["chosen"] = "who"
    return ss.fit("y ~ x1 + x2", data, **options)


def some_silent() -> pd.DataFrame:
    table = draw()
    table.loc[table["who"].eq("b") & (table.index < 60), "y"] = np.nan
    return table


FITS: dict[str, Callable[[], ss.FitResult]] = {
    "largest": fit_of,
    "smallest": lambda: fit_of(rule="min"),
    "known costs": lambda: fit_of(rule=Maximum(cost={"b": "fee"})),
    "estimated costs": lambda: ss.fit(
        "y ~ x1", draw(500), chosen="who", cost={"b": "~ fee"}
    ),
    "transformed": lambda: fit_of(rule=MonotoneArgmax({"a": "identity", "b": "identity"})),
    "mixed": lambda: fit_of(draw(k=2), rule=LinearArgmax({"a": {"b": 0.1}})),
    "ranked": lambda: fit_of(draw(k=3), rule=Ranked(1)),
    "a function": lambda: fit_of(
        draw(150), rule=ConvexRule(largest), noise=Independent(1.0), seed=1
    ),
    "unknown": lambda: fit_of(alternatives=2),
    "correlated": lambda: fit_of(noise=Correlated()),
    "shared shock": lambda: fit_of(noise=SharedShock(loading="common")),
    "known covariance": lambda: fit_of(
        draw(150), noise=KnownCovariance([[1.0, 0.2], [0.2, 1.0]]), seed=1
    ),
    "silent": lambda: fit_of(some_silent(), missing_outcome="silent"),
    "bounded": lambda: fit_of(some_silent(), outcome_between=(None, 2.5)),
    "shared": lambda: fit_of(shared=["x2"]),
    "frequencies": lambda: fit_of(weights="times", weights_kind="frequency"),
    "probabilities": lambda: fit_of(weights="times", weights_kind="probability"),
    "clusters": lambda: fit_of(cluster="group"),
    "long": lambda: ss.fit(
        "bid ~ size + distance + backlog", ss.simulators.tender(120, seed=1).data, chosen="won",
        case="tender", alternatives="firm", shared="all", rule="min",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=FITS)
def named(request: pytest.FixtureRequest) -> tuple[str, ss.FitResult]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.errors.ConvergenceWarning)
        return request.param, FITS[request.param]()


def text_of(fit: ss.FitResult) -> str:
    return " ".join(
        [*fit._portrait().question(), fit._portrait().nothing_wrong(), str(fit.diagnose())]
    )


def test_pages_are_narrow_and_speak_plainly(named: tuple[str, ss.FitResult]) -> None:
    _, fit = named
    for page in (fit.summary(), fit.compare().to_page()):
        assert max(map(len, str(page).splitlines())) <= WIDTH
        for riddle in RIDDLES:
            assert riddle not in str(page)
    assert not any(riddle in text_of(fit) for riddle in RIDDLES)


def test_a_status_says_one_thing(named: tuple[str, ss.FitResult]) -> None:
    _, fit = named
    assert fit.converged == ("Converged" in fit.status)


def test_where_nothing_is_wrong_the_report_says_what_was_tested(
    named: tuple[str, ss.FitResult],
) -> None:
    _, fit = named
    said = fit._portrait().nothing_wrong()
    normality, variance = fit.normality_test(0), fit.heteroskedasticity_test(0)
    tests = {"normality": normality, "constant variance": variance}
    if isinstance(fit.problem.noise, Independent):
        tests["independence"] = fit.independence_test()
    else:
        assert "independence" not in said.lower().replace("independent noise", "")
    passed = said.split("not rejected")[0].lower() if "not rejected" in said else ""
    for name, test in tests.items():
        assert (name in passed) == (test.possible and not test.rejects())
        if not test.possible:
            assert test.reason is not None and test.reason in said


def test_saved_and_loaded_fits_print_the_same_page(
    named: tuple[str, ss.FitResult], tmp_path: Path
) -> None:
    name, fit = named
    if name == "a function":
        pytest.skip("A rule that is code of the user's cannot be saved.")
    fit.save(tmp_path / "fit.json")
    loaded = ss.load(tmp_path / "fit.json")
    assert str(loaded.summary()) == str(fit.summary())
    assert loaded._portrait().question() == fit._portrait().question()
    assert loaded._portrait().nothing_wrong() == fit._portrait().nothing_wrong()


def test_the_question_names_what_decided_and_what_was_recorded() -> None:
    expected = {
        "largest": ("was recorded: the largest. The column who says which one it is.",
                    "because the outcomes themselves decided the choice"),
        "smallest": ("was recorded: the smallest. The column who",),
        "known costs": ("the largest, counting known costs.",
                        "because outcomes and costs decided the choice"),
        "mixed": ("was recorded: the one that the rule selects (the alternative with the "
                  "largest linear combination of outcomes is chosen).",),
        "ranked": ("was recorded: the one of rank 1 from the top.",),
        "unknown": ("Which one it is was not recorded.",),
        "silent": ("rows no outcome was recorded.",),
    }  # fmt: skip
    for name, sentences in expected.items():
        said = " ".join(FITS[name]()._portrait().question())
        for sentence in sentences:
            assert sentence in said, name


def test_with_estimated_costs_the_largest_is_not_said_to_be_recorded() -> None:
    fit = FITS["estimated costs"]()
    said = " ".join(fit._portrait().question())
    assert "the largest, counting estimated costs." in said
    assert "counting estimated costs of b" in said
    # The fee moves the cost alone: no outcome depends on it.
    assert "depend on x1 in each alternative" in said and "fee" not in said


def test_long_data_has_cases() -> None:
    fit = FITS["long"]()
    assert (
        fit._portrait()
        .question()[0]
        .startswith(f"Each of {fit.facts.n_rows} cases has a value of bid")
    )
    assert f"{fit.facts.n_rows} cases with {fit.facts.n_long_rows} rows" in str(data_chapter(fit))


def test_rows_without_an_outcome_do_not_spoil_the_table_of_outcomes() -> None:
    fit = FITS["silent"]()
    table = next(part for part in data_chapter(fit).parts if isinstance(part, Block))
    assert table.title == "Recorded y, by chosen alternative"
    recorded = some_silent()["y"].dropna()
    assert table.rows[0][1] == str(len(recorded))
    assert table.rows[0][3] == f"{recorded.mean():.4f}"


def test_without_rows_the_reason_is_the_right_one(tmp_path: Path) -> None:
    table = draw()
    path = tmp_path / "rows.parquet"
    table.to_parquet(path)
    streamed = ss.fit("y ~ x1 + x2", path, chosen="who", engine=ss.engines.Parquet())
    assert "read piece by piece" in without_rows(streamed)
    streamed.save(tmp_path / "fit.json")
    assert "loaded from a file" in without_rows(ss.load(tmp_path / "fit.json"))


def test_a_search_that_ends_nowhere_does_not_say_that_it_converged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status = ss.solvers.Status.NO_FINITE_ESTIMATE
    lost = ss.solvers.Ending(status, {"term": "x1", "alternative": "1"})
    monkeypatch.setattr("selfselect.solvers._multistart.undetermined", lambda *_, **__: lost)
    with pytest.warns(ss.errors.ConvergenceWarning):
        fit = fit_of(alternatives=2)
    assert fit.solution.status is status and "Converged" not in fit.status
    assert "optimum" not in fit.status


# how much a rejection matters


def rejected(noise: Callable[[np.random.Generator, int], np.ndarray], n_rows: int = 4_000):
    """Fit rows whose noise (n, 2) is not as assumed."""
    rng = np.random.default_rng([3, 8])
    x = rng.normal(size=(n_rows, 2))
    latent = 0.2 + x @ np.array([[0.8, -0.5], [-0.4, 0.6]]) + noise(rng, n_rows) * [0.8, 1.0]
    chosen = latent.argmax(axis=1)
    table = pd.DataFrame({"y": latent.max(axis=1), "who": np.array(["a", "b"])[chosen],
                          "x1": x[:, 0], "x2": x[:, 1]})  # fmt: skip
    return fit_of(table)


def test_heavy_tails_are_told_and_not_forbidden() -> None:
    fit = rejected(lambda rng, n: rng.standard_t(5, (n, 2)) / np.sqrt(5 / 3))
    said = " ".join(fit.rejections())
    assert "NORMALITY REJECTED" in said and "EFFECT ON SLOPES SMALL" in said
    assert "must not be interpreted as bias" not in said and "Try " not in said


def test_correlation_is_fatal_and_the_rule_is_a_suspect() -> None:
    def alike(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.sqrt(0.2) * rng.normal(size=(n, 2)) + np.sqrt(0.8) * rng.normal(size=(n, 1))

    fit = rejected(alike)
    said = " ".join(fit.rejections())
    assert "or choices did not follow the rule alone (costs, rationing" in said
    assert "Try noise='correlated', noise=noises.SharedShock(), costs, switching()." in said
    assert "EFFECT ON SLOPES LARGE" in said and "times the error of least squares" in said
    assert "must not be interpreted as bias" in said
    # Nothing here has heavy tails, so nothing is said of them.
    assert "Heavy tails" not in said


def test_choices_unrelated_to_outcomes_put_the_rule_in_doubt() -> None:
    rng = np.random.default_rng([4, 8])
    x = rng.normal(size=(4_000, 2))
    latent = 0.2 + x @ np.array([[0.8, -0.5], [-0.4, 0.6]]) + rng.normal(size=(4_000, 2))
    chosen = rng.integers(0, 2, 4_000)
    table = pd.DataFrame({"y": latent[np.arange(4_000), chosen], "x1": x[:, 0], "x2": x[:, 1],
                          "who": np.array(["a", "b"])[chosen]})  # fmt: skip
    said = " ".join(fit_of(table).rejections())
    assert "EFFECT ON SLOPES LARGE" in said and "The rule itself may be wrong." in said


def test_one_scale_for_all_is_named_first_with_what_to_pass() -> None:
    rng = np.random.default_rng([5, 8])
    x = rng.normal(size=(3_000, 1))
    latent = np.column_stack([1.5 * x[:, 0], -1.5 * x[:, 0]]) + rng.normal(size=(3_000, 2)) * [
        0.5, 1.5]  # fmt: skip
    table = pd.DataFrame({"y": latent.max(axis=1), "x": x[:, 0]})
    common = ss.fit("y ~ x", table, alternatives=2)
    said = common.rejections()
    assert said[0].startswith("ONE SCALE FOR ALL REJECTED: score test, p <0.001.")
    assert "noise=selfselect.noises.Independent(scale='each')" in said[0]
    assert not any("Try " in one for one in said)
    assert str(common.summary()).splitlines()[1].startswith("! ONE SCALE FOR ALL")
    each = ss.fit("y ~ x", table, alternatives=2, noise=Independent(scale="each"))
    assert each.rejections() == ()
    assert each.llf > common.llf + 10


def test_what_cannot_be_measured_is_said_to_be_unknown() -> None:
    rng = np.random.default_rng([6, 8])
    x = rng.normal(size=(2_000, 1))
    noise = (rng.chisquare(3, (2_000, 2)) - 3) / np.sqrt(6)
    latent = np.column_stack([1.5 * x[:, 0], -1.5 * x[:, 0]]) + noise
    fit = ss.fit("y ~ x", pd.DataFrame({"y": latent.max(axis=1), "x": x[:, 0]}), alternatives=2)
    said = fit.rejections()[-1]
    assert said.startswith("EFFECT ON SLOPES UNKNOWN: no grade is computed, since residuals")
    with pytest.raises(ss.errors.UnsupportedError, match="where the choice was recorded"):
        fit.departures()
