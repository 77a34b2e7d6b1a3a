"""Answers of some fits, kept: a change of structure must not change what follows from a fit.

``test_golden`` keeps fits, under every option; here are the other doors, the other engines, and
what is asked of a fit afterwards: effects, predictions, intervals, tests. All by public calls.

``python tests/golden/test_answers.py`` writes them anew, with names only those. The law of
``golden.json`` holds for ``answers.json`` too: it changes only in a commit that touches nothing in
``src``, and that gives a reason for each number.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.noises import Correlated, Independent, Mixture, SharedShock, Student, Types
from selfselect.rules import LinearArgmax, MonotoneArgmax, Ranked

if __name__ == "__main__":
    from test_golden import CLIMBED, CLOSE_ERRORS, MIXED, table
else:
    from .test_golden import CLIMBED, CLOSE_ERRORS, MIXED, table

KEPT = Path(__file__).with_name("answers.json")

FEW = 30
"""Rows over which effects are averaged where integrals are slow."""

N_PEOPLE = 100

DIGITS = 12
"""Of a number that is kept: more than any tolerance looks at."""

Ask = Callable[[Any], Any]


@cache
def rows() -> pd.DataFrame:
    """Return the rows of the fits, with more columns."""
    data = table()
    rng = np.random.default_rng(2_025)
    n = len(data)
    index = 0.5 * data["x1"] + 0.8 * data["x3"] + rng.normal(size=n)
    level = np.digitize(index, [-0.6, 0.7])
    shock = rng.normal(size=N_PEOPLE)[np.arange(n) % N_PEOPLE]
    latent = (
        np.column_stack([0.3 + data["x1"], 0.5 * data["x2"] + 0.2])
        + shock[:, None]
        + 0.7 * rng.normal(size=(n, 2))
    )
    who = latent.argmax(axis=1)
    pull = np.column_stack([0 * index, 0.5 * data["x1"] + data["x3"], data["x3"] - data["x2"]])
    sector = (pull + rng.gumbel(size=(n, 3))).argmax(axis=1)
    heavy = np.column_stack([0.3 + data["x1"], 0.5 * data["x2"]]) + rng.standard_t(4, size=(n, 2))
    return data.assign(
        y_heavy=heavy.max(axis=1),
        who_heavy=np.array(["a", "b"])[heavy.argmax(axis=1)],
        person=np.arange(n) % N_PEOPLE,
        y_person=latent[np.arange(n), who],
        who_person=np.array(["a", "b"])[who],
        level=level,
        y_level=1.0 + 0.5 * level + data["x1"] + 0.4 * index + rng.normal(size=n),
        y_pair_exp=np.exp(0.3 * data["y_pair"]),
        branch=np.array(["farm", "mill", "shop"])[sector],
        earned=1.0 + data["x2"] + 0.3 * sector + rng.normal(size=n),
    )


def fitted(
    formula: Any = "y_pair ~ x1 + x2", chosen: str | None = "who_pair", **options: Any
) -> Any:
    return lambda: ss.fit(formula, rows(), chosen=chosen, seed=1, **options)


THREE = {"formula": "y ~ x1 + x2", "chosen": "who"}
PEOPLE = {"formula": "y_person ~ x1 + x2", "chosen": "who_person", "panel": "person"}


def selected(**options: Any) -> Any:
    return lambda: ss.sample_selection("wage ~ x1", "works ~ x1 + x3", rows(), **options)


def switched(
    formula: Any = "pay ~ x1 + x2", by: str = "sector ~ x1 + x2 + x3", **options: Any
) -> Any:
    return lambda: ss.switching(formula, by, rows(), **options)


def multinomial(**options: Any) -> Any:
    return lambda: ss.multinomial_switching(
        "earned ~ x2", "branch ~ x1 + x2 + x3", rows(), **options
    )


ROY: dict[str, Callable[[], Any]] = {
    "pair": fitted(),
    "three": fitted(**THREE),
    "three, common": fitted(**THREE, noise=Independent("common")),
    "min": fitted("y_low ~ x1 + x2", "who_low", rule="min"),
    "costs": fitted("y_dear ~ x1 + x2", "who_dear", cost={"b": 0.4, "c": "fare"}),
    "closed to some": fitted("y_open ~ x1 + x2", "who_open", available={"c": "open_c"}),
    "costs estimated": fitted(
        "y_dear ~ x1 + x2", "who_dear", cost={"c": "~ fare"}, noise=Independent("common")
    ),
    "silent": fitted("y_silent ~ x1 + x2", "who", missing_outcome="silent"),
    "clustered": fitted(cluster="firm", weights="w", weights_kind="probability"),
    "correlated": fitted(noise=Correlated()),
    "unknown": fitted({"left": "y_max ~ x1", "right": "y_max ~ x2"}, None),
}
"""Fits of which every effect is kept, over all their rows."""

SLOW: dict[str, Callable[[], Any]] = {
    "second highest": fitted("y_second ~ x1 + x2", "who_second", rule=Ranked(2)),
    "transformed": fitted("y_exp ~ x1", "who", rule=MonotoneArgmax(dict.fromkeys("abc", "sqrt"))),
    "logistic": fitted(noise=Independent(shape="logistic")),
    "gumbel": fitted(noise=Independent(shape="gumbel")),
    "student": fitted("y_heavy ~ x1 + x2", "who_heavy", noise=Student()),
    "student, 5": fitted(noise=Student(degrees=5.0)),
    "mixture": fitted(noise=Mixture(2)),
    "moving scales": fitted(noise=Independent("~ x1")),
    "shared shock": fitted(**PEOPLE, noise=SharedShock()),
    "types": fitted(**PEOPLE, noise=Types(2)),
}
"""Fits of which effects are kept over a few rows."""

WITHOUT_EFFECTS: dict[str, Callable[[], Any]] = {
    "mixed outcomes": fitted(
        "y ~ x1", "who", rule=LinearArgmax(MIXED), noise=Independent("common")
    ),
}

SELECTED: dict[str, Callable[[], Any]] = {
    "sample selection": selected(),
    "two steps": selected(method="two-step"),
    "selected, weights": selected(weights="w", weights_kind="probability", cluster="firm"),
    "switching": switched(),
    "switching, two steps": switched(method="two-step"),
    "switching, robust": switched(covariance="robust"),
    "treatment": switched(shared="slopes"),
    "shared": switched(shared=["x1"]),
    "ordered": switched("y_level ~ x1", "level ~ x1 + x3", ordered=True),
}

MULTINOMIAL = {
    name: multinomial(correction=name) for name in ("lee", "dmf0", "dmf1", "dmf2", "dahl")
} | {"clustered": multinomial(cluster="firm")}


def pair_of(fit: Any) -> tuple[Any, Any]:
    """Return the first two alternatives of a fit."""
    first, second, *_ = fit.equation_labels
    return first, second


def of(value: Any) -> Any:
    """Return what is kept of an answer: numbers by column."""
    if isinstance(value, Mapping):
        return {str(name): of(one) for name, one in value.items()}
    if isinstance(value, str):
        return value
    if isinstance(value, pd.DataFrame):
        if isinstance(value.columns, pd.MultiIndex):
            value = value.set_axis([" ".join(map(str, one)) for one in value.columns], axis=1)
        return {str(name): of(value[name]) for name in value.select_dtypes(["number", "bool"])}
    if isinstance(value, ss.FitResult):
        found = {"converged": of(value.converged), "loglik": of(value.llf)}
        return found | {"estimates": of(value.params), "errors": of(value.bse)}
    if hasattr(value, "p_value"):
        return of([value.statistic, value.df, value.p_value])
    if hasattr(value, "table"):
        return of(value.table)
    numbers = np.asarray(value, dtype=float).ravel().tolist()
    return [float(f"{one:.{DIGITS}g}") for one in numbers]


def plain(value: Any) -> Any:
    """Return a scenario's answers."""
    return {"outcomes": value.outcomes, "shares": value.shares} | (
        {} if value.moves is None else {"moves": value.moves}
    )


