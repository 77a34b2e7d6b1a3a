"""Posing a problem on its rows: the first half of a fit, and a door of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from selfselect.data.build import build_design
from selfselect.data.design import Design
from selfselect.data.equations import refuse_half_characters
from selfselect.data.files import are_files
from selfselect.data.plan import split_costs
from selfselect.data.rows import Rows, Source, refuse_large_model, refuse_many_alternatives
from selfselect.data.tables import open_whole
from selfselect.engines.memory import Memory
from selfselect.errors import OptionError, UnsupportedError
from selfselect.noises import Independent, as_drawn_noise, as_noise
from selfselect.options import Limits, Missing, MissingOutcome, NoiseOption, RuleOption, WeightsKind
from selfselect.problem.problem import Problem, probe_rule, refuse_unidentified
from selfselect.problem.units import measure_units, refuse_extremes
from selfselect.results.refit import Posed
from selfselect.rules import as_rule
from selfselect.seeds import check_seed, generator

UNITS_SAMPLE = 5_000

CODED = re.compile(r"\bC\(\s*`?([^`,()]+?)`?\s*[,)]")
"""Columns of a formula that are coded as categories whatever they hold."""


def pose(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    chosen: str | None = None,
    alternatives: int | str | None = None,
    available: Mapping[Any, str] | None = None,
    possible: Mapping[Any, str] | None = None,
    cost: Mapping[Any, Any] | None = None,
    case: str | None = None,
    shared: Any = None,
    offset: Any = None,
    rule: RuleOption = "max",
    noise: NoiseOption = None,
    weights: Any = None,
    weights_kind: WeightsKind = None,
    missing: Missing = "drop",
    missing_outcome: MissingOutcome = "raise",
    outcome_between: Limits = None,
    cluster: Any = None,
    panel: str | None = None,
    seed: int | None = None,
) -> Posed:
    """Set up a model with its rows without fitting it, for example to check `assumptions` first.

    Rule and noise are checked against the rows as in a fit. Parameters are those of
    `selfselect.fit` that describe the data, the rule and the noise.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> posed = ss.pose("income ~ height + weight", villagers, chosen="job")
    >>> 0 < ss.assumptions(posed)["thickness"] < 1
    True
    """
    given = dict(locals())
    rng = generator(check_seed(seed, optional=True))
    design, rule, noise = design_for(**given)
    problem = pose_design(design, rule=rule, noise=noise, rng=rng)
    return Posed(problem, Memory().load(problem, design.rows), design.facts)


def design_for(
    formula: Any,
    data: Any,
    *,
    rule: Any,
    noise: Any,
    case: str | None = None,
    cost: Any = None,
    source: Source | None = None,
    seed: int | None = None,
    progress: bool | None = None,
    **described: Any,
) -> tuple[Design, Any, Any]:
    """Make a table, or a source that is read piece by piece, ready; return rule and noise as well.

    `described` are the other arguments of `selfselect.fit` that say what is in the data.
    """
    _refuse_contradictions(described.get("chosen"), described.get("alternatives"), case)
    refuse_many_alternatives(described.get("alternatives"), data)
    rule = as_rule(rule)
    # None is left to what is known of the rows.
    noise = None if noise is None else as_drawn_noise(noise)
    spread = getattr(noise, "spread", None)
    cost = _one_cost(cost, getattr(rule, "cost", None))
    known, _ = split_costs(cost)
    if known is not None:
        _refuse_costs(rule)
    described = _with_panel(described, noise)
    given: Any = source
    if source is None:
        given = open_whole(data) if are_files(data) else data
    if hasattr(given, "with_labels"):
        texts = [*_texts(formula), *_texts(spread)]
        given = given.with_labels(label_columns(texts, case=case, **described))
    panel = described.get("panel")
    if panel is not None and hasattr(given, "with_people"):
        given = given.with_people(panel)
    build: Any = build_design
    if source is not None:
        from selfselect.data.stream import build_stream_design

        if case is not None:
            raise UnsupportedError(
                f"Long data (case={case!r}) is not read piece by piece: the rows of a case may be "
                "in two pieces. Read it at once: engine=selfselect.engines.Memory()."
            )
        build = partial(
            build_stream_design, seed=check_seed(seed, optional=True), progress=progress
        )
    elif case is not None:
        from selfselect.data.long import build_long_design

        build = partial(build_long_design, case=case)
    try:
        design = build(formula, given, cost=cost, spread=spread, **described)
    except UnicodeEncodeError as error:
        refuse_half_characters([error.object])
        raise
    if noise is None and isinstance(described.get("shared"), str):
        noise = Independent(scale="common")
    if known is not None and hasattr(rule, "cost"):
        rule = replace(rule, cost=known)
    return design, rule, noise


Check = Callable[[Problem, Design], None]

_CHECK: ContextVar[Check | None] = ContextVar("check", default=None)


@contextmanager
def checked_by(check: Check | None) -> Iterator[None]:
    """Have every problem that is posed inside checked once more, before it is solved.

    What is to be asked of a fit is refused so before the time of the fit is spent.
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def pose_design(design: Design, *, rule: Any, noise: Any, rng: np.random.Generator) -> Problem:
    """Put equations, rule and noise together, and say what cannot be right with them."""
    refuse_large_model(design.equations, len(design.rows))
    names = (design.equations.outcome, *design.equations.covariates)
    refuse_half_characters((*names, *design.equations.alternatives))
    units = measure_units(design.equations, rows_to_measure(design.rows))
    refuse_extremes(design.equations, units)
    if noise is None and design.index == "unknown":
        noise = Independent(scale="common")
    fitted = as_noise(noise)
    if fitted.sign_only:
        units = replace(units, outcome_shift=0.0, outcome_unit=1.0)
    problem = Problem(
        design.equations,
        as_rule(rule),
        fitted,
        units,
        design.index,
        design.exchangeable,
        design.partial,
    )
    grouped = design.rows.groups is not None and problem.noise.grouped
    if grouped:
        _refuse_people_apart(design)
    problem = replace(problem, grouped=grouped)
    # Alternatives whose outcomes are weighed each in their own way are not alike.
    problem = replace(problem, exchangeable=problem.exchangeable and not problem.likelihood.weighed)
    problem.check(design.facts.outcome_range)
    refuse_unidentified(problem, design.rows)
    probe_rule(problem, design.rows, rng)
    check = _CHECK.get()
    if check is not None:
        check(problem, design)
    return problem


