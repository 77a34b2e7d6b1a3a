"""Random models over the whole product of options, made and simulated without the package.

A `Spec` names one level of every factor. `draw_case` makes its table, the call that fits it, and
what the oracle needs: the true parameters by label, and `model_of`, from parameters by label to the
oracle's model of those rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from oracle import models
from oracle.integrals import Array
from oracle.models import Atom, Choose, Indices, Law, Model, Recorded

FACTORS: dict[str, tuple[str, ...]] = {
    "door": ("fit", "sample_selection", "switching", "ordered"),
    "index": ("known", "partly", "unknown"),
    "alternatives": ("2", "3"),
    "rule": ("max", "min", "transforms", "mixing", "ranked"),
    "noise": (
        "normal", "logistic", "laplace", "gumbel", "gumbel_min", "student", "student5",
        "mixture", "mixture each", "correlated", "correlated fixed", "shock", "shock fixed",
        "types", "talent types", "types by z",
    ),
    "scale": ("each", "common", "known", "moving"),
    "cost": ("none", "number", "column", "estimated", "by price"),
    "available": ("always", "column"),
    "outcome": ("recorded", "silent", "topcoded", "below", "between"),
    "response": ("itself", "logarithm", "log1p"),
    "offset": ("none", "column", "one", "each"),
    "shared": ("none", "slope", "price", "all"),
    "weights": ("none", "frequency", "probability"),
    "panel": ("none", "people"),
    "errors": ("observed", "robust", "clustered"),
    "layout": ("wide", "long"),
    "formula": ("plain", "intercept", "categories", "labels", "transform", "own", "prices"),
    "units": ("one", "small", "large"),
    "table": ("pandas", "polars", "arrow", "dict", "csv", "parquet", "dask"),
}  # fmt: skip
"""Every option with its levels; the first is what a plain fit has."""

NAMES = "abc"
COMMON = "(common)"
CLOSE_TO_COST = 0.4
RANK = 2
KNOWN_SCALES = (0.8, 1.1, 0.95)
KNOWN_CORRELATION = 0.4
KNOWN_LOADINGS = (0.4, 0.7, 0.5)
MIXING = np.array([[1.0, 0.3, 0.1], [-0.2, 1.0, 0.2], [0.1, -0.3, 1.0]])
UNITS = {"one": (1.0, 1.0), "small": (1e-6, 1e4), "large": (1e6, 1e-3)}
"""Of the outcome and of the covariates."""


@dataclass(frozen=True)
class Spec:
    """One level of every factor, how many rows, and the seed of all that is drawn."""

    door: str = "fit"
    index: str = "known"
    alternatives: str = "2"
    rule: str = "max"
    noise: str = "normal"
    scale: str = "each"
    cost: str = "none"
    available: str = "always"
    outcome: str = "recorded"
    response: str = "itself"
    offset: str = "none"
    shared: str = "none"
    weights: str = "none"
    panel: str = "none"
    errors: str = "observed"
    layout: str = "wide"
    formula: str = "plain"
    units: str = "one"
    table: str = "pandas"
    n_rows: int = 90
    seed: int = 0

    @property
    def k(self) -> int:
        return int(self.alternatives)

    def unusual(self) -> dict[str, str]:
        """Return the factors whose level is not that of a plain fit."""
        return {name: level for name, level in asdict(self).items()
                if name in FACTORS and level != FACTORS[name][0]}  # fmt: skip


def meaningful(spec: Spec) -> str | None:
    """Say why a spec asks for nothing that can be written down; None where it does.

    These are contradictions in terms, not refusals: a selection equation has no rule option.
    """
    is_fit = spec.door == "fit"
    only_fit = ("index", "rule", "noise", "scale", "cost", "available", "panel", "layout")
    if not is_fit:
        named = [name for name in only_fit if name in spec.unusual()]
        if named:
            return f"{spec.door} has no {named[0]}"
        if (spec.door == "ordered") != (spec.alternatives == "3"):
            return f"{spec.door} has other alternatives"
        if spec.door == "sample_selection" and (
            spec.shared != "none" or spec.offset != "none" or by_alternative(spec)
        ):
            return "one outcome shares nothing"
    if spec.index == "unknown" and spec.outcome in ("silent", "topcoded", "between"):
        return "a row records something"
    if spec.noise in ("types", "talent types") and spec.panel == "none":
        return "types without people are no model to recommend"
    if spec.shared == "slope" and spec.formula == "intercept":
        return "an equation without covariates has no slope"
    if spec.shared == "price" and spec.formula != "prices":
        return "there is no price to share"
    if spec.response != "itself" and spec.units != "one":
        return "the level of such a logarithm is beyond all numbers"
    return None


@dataclass(frozen=True, eq=False)
class Case:
    """A drawn model: its table, its call, its truth, and the oracle's view of it."""

    spec: Spec
    table: pd.DataFrame
    formula: Any
    options: dict[str, Any]
    labels: tuple[Any, ...]
    truth: dict[tuple[Any, str], float]
    recorded: Recorded
    designs: dict[Any, dict[str, Array]]
    known: dict[str, Any] = field(default_factory=dict)

    def model_of(self, values: Mapping[tuple[Any, str], float], **changed: Any) -> Model:
        """Return the oracle's model at parameters by label; `changed` known quantities by name."""
        make = _selection_model if self.spec.door != "fit" else _roy_model
        return make(replace_known(self, changed), values)