def effects(data: Any = None) -> dict[str, Ask]:
    """Return every effect as a question, over some rows or those of the fit."""
    over: dict[str, Any] = {} if data is None else {"data": data}

    def ask(name: str, *arguments: Any, **more: Any) -> Ask:
        return lambda fit: getattr(fit, name)(*arguments, **(over | more))

    def between(name: str, **more: Any) -> Ask:
        return lambda fit: getattr(fit, name)(*pair_of(fit), **(over | more))

    return {
        "potential outcomes": ask("potential_outcomes"),
        "choice probabilities": ask("choice_probabilities"),
        "marginal, chance": ask("marginal_effects", "x1"),
        "marginal, outcome": ask("marginal_effects", "x1", of="outcome"),
        "treatment effects": between("treatment_effects"),
        "rows taken as given": between("treatment_effects", covariates="fixed"),
        "sorting": ask("sorting"),
        "heterogeneity": between("heterogeneity"),
        "gains": lambda fit: {
            "effect": (found := fit.gains(*pair_of(fit), **over, draws=4_000)).effect,
            "table": found.table,
        },
        "closed": lambda fit: plain(fit.counterfactual(**over, close=[pair_of(fit)[1]])),
        "subsidised": lambda fit: plain(fit.counterfactual(**over, subsidy={pair_of(fit)[1]: 0.3})),
        "policy": lambda fit: fit.policy(**over).value,
    }