def _with_panel(described: dict[str, Any], noise: Any) -> dict[str, Any]:
    """Cluster by the panel column where nothing else is said, and hand on what noise needs."""
    panel = described.get("panel")
    weighing = getattr(noise, "covariates", None)
    if panel is not None and not isinstance(panel, str):
        raise OptionError(f"`panel` must be the name of a column, not {panel!r}.")
    if panel is not None and described.get("cluster") is None:
        described = {**described, "cluster": panel}
    return described if weighing is None else {**described, "weighing": weighing}


def _refuse_people_apart(design: Design) -> None:
    """Refuse people whose rows are in two pieces: what they share is known of all rows at once."""
    stream = design.stream
    if stream is None or not stream.people_apart:
        return
    panel = design.facts.panel
    raise UnsupportedError(
        f"Rows of one {panel!r} are in several pieces of {stream.source.title}, and what they "
        f"share needs all of them at once. Sort files by {panel!r}; of a Dask frame put them into "
        f"one partition each, frame.shuffle({panel!r}); or read the data at once, "
        "engine=selfselect.engines.Memory()."
    )


def label_columns(formula: Any, **described: Any) -> list[str]:
    """Return the columns that hold labels, as far as a call says so.

    `described` are arguments of `selfselect.fit`: `case`, `alternatives`, `chosen`, `cluster` and
    `panel` name such columns, and ``C(...)`` in a formula does.
    """
    coded = [name for text in _texts(formula) for name in CODED.findall(str(text))]
    named = [described.get(name) for name in ("case", "alternatives", "chosen", "cluster", "panel")]
    listed = [one for some in named for one in (some if isinstance(some, list) else [some])]
    return list(dict.fromkeys(name for name in (*listed, *coded) if isinstance(name, str)))


def _texts(formula: Any) -> list[Any]:
    """Return the formulas of one, of several, of one per alternative, or of none."""
    if isinstance(formula, Mapping):
        return list(formula.values())
    return formula if isinstance(formula, list) else [] if formula is None else [formula]


def _one_cost(cost: Any, of_rule: Any) -> Any:
    """Return the costs, given here or with the rule."""
    if cost is not None and of_rule is not None:
        raise OptionError("Costs are given twice, by `cost` and by the rule. Give them once.")
    return of_rule if cost is None else cost


def _refuse_costs(rule: Any) -> None:
    """Refuse known costs where the rule has none; one without the word may read them of rows."""
    held = is_dataclass(rule) and any(field.name == "cost" for field in fields(rule))
    if hasattr(rule, "cost") and not held:
        raise UnsupportedError(
            f"{type(rule).__name__} has no costs: it compares outcomes as they are. Leave `cost` "
            "out, or use a rule that weighs outcomes by costs: 'max', 'min', MonotoneArgmax, "
            "LinearArgmax or ConvexRule. One of your own takes them as a frozen dataclass with "
            "the field `cost: CostSpec | None = None`."
        )


def _refuse_contradictions(chosen: Any, alternatives: Any, case: Any) -> None:
    """Refuse arguments that contradict each other."""
    if case is None and isinstance(alternatives, str):
        raise OptionError(
            f"alternatives={alternatives!r} names a column, which is for long data (one row per "
            "case and alternative): give case='column' too. Else give how many there are."
        )
    if case is None and chosen is not None and alternatives is not None:
        raise OptionError(
            f"Both chosen={chosen!r} and alternatives={alternatives!r} are given. Give `chosen` "
            "where the choice was recorded, `alternatives` where it was not."
        )
    if chosen is not None and not isinstance(chosen, str):
        raise OptionError(
            f"chosen must be the name of a column, not {type(chosen).__name__}. Add it to the "
            "table first."
        )


def rows_to_measure(rows: Rows) -> Rows:
    """Return rows to measure units on; a row of weight zero may hold anything."""
    if rows.weights is None or (rows.weights > 0).all():
        return rows.take(slice(None, None, max(1, len(rows) // UNITS_SAMPLE)))
    counted = np.flatnonzero(rows.weights > 0)
    return rows.take(counted[:: max(1, len(counted) // UNITS_SAMPLE)])