def replace_known(case: Case, changed: Mapping[str, Any]) -> Case:
    return replace(case, known=case.known | dict(changed)) if changed else case


# parameters by label


def value_of(values: Mapping[tuple[Any, str], float], label: Any, term: str) -> float:
    """Return a parameter of an alternative, or that of all where it is shared."""
    for key in ((label, term), (COMMON, term), *values):
        if key in values and key[1] == term and label in sharing(key[0], label):
            return values[key]
    raise KeyError(f"no parameter {(label, term)} among {list(values)}")


def sharing(owner: Any, label: Any) -> tuple[Any, ...]:
    """Return the alternatives that a parameter belongs to, written as ``(a, b)`` where several."""
    if owner in (label, COMMON):
        return (label,)
    return tuple(str(owner).strip("()").split(", ")) if str(owner).startswith("(") else ()


def means_of(case: Case, values: Mapping[tuple[Any, str], float]) -> Array:
    """Return what covariates and offsets predict (n, k), without shifts of types."""
    columns = []
    for place, label in enumerate(case.labels):
        mean = case.known["offset"][:, place].copy()
        for term, column in case.designs[label].items():
            mean += value_of(values, label, term) * column
        columns.append(mean)
    return np.column_stack(columns)


def scales_of(case: Case, values: Mapping[tuple[Any, str], float]) -> Array:
    """Return the scale (n, k) of every alternative's noise in every row."""
    z, columns = case.known["z"], []
    for place, label in enumerate(case.labels):
        if case.spec.scale == "known":
            columns.append(np.full(len(z), case.known["scales"][place]))
        elif case.spec.scale == "moving":
            log = value_of(values, label, "log scale: Intercept")
            columns.append(np.exp(log + value_of(values, label, "log scale: z") * z))
        else:
            columns.append(np.full(len(z), value_of(values, label, "scale")))
    return np.column_stack(columns)


def _mixture(values: Mapping[tuple[Any, str], float], label: Any) -> models.Mixed:
    share = value_of(values, label, "shape: share 2")
    mean, spread = (value_of(values, label, f"shape: {what} 2") for what in ("mean", "spread"))
    first_mean = -share * mean / (1.0 - share)
    left = 1.0 - share * (mean**2 + spread**2) - (1.0 - share) * first_mean**2
    return models.Mixed(
        np.array([1.0 - share, share]), np.array([first_mean, mean]),
        np.array([np.sqrt(left / (1.0 - share)), spread]),
    )  # fmt: skip


def _shape(case: Case, values: Mapping[tuple[Any, str], float], label: Any) -> tuple[Any, float]:
    noise = case.spec.noise
    if noise.startswith("student"):
        degrees = 5.0 if noise == "student5" else value_of(values, label, "shape: degrees")
        return models.stats.t(degrees), 3e6
    if noise.startswith("mixture"):
        return _mixture(values, label), 30.0
    return models.STANDARD[noise], models.REACH[noise]


def _rule(case: Case, cost: Array) -> Choose:
    spec, open_to, unit = case.spec, case.known["open"], case.known["unit"]
    if spec.rule == "transforms":
        turns: list[Callable[[Array], Array]] = [
            lambda y: np.exp(y / unit), lambda y: 1.5 * y / unit, lambda y: 3.0 - y / unit,
        ]  # fmt: skip
        return models.transformed(turns[: spec.k], cost / unit, open_to)
    if spec.rule == "mixing":
        return models.mixing(MIXING[: spec.k, : spec.k], np.zeros(spec.k), cost, open_to)
    if spec.rule == "ranked":
        return models.ranked(RANK, open_to)
    return models.maximum(cost, open_to, -1.0 if spec.rule == "min" else 1.0)


def _costs(case: Case, values: Mapping[tuple[Any, str], float]) -> Array:
    cost = case.known["cost"].copy()
    if case.spec.cost == "estimated":
        label = case.labels[1]
        cost[:, 1] += value_of(values, label, "cost: Intercept")
        cost[:, 1] += value_of(values, label, "cost: z") * case.known["z"]
    if case.spec.cost == "by price":
        name = "price" if case.spec.layout == "long" else "price_1"
        cost[:, 1] += value_of(values, case.labels[1], f"cost: {name}") * case.known["price"]
    return cost