def new_rows() -> pd.DataFrame:
    return rows().iloc[:5]


def predictions(fit: Any) -> Any:
    """Return predictions of every kind for new rows; errors of three."""
    found: dict[str, Any] = {}
    for kind in ("latent", "chance", "outcome", "given_seen", "scale"):
        found[kind] = answered(lambda kind=kind: fit.predict(new_rows(), kind=kind))
    for kind in ("latent", "chance", "outcome"):
        found[f"{kind}, errors"] = answered(
            lambda kind=kind: fit.predict(new_rows().iloc[:2], kind=kind, level=0.9)
        )
    return found


FROM_FIT: dict[str, tuple[Callable[[], Any], Ask]] = {
    "at the means: pair": (
        ROY["pair"],
        lambda fit: {
            "outcomes": fit.potential_outcomes(at="means"),
            "chances": fit.choice_probabilities(at={"x1": 1.0}),
            "marginal": fit.marginal_effects("x2", at="means"),
        },
    ),
    "decompose: pair": (ROY["pair"], lambda fit: fit.decompose("a", "b")),
    "decompose: common scale": (
        ROY["three, common"],
        lambda fit: fit.decompose("a", "c", reference="a"),
    ),
    "opened: closed to some": (
        ROY["closed to some"],
        lambda fit: plain(fit.counterfactual(open=["c"])),
    ),
    "subsidised: costs": (
        ROY["costs"],
        lambda fit: plain(fit.counterfactual(subsidy={"c": 0.2})),
    ),
    "other rule: three": (ROY["three"], lambda fit: plain(fit.counterfactual(rule="min"))),
    "quota by price: three": (
        ROY["three"],
        lambda fit: plain(fit.counterfactual(quota={"a": 0.2})),
    ),
    "quota by lottery: three": (
        ROY["three"],
        lambda fit: plain(fit.counterfactual(quota={"a": 0.2}, rationing="lottery", draws=4_000)),
    ),
    "other covariates: pair": (
        ROY["pair"],
        lambda fit: plain(
            fit.counterfactual(data=rows().assign(x1=rows()["x1"] + 0.5), base=rows())
        ),
    ),
    "restrictions: switching": (SELECTED["switching"], lambda fit: fit.restrictions().table),
    # Pages read the tests that were made of a fit last, so what asks for few samples has its own.
    "tests: pair": (
        fitted(),
        lambda fit: {
            "independence": fit.independence_test(),
            "normality": fit.normality_test(19, seed=1),
            "variance": fit.heteroskedasticity_test(19, seed=1),
            "wald": fit.wald_test("a:x1 = b:x1"),
            "linear": fit.lincom("a:x1 - b:x1", "2*a:x2"),
            "nonlinear": fit.nlcom("a:x1 / b:scale"),
        },
    ),
    "tests: three, common": (
        ROY["three, common"],
        lambda fit: {
            "independence": fit.independence_test(),
            "scales": fit_of(ROY["three"]).lr_test(fit),
        },
    ),
    "tests: clustered": (
        ROY["clustered"],
        lambda fit: {"independence": fit.independence_test(), "wald": fit.wald_test("a:x1 = 1")},
    ),
    "sensitivity: pair": (
        ROY["pair"],
        lambda fit: {
            "estimates": (found := fit.sensitivity([-0.4, 0.0, 0.4])).table,
            "errors": found.std_errors,
        },
    ),
    "departures: pair": (
        ROY["pair"],
        lambda fit: {"slopes": (found := fit.departures()).slopes, "noise": found.noise},
    ),
    "rehearsal: pair": (ROY["pair"], lambda fit: fit.rehearse(10, seed=1).table),
    "profile: correlated": (
        ROY["correlated"],
        lambda fit: fit.conf_int(method="profile", params=[("a", "x1")]),
    ),
    "intervals: pair": (ROY["pair"], lambda fit: {"wald": fit.conf_int(0.9), "naive": fit.naive}),
    "responsibilities: unknown": (ROY["unknown"], lambda fit: fit.responsibilities().iloc[:10]),
    "people: types": (SLOW["types"], lambda fit: fit.types().table),
    "simulated: pair": (ROY["pair"], lambda fit: fit.simulate(new_rows(), seed=4)),
    "bounds: pair": (
        ROY["pair"],
        lambda fit: {"means": (found := fit.bounds()).means, "quantiles": found.quantiles},
    ),
    "verdict: pair": (
        ROY["pair"],
        lambda fit: fit.verdict(("a", "b"), seed=1),
    ),
    "verdict: coefficient": (ROY["pair"], lambda fit: fit.verdict("a:x1", seed=1)),
}


def logarithm(**options: Any) -> Any:
    return fitted("np.log(y_pair_exp) ~ x1 + x2", **options)


def levels(data: Any = None) -> Ask:
    """Ask for levels of what was modelled as a logarithm."""
    over: dict[str, Any] = {} if data is None else {"data": data}
    return lambda fit: {
        "outcomes": fit.potential_outcomes(**over, scale="level"),
        "effects": fit.treatment_effects("a", "b", **over, scale="level"),
        "marginal": fit.marginal_effects("x1", of="outcome", **over, scale="level"),
        "subsidised": plain(fit.counterfactual(**over, subsidy={"a": 0.2}, scale="level")),
        "latent": fit.predict(new_rows(), kind="latent", scale="level"),
        "outcome": fit.predict(new_rows(), kind="outcome", scale="level", level=0.9),
    }


LEVELS = {
    "levels: normal": (logarithm(), levels()),
    "levels: correlated": (logarithm(noise=Correlated()), levels()),
    "levels: mixture": (logarithm(noise=Mixture(2)), levels(rows().iloc[:FEW])),
    "levels: mixed outcomes": (
        fitted("np.log(y_exp) ~ x1", "who", rule=LinearArgmax(MIXED), noise=Independent("common")),
        lambda fit: fit.predict(new_rows(), kind="outcome", scale="level"),
    ),
    "levels: moving scales": (logarithm(noise=Independent("~ x1")), levels(rows().iloc[:FEW])),
}


def said(text: str) -> list[float]:
    """Return the numbers with four decimals in a sentence."""
    return [float(one) for one in re.findall(r"[+-]?\d+\.\d{4}", text)]


def mte(fit: Any) -> Any:
    found = fit.mte()
    return {
        "curve": found.table,
        "averages": found.averages,
        "late": found.late({"x3": (0.0, 1.0)}),
        "policy": found.policy({"x3": rows()["x3"] + 0.2}),
        "said of late": said(found.late({"x3": (0.0, 1.0)}).notes[0]),
    }


def selection_effects(fit: Any) -> Any:
    """Ask a selection model for what it has, an outcome that is selected for less."""
    alone = ("potential outcomes", "choice probabilities", "marginal, chance", "marginal, outcome")
    return {
        name: answered(lambda ask=ask: ask(fit))
        for name, ask in effects().items()
        if name in alone or len(fit.equation_labels) > len(("outcome", "selection"))
    }