def _roy_model(case: Case, values: Mapping[tuple[Any, str], float]) -> Model:
    noise, labels = case.spec.noise, case.labels
    means, scales, cost = means_of(case, values), scales_of(case, values), _costs(case, values)
    means = means + case.known.get("subsidy", 0.0)
    n_rows, k = means.shape
    used, nothing = tuple(range(k)), np.zeros(n_rows)

    def normal(shift: Any = 0.0) -> Law:
        return models.Independent(
            means + shift, scales, (models.STANDARD["normal"],) * k, models.REACH["normal"]
        )

    atoms: list[Atom] = []
    if noise.startswith("correlated"):
        roots = np.eye(k)
        for i, j in combinations(range(k), 2):
            name, is_fixed = f"{labels[i]} & {labels[j]}", noise.endswith("fixed") and j == 1
            known = KNOWN_CORRELATION if is_fixed else value_of(values, name, "correlation")
            roots[i, j] = roots[j, i] = known
        law: Law = models.Normal(means, roots * scales[:, :, None] * scales[:, None, :])
        atoms = [Atom(nothing, law, _rule(case, cost))]
    elif noise.startswith("shock"):
        loads = case.known["unit"] * np.array(KNOWN_LOADINGS[:k])
        if not noise.endswith("fixed"):
            loads = np.array([value_of(values, label, "loading") for label in labels])
        if case.spec.panel == "none":
            own = scales[:, :, None] * scales[:, None, :] * np.eye(k)
            law = models.Normal(means, np.outer(loads, loads) + own)
            atoms = [Atom(nothing, law, _rule(case, cost))]
        else:
            nodes = np.linspace(-8.5, 8.5, 120)
            log_weights = models.stats.norm.logpdf(nodes) + np.log(nodes[1] - nodes[0])
            atoms = [
                Atom(nothing + log_weight, normal(loads * node), _rule(case, cost))
                for node, log_weight in zip(nodes, log_weights, strict=True)
            ]
    elif "types" in noise:
        weights = [value_of(values, f"type {m}", "weight") for m in (1, 2)]
        log_weights = np.log(np.array(weights))[None, :] + np.zeros((n_rows, 2))
        if noise == "types by z":
            z = case.known["z"]
            log_weights[:, 1] += value_of(values, "type 2", "z") * (z - case.known["z_mean"])
            log_weights -= np.log(np.exp(log_weights).sum(axis=1, keepdims=True))
        for m in (1, 2):
            shift, more = np.zeros(k), np.zeros(k)
            for place, label in enumerate(labels):
                if noise == "talent types":
                    shift[place] = value_of(values, f"type {m}", "shift")
                    if place:
                        more[place] = value_of(values, label, f"cost of type {m}")
                else:
                    shift[place] = value_of(values, label, f"shift of type {m}")
            atoms.append(Atom(log_weights[:, m - 1], normal(shift), _rule(case, cost + more)))
    else:
        shapes = [_shape(case, values, label) for label in labels]
        law = models.Independent(
            means, scales, tuple(shape for shape, _ in shapes), max(reach for _, reach in shapes)
        )
        atoms = [Atom(nothing, law, _rule(case, cost))]
    if case.spec.rule == "mixing":
        crossings = models.mixing_crossings(MIXING[:k, :k], np.zeros(k), cost)
        atoms = [replace(atom, crossings=crossings) for atom in atoms]
    return Model(tuple(atoms), used)


def _selection_model(case: Case, values: Mapping[tuple[Any, str], float]) -> Model:
    labels, door = case.labels, case.spec.door
    means, scales = means_of(case, values), scales_of(case, values)
    index = np.zeros(len(means))
    for term, column in case.designs["selection"].items():
        index += values["selection", term] * column
    k = means.shape[1]
    links = np.array([value_of(values, label, "correlation") for label in labels])
    # How outcomes of two regimes go together is nobody's business: any number will do.
    correlation = np.eye(k + 1)
    correlation[:k, :k] += np.outer(links, links) * (1.0 - np.eye(k))
    correlation[:k, k] = correlation[k, :k] = links
    spreads = np.column_stack([scales, np.ones(len(means))])
    law = models.Normal(
        np.column_stack([means, index]),
        correlation * spreads[:, :, None] * spreads[:, None, :],
    )
    cuts = [0.0]
    if door == "ordered":
        cuts = [values["selection", f"cut {a}|{b}"] for a, b in pairwise(labels)]
    selects = door == "sample_selection"
    choose = models.by_cuts(cuts, silent_below=selects)
    return Model((Atom(np.zeros(len(means)), law, choose),), (k,), (1,) if selects else ())