def doors() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield doors that return something else than a fit."""
    yield "bounds", lambda: spread_out(ss.bounds("y", rows(), chosen="who"))
    yield "bounds, by", lambda: spread_out(ss.bounds("y", rows(), chosen="who", by="region"))
    yield (
        "bounds, instrument",
        lambda: spread_out(ss.bounds("y", rows(), chosen="who", instrument="region")),
    )
    yield (
        "bounds, weights",
        lambda: spread_out(
            ss.bounds("y", rows(), chosen="who", weights="w", weights_kind="probability",
                      cluster="firm")
        ),
    )  # fmt: skip
    yield "bounds, along", lambda: spread_out(ss.bounds("y", rows(), chosen="who", along="x1"))
    yield (
        "number of alternatives",
        lambda: {
            "table": (
                found := ss.choose_alternatives("y_max ~ x1 + x2", rows(), [1, 2], seed=1)
            ).table,
            "recommended": found.recommended,
        },
    )
    yield (
        "choice of noise",
        lambda: ss.choose_noise(
            "y_pair ~ x1 + x2", rows(), chosen="who_pair", seed=1, effect=("a", "b"),
            candidates={"normal": Independent(), "logistic": Independent(shape="logistic"),
                        "correlated": Correlated()},
        ),
    )  # fmt: skip
    yield "regressor", regressor
    yield (
        "simulators",
        lambda: {
            name: getattr(ss.simulators, name)(20, seed=3).data
            for name in ("village", "market", "auction", "tender")
        },
    )
    yield "panel means", lambda: ss.panel_means(rows(), "person", ["x1"]).iloc[:10]


def spread_out(found: Any) -> Any:
    tests = {test.name: test for test in found.tests}
    return {"means": found.means, "quantiles": found.quantiles} | tests


def regressor() -> Any:
    X, y = rows()[["x1", "x2"]], rows()["y_pair"]
    model = ss.SelfSelectionRegressor(n_alternatives=2).fit(X, y, chosen=rows()["who_pair"])
    return {"coefficients": model.coef_, "predicted": model.predict(X.iloc[:5])}


ENGINES: dict[str, Callable[[Path], Any]] = {}


def in_engine(name: str) -> Callable[[Callable[[Path], Any]], Callable[[Path], Any]]:
    def keep(fit: Callable[[Path], Any]) -> Callable[[Path], Any]:
        ENGINES[name] = fit
        return fit

    return keep


NUMBERS = ["x1", "x2", "x3", "y_pair", "who_pair", "region", "w", "firm"]


@in_engine("csv")
def _csv(folder: Path) -> Any:
    rows()[NUMBERS].to_csv(folder / "rows.csv", index=False, float_format="%.17g")
    return ss.fit("y_pair ~ x1 + region", folder / "rows.csv", chosen="who_pair", cluster="firm")


@in_engine("csv, in pieces")
def _pieces(folder: Path) -> Any:
    for at in range(2):
        rows()[NUMBERS].iloc[200 * at : 200 * (at + 1)].to_csv(
            folder / f"rows{at}.csv", index=False, float_format="%.17g"
        )
    engine = ss.engines.Parquet(batch_rows=90)
    return ss.fit("y_pair ~ x1 + region", str(folder / "*.csv"), chosen="who_pair", engine=engine)


@in_engine("parquet, selection")
def _parquet(folder: Path) -> Any:
    columns = ["wage", "works", "x1", "x3"]
    rows()[columns].to_parquet(folder / "rows.parquet", row_group_size=130)
    return ss.sample_selection(
        "wage ~ x1", "works ~ x1 + x3", folder / "rows.parquet", engine=ss.engines.Parquet()
    )


@in_engine("chunks")
def _chunks(folder: Path) -> Any:
    # So many rows are several tasks, also for compiled kernels.
    del folder
    many = pd.concat([rows()[NUMBERS]] * 170, ignore_index=True)
    return ss.fit("y_pair ~ x1 + x2", many, chosen="who_pair")


@in_engine("dask")
def _dask(folder: Path) -> Any:
    del folder
    frames = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        parts = frames.from_pandas(rows()[NUMBERS], npartitions=3)
        return ss.fit("y_pair ~ x1 + x2", parts, chosen="who_pair", engine=ss.engines.Dask(client))


@in_engine("dict")
def _dict(folder: Path) -> Any:
    del folder
    columns = {name: rows()[name].to_numpy() for name in NUMBERS}
    return ss.fit("y_pair ~ x1 + region", columns, chosen="who_pair")


COVARIANCES: dict[str, Callable[[], Any]] = {
    "robust": fitted(**THREE, covariance="robust"),
    "clustered": fitted(**THREE, cluster="firm"),
    "bootstrap": fitted(covariance=ss.inference.Bootstrap(9)),
    "bootstrap of clusters": fitted(covariance=ss.inference.Bootstrap(9), cluster="firm"),
    "panel": fitted(**PEOPLE),
    "student, robust": fitted(
        "y_heavy ~ x1 + x2", "who_heavy", noise=Student(), covariance="robust"
    ),
    "selection, bootstrap": selected(covariance=ss.inference.Bootstrap(5), seed=2),
    "switching, clustered": switched(cluster="firm"),
    "two steps, bootstrap": selected(
        method="two-step", covariance=ss.inference.Bootstrap(9), seed=2
    ),
}


def multinomial_answers(fit: Any) -> Any:
    """Ask a multinomial fit for all it has; one of its corrections does not identify levels."""
    asks: dict[str, Ask] = {
        "estimates": lambda fit: fit.params,
        "errors": lambda fit: fit.bse,
        "outcomes": lambda fit: fit.potential_outcomes(),
        "effects": lambda fit: fit.treatment_effects("mill", "farm"),
        "predicted": lambda fit: fit.predict(new_rows()),
        "selection": lambda fit: fit.selection_test(),
    }
    return {name: answered(lambda ask=ask: ask(fit)) for name, ask in asks.items()}


FIT_OF = {**ROY, **SLOW, **WITHOUT_EFFECTS, **SELECTED}


@cache
def fit_of(make: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.errors.SelfSelectWarning)
        return make()


def answers() -> dict[str, Callable[[], Any]]:
    """Return all that is asked, by name."""
    found: dict[str, Callable[[], Any]] = {}

    def add(name: str, make: Callable[[], Any], ask: Ask) -> None:
        found[name] = lambda: ask(fit_of(make))

    for fit, make in ROY.items():
        for name, ask in effects().items():
            add(f"{name}: {fit}", make, ask)
    for fit, make in SLOW.items():
        for name, ask in effects(rows().iloc[:FEW]).items():
            add(f"{name}: {fit}", make, ask)
    for fit, make in FIT_OF.items():
        add(f"predictions: {fit}", make, predictions)
    for fit, make in SELECTED.items():
        add(f"estimates: {fit}", make, lambda fit: fit)
        add(f"effects: {fit}", make, selection_effects)
    for fit in ("switching", "switching, two steps", "treatment"):
        add(f"mte: {fit}", SELECTED[fit], mte)
    for fit, make in MULTINOMIAL.items():
        add(f"multinomial: {fit}", make, multinomial_answers)
    for fit, make in COVARIANCES.items():
        add(f"covariance: {fit}", make, lambda fit: fit)
    for name, (make, ask) in {**FROM_FIT, **LEVELS}.items():
        add(name, make, ask)
    for name, call in doors():
        found[f"door: {name}"] = call
    for name, fit in ENGINES.items():
        found[f"engine: {name}"] = lambda fit=fit: in_folder(fit)
    return found


def in_folder(fit: Callable[[Path], Any]) -> Any:
    with TemporaryDirectory() as folder:
        return fit(Path(folder))


def answered(call: Callable[[], Any]) -> Any:
    """Return what is kept of an answer, or the name of the error that refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ss.errors.SelfSelectWarning)
        try:
            return of(call())
        except ss.errors.SelfSelectError as error:
            return type(error).__name__


EXACT = {"pair", "three", "three, common", "min", "costs", "closed to some", "clustered"}
"""Fits of one optimum, known to rounding; the others end where a search stops."""


def compare(found: Any, kept: Any, *, climbed: bool, at: str = "") -> None:
    """Compare an answer with what was kept, at the tolerances of `test_golden`."""
    if isinstance(kept, dict):
        assert list(found) == list(kept), at
        for name in kept:
            compare(found[name], kept[name], climbed=climbed, at=f"{at}/{name}")
    elif isinstance(kept, str):
        assert found == kept, at
    else:
        close = CLIMBED if climbed else CLOSE_ERRORS
        np.testing.assert_allclose(found, kept, rtol=10 * close, atol=close, err_msg=at)


ANSWERS = answers()


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    assert sorted(found) == sorted(ANSWERS)
    return found


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answers_are_those_that_were_kept(name: str, kept: dict[str, Any]) -> None:
    exact = name.rpartition(": ")[2] in EXACT
    compare(answered(ANSWERS[name]), kept[name], climbed=not exact)


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(ANSWERS)
    before = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    everything = {
        name: answered(ask) if name in chosen else before[name] for name, ask in ANSWERS.items()
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in everything.items())
    KEPT.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