# drawing a case


def draw_case(spec: Spec) -> Case:
    """Draw covariates, parameters, outcomes, and what of them is recorded."""
    reason = meaningful(spec)
    if reason is not None:
        raise ValueError(reason)
    rng = np.random.default_rng([spec.seed, 7])
    n, unit, measure = spec.n_rows, *UNITS[spec.units]
    k = 1 if spec.door == "sample_selection" else spec.k
    people = np.arange(n) // 3 if spec.panel == "people" else np.arange(n)
    z = rng.normal(size=n)
    if spec.noise == "types by z":
        z = z[people]
    table = pd.DataFrame(
        {
            "x": rng.normal(size=n) * measure, "t": rng.uniform(0.5, 2.0, n), "z": z,
            "g": rng.choice(["u", "v", "w"], n, p=[0.5, 0.4, 0.1]),
            "base": 0.5 * rng.normal(size=n) * unit, "other": 0.5 * rng.normal(size=n) * unit,
            "who": people, "block": people // 5,
            "fare": rng.uniform(0.0, 0.8, n) * unit, "open": rng.random(n) < 0.7,
            **{f"price_{j}": (1.0 + j) * rng.normal(size=n) for j in range(k)},
        }
    )  # fmt: skip
    if spec.formula in ("categories", "labels"):
        table.loc[: min(2, n - 1), "g"] = ["u", "v", "w"][: min(3, n)]
    labels = labels_of(spec)
    terms = {label: _terms(spec, place) for place, label in enumerate(labels)}
    if spec.door != "fit":
        terms["selection"] = ["Intercept", "x", "z"] if spec.door != "ordered" else ["x", "z"]
    designs = {
        label: {
            term: column_of(f"price_{labels.index(label)}" if term == "price" else term, table)
            for term in own
        }
        for label, own in terms.items()
    }
    known = {
        "z": z, "z_mean": float(z.mean()), "unit": unit,
        "price": table[f"price_{min(k - 1, 1)}"].to_numpy(),
        "prices": np.column_stack([table[f"price_{j}"] for j in range(k)]),
        "offset": np.zeros((n, k)), "cost": np.zeros((n, k)), "open": np.ones((n, k), dtype=bool),
        "scales": [unit * scale for scale in KNOWN_SCALES[:k]],
        "described": np.ones((n, k), dtype=bool),
    }  # fmt: skip
    options: dict[str, Any] = {}
    _offsets(spec, labels, table, known, options)
    _known_costs(spec, labels, table, known, options)
    truth = _truth(spec, labels, designs, rng, unit)
    empty = Recorded(
        np.full(n, np.nan), np.full(n, -1), np.ones((n, k), dtype=bool), np.full((n, 2), np.nan),
        people if "types" in spec.noise or "shock" in spec.noise else np.arange(n), np.ones(n),
    )  # fmt: skip
    case = Case(spec, table, None, options, labels, truth, empty, designs, known)
    latent, chosen = (found[0] for found in case.model_of(truth).draw(1, rng))
    return _record(case, latent, chosen, rng)


def labels_of(spec: Spec) -> tuple[Any, ...]:
    """Return the alternatives: by name, or numbered where they have none."""
    k = spec.k
    if spec.door == "sample_selection":
        return ("outcome",)
    if spec.door == "switching":
        return (False, True)
    if spec.index == "unknown" and not by_alternative(spec) and spec.layout == "wide":
        return tuple(range(1, k + 1))
    return tuple(NAMES[:k])


def by_alternative(spec: Spec) -> bool:
    """Say whether every alternative has a formula of its own."""
    return spec.formula == "own" or (spec.formula == "prices" and spec.layout == "wide")


def _terms(spec: Spec, place: int) -> list[str]:
    if spec.formula == "intercept":
        return ["Intercept"]
    if spec.formula == "categories":
        return ["Intercept", "x", "C(g)[T.v]", "C(g)[T.w]"]
    if spec.formula == "labels":
        return ["Intercept", "x", "g[T.v]", "g[T.w]"]
    if spec.formula == "transform":
        return ["Intercept", "x", "np.log(t)", "x:t"]
    if spec.formula == "prices":
        one_name = spec.layout == "long" or spec.shared == "price"
        return ["Intercept", "x", "price" if one_name else f"price_{place}"]
    if spec.formula == "own":
        return [["Intercept", "x"], ["Intercept", "x", "t"], ["Intercept", "t"]][place]
    return ["Intercept", "x", "t"]


def _right_side(terms: list[str]) -> str:
    plain = [term.partition("[T.")[0] for term in terms if term != "Intercept"]
    return " + ".join(dict.fromkeys(plain)) or "1"


def column_of(term: str, table: pd.DataFrame) -> Array:
    """Return the column of a term of a formula."""
    made: dict[str, Any] = {
        "Intercept": np.ones(len(table)),
        **{f"{name}[T.{level}]": table["g"] == level for name in ("g", "C(g)") for level in "vw"},
        "np.log(t)": np.log(table["t"]),
        "x:t": table["x"] * table["t"],
    }
    return np.asarray(made[term] if term in made else table[term], dtype=float)


def _offsets(
    spec: Spec, labels: Any, table: pd.DataFrame, known: dict[str, Any], options: dict[str, Any]
) -> None:
    base = table["base"].to_numpy()
    if spec.offset == "column":
        known["offset"] += base[:, None]
        options["offset"] = "base"
    elif spec.offset == "one":
        known["offset"][:, -1] += base
        options["offset"] = {labels[-1]: "base"}
    elif spec.offset == "each":
        other = table["other"].to_numpy()
        known["offset"] += np.where(np.arange(len(labels)) == 1, other[:, None], base[:, None])
        options["offset"] = {
            label: "other" if place == 1 else "base" for place, label in enumerate(labels)
        }


def _known_costs(
    spec: Spec, labels: Any, table: pd.DataFrame, known: dict[str, Any], options: dict[str, Any]
) -> None:
    unit = known["unit"]
    scale = 1.0 if spec.rule == "transforms" else unit
    if spec.cost == "number":
        known["cost"][:, 1] = CLOSE_TO_COST * unit
        options["cost"] = {labels[1]: CLOSE_TO_COST * scale}
    elif spec.cost == "column":
        known["cost"][:, 1] = table["fare"]
        if spec.rule == "transforms":
            table["fare"] = table["fare"] / unit
        options["cost"] = {labels[1]: "fare"}
    elif spec.cost == "estimated":
        options["cost"] = {labels[1]: "~ z"}
    elif spec.cost == "by price":
        options["cost"] = {labels[1]: f"~ {'price' if spec.layout == 'long' else 'price_1'} - 1"}
    if spec.available == "column":
        table.loc[table.index[:1], "open"] = True
        known["open"][:, -1] = table["open"]
        if spec.layout == "long" and _has_columns_of_its_own(spec):
            known["described"][:, -1] = table["open"]
        if spec.layout == "wide":
            options["available"] = {labels[-1]: "open"}


def _has_columns_of_its_own(spec: Spec) -> bool:
    """Say whether the last alternative uses a column that no other does.

    In long data nothing says what that is in cases without a row for it.
    """
    alone = spec.k == 2 and (spec.formula == "own" or spec.offset == "each")
    return alone or spec.formula == "prices" or spec.offset == "one"


def _truth(
    spec: Spec, labels: Any, designs: Any, rng: np.random.Generator, unit: float
) -> dict[tuple[Any, str], float]:
    """Draw true parameters, by the label under which they are reported."""
    truth: dict[tuple[Any, str], float] = {}
    every = {term for label in labels for term in designs[label]}
    shared = {"none": set(), "slope": {"x"}, "price": {"price"}, "all": every}[spec.shared]
    for place, label in enumerate(labels):
        for term, column in designs[label].items():
            size = max(float(np.abs(column).mean()), 1e-9)
            at = (_owner(labels, designs, term), term) if term in shared else (label, term)
            level = (1.0 + 0.3 * place if term == "Intercept" else 0.0) * unit
            truth.setdefault(at, level + unit * rng.uniform(-0.7, 0.7) / size)
        _own_noise(spec, label, truth, rng, unit)
    _joint_noise(spec, labels, truth, rng, unit)
    if spec.door != "fit":
        for term, column in designs["selection"].items():
            size = max(float(np.abs(column).mean()), 1e-9)
            truth["selection", term] = rng.uniform(0.3, 0.9) / size
        for label in labels:
            truth[label, "correlation"] = rng.uniform(-0.8, 0.8)
        if spec.door == "ordered":
            truth["selection", "cut a|b"], truth["selection", "cut b|c"] = -0.6, 0.5
    if spec.cost == "estimated":
        truth[labels[1], "cost: Intercept"] = 0.3 * unit
        truth[labels[1], "cost: z"] = rng.uniform(-0.3, 0.3) * unit
    elif spec.cost == "by price":
        name = "price" if spec.layout == "long" else "price_1"
        truth[labels[1], f"cost: {name}"] = rng.uniform(0.1, 0.3) * unit
    return truth


def _owner(labels: Any, designs: Any, term: str) -> str:
    """Write who has a shared coefficient: all, or those that have the term."""
    having = [label for label in labels if term in designs[label]]
    if len(having) == len(labels):
        return COMMON
    return having[0] if len(having) == 1 else f"({', '.join(map(str, having))})"


def _own_noise(
    spec: Spec, label: Any, truth: dict[tuple[Any, str], float], rng: np.random.Generator,
    unit: float,
) -> None:  # fmt: skip
    scale = unit * rng.uniform(0.7, 1.3)
    if spec.scale == "moving":
        truth[label, "log scale: Intercept"] = np.log(scale)
        truth[label, "log scale: z"] = rng.uniform(-0.3, 0.3)
    elif spec.scale == "common" or has_common_scale(spec):
        truth.setdefault((COMMON, "scale"), scale)
    elif spec.scale == "each":
        truth[label, "scale"] = scale
    owner = label if spec.noise == "mixture each" else COMMON
    if spec.noise.startswith("mixture"):
        truth.setdefault((owner, "shape: share 2"), rng.uniform(0.15, 0.4))
        truth.setdefault((owner, "shape: mean 2"), rng.uniform(0.2, 0.6))
        truth.setdefault((owner, "shape: spread 2"), rng.uniform(0.5, 1.2))
    if spec.noise == "student":
        truth.setdefault((COMMON, "shape: degrees"), rng.uniform(3.0, 9.0))


def has_common_scale(spec: Spec) -> bool:
    """Say whether a fit takes one scale for all where none is asked for."""
    shares_all = spec.shared == "all" and spec.scale == "each"
    unknown = spec.noise == "normal" and spec.scale == "each" and spec.index == "unknown"
    return spec.door == "fit" and (shares_all or unknown)


def _joint_noise(
    spec: Spec, labels: Any, truth: dict[tuple[Any, str], float], rng: np.random.Generator,
    unit: float,
) -> None:  # fmt: skip
    if spec.noise.startswith("correlated"):
        for a, b in list(combinations(labels, 2))[spec.noise.endswith("fixed") :]:
            truth[f"{a} & {b}", "correlation"] = rng.uniform(-0.4, 0.6)
    elif spec.noise == "shock":
        if len(labels) == 2:
            truth[COMMON, "loading"] = unit * rng.uniform(0.3, 0.8)
        else:
            for label in labels:
                truth[label, "loading"] = unit * rng.uniform(0.2, 0.8)
    elif "types" in spec.noise:
        weight = rng.uniform(0.55, 0.75)
        truth["type 1", "weight"], truth["type 2", "weight"] = weight, 1.0 - weight
        ratio = -weight / (1.0 - weight)
        if spec.noise == "types by z":
            truth["type 2", "z"] = rng.uniform(-0.6, 0.6)
        if spec.noise == "talent types":
            shift = unit * rng.uniform(0.2, 0.6)
            truth["type 1", "shift"], truth["type 2", "shift"] = shift, ratio * shift
        for place, label in enumerate(labels):
            term = "shift of type" if spec.noise != "talent types" else "cost of type"
            if spec.noise == "talent types" and not place:
                continue
            shift = unit * rng.uniform(-0.5, 0.5)
            truth[label, f"{term} 1"], truth[label, f"{term} 2"] = shift, ratio * shift


# what is recorded


def _record(case: Case, latent: Array, chosen: Indices, rng: np.random.Generator) -> Case:
    spec, table, options = case.spec, case.table.copy(), dict(case.options)
    n = len(table)
    order, selects = np.arange(n), spec.door == "sample_selection"
    outcome = latent[order, 0 * chosen if selects else chosen].copy()
    if selects:
        outcome[chosen == 1] = np.nan
    limits = np.full((n, 2), np.nan)
    lost = np.zeros(n, dtype=bool)
    if spec.outcome != "recorded":
        lost = (rng.random(n) < 0.25) & np.isfinite(outcome)
        lost[np.flatnonzero(np.isfinite(outcome))[:1]] = False
        options["missing_outcome"] = "silent"
    unit = case.known["unit"]
    if spec.outcome == "topcoded":
        top = float(np.nanquantile(outcome, 0.8))
        lost = np.isfinite(outcome) & (outcome > top)
        limits[lost] = [top, np.inf]
        table["top"] = top
        options = options | {"outcome_between": ("top", None)}
        options.pop("missing_outcome")
    elif spec.outcome == "below":  # an upper limit alone, and for some rows none
        limits[lost] = [-np.inf, np.inf]
        some = lost & (rng.random(n) < 0.6)
        limits[some, 1] = outcome[some] + 0.4 * unit
        table["high"] = np.where(some, limits[:, 1], np.nan)
        options = options | {"outcome_between": (None, "high")}
        options.pop("missing_outcome")
    elif spec.outcome == "between":
        limits[lost, 0] = outcome[lost] - 0.3 * unit
        limits[lost, 1] = outcome[lost] + 0.4 * unit
        table["low"], table["high"] = limits.T
        options = options | {"outcome_between": ("low", "high")}
        options.pop("missing_outcome")
    outcome[lost] = np.nan
    known_index, maybe = chosen.copy(), case.recorded.possible.copy()
    if spec.index == "unknown":
        known_index[:] = -1
    elif spec.index == "partly":
        hidden = (rng.random(n) < 0.3) & np.isfinite(outcome)
        known_index[hidden] = -1
        if spec.layout == "wide":  # there, what is closed is left to `available`
            maybe &= rng.random(maybe.shape) < 0.7
            maybe[order, chosen] = True
    case.known["maybe"], possible = maybe, maybe & case.known["open"]
    weights = np.ones(n)
    if spec.weights == "frequency":
        weights = rng.integers(0, 4, n).astype(float)[table["who"]]
    elif spec.weights == "probability":
        weights = (rng.uniform(0.3, 2.0, n) * (rng.random(n) < 0.9))[table["who"]]
        weights *= (weights > 0).sum() / weights.sum()  # only ratios matter
    if spec.weights != "none":
        table["often"] = weights.astype(int) if spec.weights == "frequency" else weights
        options |= {"weights": "often", "weights_kind": spec.weights}
    if selects:
        possible = np.ones((n, 2), dtype=bool)
    recorded = replace(
        case.recorded, outcome=outcome, chosen=known_index, limits=limits, possible=possible,
        weights=weights,
    )  # fmt: skip
    # Shown are the weights of types at the mean of the rows that count.
    case.known["z_mean"] = float(case.known["z"][weights > 0].mean())
    table["y"] = {"itself": lambda y: y, "logarithm": np.exp, "log1p": np.expm1}[spec.response](
        outcome
    )
    case = replace(case, table=table, options=options, recorded=recorded)
    return _call(case)


def _call(case: Case) -> Case:
    """Write the formula and the options of the call."""
    spec, table, options, labels = case.spec, case.table.copy(), dict(case.options), case.labels
    chosen = case.recorded.chosen
    sides = {label: _right_side(list(case.designs[label])) for label in labels}
    if spec.layout == "wide":
        sides = {
            label: re.sub(r"\bprice\b", f"price_{place}", sides[label])
            for place, label in enumerate(labels)
        }
    response = {"itself": "y", "logarithm": "np.log(y)", "log1p": "np.log1p(y)"}[spec.response]
    formula: Any = f"{response} ~ {next(iter(sides.values()))}"
    if by_alternative(spec):
        formula = {label: f"{response} ~ {side}" for label, side in sides.items()}
    if spec.door != "fit":
        options["_selection"] = "s ~ x + z"
        if spec.door == "sample_selection":
            table["s"] = chosen == 0
        elif spec.door == "switching":
            table["s"] = chosen == 1
        else:
            table["s"] = [labels[j] for j in chosen]
            options["ordered"] = list(labels)
    elif spec.index != "unknown":
        table["job"] = pd.Series([labels[j] if j >= 0 else None for j in chosen], dtype=object)
        options["chosen"] = "job"
        if spec.index == "partly":
            for place, label in enumerate(labels):
                table[f"may_{label}"] = case.known["maybe"][:, place]
            options["possible"] = {label: f"may_{label}" for label in labels}
    elif not by_alternative(spec):
        options["alternatives"] = len(labels)
    if spec.shared == "slope":
        options["shared"] = ["x"]
    elif spec.shared == "price":
        each = {label: f"price_{place}" for place, label in enumerate(labels)}
        options["shared"] = ["price"] if spec.layout == "long" else {"price": each}
    elif spec.shared == "all":
        options["shared"] = "all"
    if spec.panel == "people":
        options["panel"] = "who"
    if spec.errors == "robust":
        options["_covariance"] = "robust"
    elif spec.errors == "clustered":
        options["cluster"] = "block"
    case = replace(case, table=table, formula=formula, options=options)
    return _as_long(case) if spec.layout == "long" else case


def _as_long(case: Case) -> Case:
    """Write a row per case and alternative; an alternative that is not available has none."""
    labels, options, wide = case.labels, dict(case.options), case.table
    pieces = []
    for place, label in enumerate(labels):
        own = wide.drop(columns=["open", *(["job"] if "job" in wide else [])]).copy()
        own["case"], own["mode"] = np.arange(len(wide)), label
        own["took"] = case.recorded.chosen == place
        if case.spec.index == "partly":
            own["took"] = pd.Series(own["took"]).astype(object)
            own.loc[case.recorded.chosen < 0, "took"] = None
        own["price"] = own[f"price_{place}"]
        if "fare" in own and place != 1:
            own["fare"] = 0.0
        pieces.append(own[case.known["open"][:, place]])
    table = pd.concat(pieces).sort_values(["case", "mode"], kind="stable", ignore_index=True)
    options |= {"case": "case", "alternatives": "mode", "chosen": "took"}
    if case.spec.index == "unknown":
        del options["chosen"], table["took"]
    return replace(case, table=table, options=options)


# drawing specs


def random_spec(rng: np.random.Generator, unusual: int, only: Mapping[str, str]) -> Spec:
    """Draw a spec that differs from a plain fit in some factors, those of `only` among them."""
    while True:
        free = [name for name in FACTORS if name not in only]
        picked = rng.choice(free, size=min(unusual, len(free)), replace=False)
        levels = {str(name): str(rng.choice(FACTORS[str(name)][1:])) for name in picked}
        sizes = (12, 24, 40)
        spec = Spec(**levels, **only, n_rows=int(rng.choice(sizes)), seed=int(rng.integers(2**31)))
        spec = repaired(spec, only)
        if meaningful(spec) is None:
            return spec


def repaired(spec: Spec, only: Mapping[str, str]) -> Spec:
    """Set what a level needs: an ordered regime has three alternatives, types have people."""
    changes: dict[str, str] = {}
    if spec.door == "ordered":
        changes["alternatives"] = "3"
    elif spec.door != "fit":
        changes["alternatives"] = "2"
    if spec.noise in ("types", "talent types"):
        changes["panel"] = "people"
    if spec.shared == "price":
        changes["formula"] = "prices"
    if spec.rule == "ranked" and spec.available != "always":
        changes["alternatives"] = "3"
    return replace(spec, **{name: to for name, to in changes.items() if name not in only})


Pair = tuple[str, str, str, str]
"""Two factors, each with one of its levels: factor, level, factor, level."""


def all_pairs() -> list[Pair]:
    """Return the pairs of unusual levels of two factors that mean something together."""
    found = []
    for one, other in combinations(FACTORS, 2):
        for level in FACTORS[one][1:]:
            for second in FACTORS[other][1:]:
                if spec_of_pair((one, level, other, second)) is not None:
                    found.append((one, level, other, second))
    return found


def spec_of_pair(pair: Pair, **more: Any) -> Spec | None:
    """Return the plainest spec that holds a pair of levels; None where there is none."""
    held = {pair[0]: pair[1], pair[2]: pair[3]}
    spec = repaired(Spec(**held, **more), held)
    return spec if meaningful(spec) is None else None


def pairs_of(spec: Spec) -> set[Pair]:
    """Return the pairs of unusual levels that a spec holds."""
    levels = list(spec.unusual().items())
    return {(a, x, b, y) for (a, x), (b, y) in combinations(levels, 2)}


def covering_specs(seed: int, refused: Container[Pair], most: int = 6) -> list[Spec]:
    """Return specs that hold every pair of levels that composes at least once, greedily.

    A spec holds up to `most` unusual levels, of which no two are `refused` together.
    """
    rng = np.random.default_rng(seed)
    wanted = {pair for pair in all_pairs() if pair not in refused}
    made: list[Spec] = []
    while wanted:
        start = sorted(wanted)[int(rng.integers(len(wanted)))]
        tries = [_grown(start, wanted, refused, most, rng) for _ in range(12)]
        best = max(tries, key=lambda spec: len(pairs_of(spec) & wanted))
        made.append(replace(best, n_rows=rows_for(best), seed=len(made) + 1))
        wanted -= pairs_of(best) | {start}
    return made


def rows_for(spec: Spec) -> int:
    """Return how many rows a spec needs for its noise to be fitted."""
    many = spec.index == "unknown" or spec.noise.startswith(("mixture", "types", "talent"))
    return 240 if many else 120


def _grown(
    start: Pair, wanted: set[Pair], refused: Container[Pair], most: int, rng: np.random.Generator
) -> Spec:
    """Add levels to a pair, one factor after the other, while all pairs compose."""
    spec = spec_of_pair(start)
    assert spec is not None
    for name in rng.permutation([name for name in FACTORS if name not in start]):
        if len(spec.unusual()) >= most:
            break
        for level in rng.permutation(FACTORS[name][1:]):
            grown = repaired(replace(spec, **{str(name): str(level)}), {})
            pairs = pairs_of(grown)
            if meaningful(grown) is None and not any(pair in refused for pair in pairs) and (
                pairs & wanted - pairs_of(spec)
            ):  # fmt: skip
                spec = grown
                break
    return spec


assert set(FACTORS) <= {one.name for one in fields(Spec)}
