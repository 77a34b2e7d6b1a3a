"""The doors: bounds of a table or of files, and of the rows of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from selfselect.bounding.along import bounds_along
from selfselect.bounding.bounds import Bounds, read_asked
from selfselect.bounding.compute import compute_bounds
from selfselect.bounding.targets import CellFactor, Cells, Targets, label_factor, number_factor
from selfselect.data.build import with_column
from selfselect.data.columns import find_kind
from selfselect.data.design import DataFacts, Design
from selfselect.data.formulas import (
    ParsedFormula,
    parse_formulas,
    refuse_decided_covariates,
)
from selfselect.data.panels import cluster_columns, learn_clusters
from selfselect.data.plan import split_costs
from selfselect.data.tables import column_names, to_frame
from selfselect.engines.base import Engine
from selfselect.engines.choose import engine_for
from selfselect.errors import DataError, OptionError, UnsupportedError
from selfselect.inference.dependence import Dependence
from selfselect.noises import Independent
from selfselect.posing import design_for, rows_to_measure
from selfselect.problem.problem import Problem, probe_rule
from selfselect.problem.units import measure_units
from selfselect.rules import as_rule
from selfselect.seeds import check_seed, generator
from selfselect.threads import one_blas_thread

if TYPE_CHECKING:
    pass


QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def bounds(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    chosen: str | None = None,
    rule: Any = "max",
    by: str | Sequence[str] | None = None,
    instrument: str | None = None,
    along: str | None = None,
    quantiles: Sequence[float] = QUANTILES,
    points: Sequence[float] | None = None,
    support: Any = None,
    level: float = 0.95,
    available: Mapping[Any, str] | None = None,
    possible: Mapping[Any, str] | None = None,
    cost: Mapping[Any, Any] | None = None,
    weights: Any = None,
    weights_kind: str | None = None,
    cluster: Any = None,
    missing: str = "drop",
    missing_outcome: str = "raise",
    outcome_between: Any = None,
    engine: Any = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> Bounds:
    """Bound potential outcomes by the rule alone, with no assumption on the noise.

    Every row shows one outcome, and the rule limits the others. This bounds the distribution, the
    quantiles and the mean of every potential outcome, and of the difference of two, for any
    distribution and correlation of the noise.

    Parameters
    ----------
    formula : the outcome, as a column or as the left side of a formula. Right sides say which
        outcomes an instrument affects; bounds use covariates only if `by` names them.
    data : as in `selfselect.fit`; files are read piece by piece.
    chosen : the column of the chosen alternative.
    rule : ``"max"``, ``"min"``, or an object of `selfselect.rules` with `bounds`.
    by : a column, or several, with few values: bounds are computed within each combination. Cells
        with fewer than 30 rows are refused.
    instrument : a column that does not affect the outcomes whose formula lacks it, given `by`.
        Bounds of these outcomes are intersected over its values, and the rule is tested. A column
        of many numbers is cut into five groups; values with few rows are joined with their
        neighbours.
    along : a column of numbers: bounds at some of its values, by distribution regression (logits in
        it and its square). It cannot be combined with `by` or `instrument`.
    quantiles : of the outcomes, between 0 and 1.
    points : values at which distribution functions are bounded; None for some of the outcomes.
    support : (lowest, highest) outcome that is possible, None where there is no limit; or one pair
        per alternative. Means are bounded on both sides only with a support.
    level : of the confidence intervals, which cover both bounds.

    The other parameters are those of `selfselect.fit`.

    Returns
    -------
    Bounds
        Start with ``print(bounds)`` and ``bounds.plot()``.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(2_000, seed=1).data
    >>> found = ss.bounds("income", villagers, chosen="job", quantiles=[0.5])
    >>> bool((found.quantiles["lower"] <= found.quantiles["upper"]).all())
    True
    """
    asked = read_asked(quantiles, points, support, level)
    if chosen is None:
        raise OptionError(
            "There are no bounds without `chosen`: where the chosen alternative was not "
            "recorded, no row shows which alternative its outcome belongs to. Give the column of "
            "the chosen alternative."
        )
    _, estimated = split_costs(cost)
    if estimated:
        raise UnsupportedError(
            f"The cost of {', '.join(map(repr, estimated))} is to be estimated, but bounds use no "
            "model that could estimate it. Give costs as numbers or columns."
        )
    rng = generator(check_seed(seed, optional=True))
    choice = engine_for(data, engine)
    source = choice.open(data)
    parsed = _outcomes(formula, column_names(data) if source is None else source.names)
    names, instrument = read_names(by), read_instrument(instrument)
    refuse_twice(names, instrument)
    refuse_decided_covariates(
        parsed.values() if isinstance(parsed, dict) else [parsed], chosen=chosen
    )
    _refuse_decided(parsed, chosen, instrument=instrument, along=along)
    every = names if instrument is None else (*names, instrument)
    if along is not None:
        if every or not isinstance(along, str):
            raise OptionError(
                f"along={along!r} must be one column, without by= and instrument=: bounds are "
                "computed at values of it."
            )
        every = (along,)
    if source is None and not isinstance(cluster, str) and not cluster_columns(cluster, data):
        frame, cluster = with_column(to_frame(data, column_names(data)), cluster, "cluster")
        data = data if cluster is None else frame
    numbers, labels = kinds_of_columns(data if source is None else source, every)
    if along is not None and along not in numbers:
        raise DataError(f"The column {along!r} of along= holds no numbers. Use by={along!r}.")
    ways = (cluster,) if isinstance(cluster, str) else tuple(cluster or ())
    design, rule, _ = design_for(
        _formulas(parsed, numbers),
        data,
        source=source,
        rule=rule,
        noise=None,
        seed=seed,
        progress=progress,
        chosen=chosen,
        available=available,
        possible=possible,
        cost=cost,
        weights=weights,
        weights_kind=weights_kind,
        cluster=[*labels, *ways] or None,
        missing=missing,
        missing_outcome=missing_outcome,
        outcome_between=outcome_between,
    )
    problem = _pose(design, rule)
    targets = Targets.of(problem, asked.support)
    problem.check(design.facts.outcome_range)
    probe_rule(problem, design.rows, rng)
    with one_blas_thread():
        rows = choice.load(problem, design.rows if design.stream is None else design.stream)
        levels, covariates = _levels(design, labels), design.equations.covariates
        dependence = Dependence(
            design.cluster_sizes[len(labels) :], None, design.facts.weights_kind
        )
        if along is not None:
            place = covariates.index(along)
            found = bounds_along(targets, rows, along, place, asked, dependence)
            return saying_what_lacks(found, design.facts)
        cells = cells_of(names, instrument, numbers, labels, levels, covariates, rows)
        found = compute_bounds(
            targets,
            rows,
            cells,
            asked,
            dependence=dependence,
            first_cluster=len(labels),
            excluded=_excluded(parsed, problem.equations.alternatives, instrument),
            moved_by_costs=moved_by_costs(design.rows.known),
        )
        return saying_what_lacks(found, design.facts)


def saying_what_lacks(found: Bounds, facts: DataFacts) -> Bounds:
    """Return bounds that say how many rows were left out, and why."""
    notes = []
    if facts.n_dropped:
        notes.append(
            f"{facts.n_dropped} rows with a missing value of a column that is used were left out."
        )
    if facts.n_without_outcome:
        notes.append(
            f"{facts.n_without_outcome} rows without a recorded outcome were left out on request."
        )
    return replace(found, notes=(*found.notes, *notes))


def _pose(design: Design, rule: Any) -> Problem:
    units = measure_units(design.equations, rows_to_measure(design.rows))
    return Problem(
        design.equations, as_rule(rule), Independent(), units, design.index, False, design.partial
    )


def _outcomes(formula: Any, columns: Sequence[str]) -> ParsedFormula | dict[Any, ParsedFormula]:
    """Parse formulas; a left side alone stands for a formula without covariates."""

    def whole(text: Any) -> Any:
        if not isinstance(text, str) or "~" in text:
            return text
        return f"`{text}` ~ 1" if text in columns else f"{text} ~ 1"

    if isinstance(formula, Mapping):
        return parse_formulas({label: whole(text) for label, text in formula.items()})
    return parse_formulas(whole(formula))


def _formulas(parsed: ParsedFormula | dict[Any, ParsedFormula], numbers: Sequence[str]) -> Any:
    """Return formulas that have the numeric columns of cells on their right sides and no more."""
    right = " + ".join(["1", *(f"`{name}`" for name in numbers)])
    if isinstance(parsed, dict):
        return {label: f"{one.outcome} ~ {right}" for label, one in parsed.items()}
    return f"{parsed.outcome} ~ {right}"


def read_names(by: Any) -> tuple[str, ...]:
    """Return the names of columns that are given as one or several."""
    names = by if isinstance(by, list | tuple) else () if by is None else (by,)
    if not all(isinstance(name, str) for name in names):
        raise OptionError(f"by={by!r} must be the name of a column, or a list of names.")
    return tuple(names)


def read_instrument(instrument: Any) -> str | None:
    """Return the name of the instrument, or say what it must be."""
    if instrument is not None and not isinstance(instrument, str):
        raise OptionError(f"instrument={instrument!r} must be the name of one column.")
    return instrument


def refuse_twice(names: Sequence[str], instrument: str | None) -> None:
    """Refuse a column that is given for two purposes."""
    every = [*names, instrument]
    for name in names:
        if every.count(name) > 1:
            raise OptionError(
                f"The column {name!r} is named twice, by `by` or `instrument`. Name it once."
            )


def _refuse_decided(
    parsed: ParsedFormula | dict[Any, ParsedFormula], chosen: str, **asked: str | None
) -> None:
    """Refuse the choice and the outcome where a column is wanted that comes before both."""
    formulas = parsed.values() if isinstance(parsed, dict) else [parsed]
    decided = {chosen, *(name for one in formulas for name in one.outcome_columns)}
    for option, name in asked.items():
        if name in decided:
            raise OptionError(
                f"{option}={name!r} is the outcome or the choice itself, which outcomes decide. "
                "Give a column that is there before both."
            )


def kinds_of_columns(data: Any, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say which columns hold numbers and which labels."""
    if not names:
        return (), ()
    if hasattr(data, "head") and hasattr(data, "fingerprint"):
        for name in names:
            if name not in data.names:
                raise DataError(f"There is no column {name!r} in {data.title}.")
        frame = data.head(list(names))
    else:
        frame = to_frame(data, names)
    is_number = {name: find_kind(frame[name], name) == "number" for name in names}
    for name in names:
        lacking = int(frame[name].isna().sum())
        if lacking and not is_number[name]:
            raise DataError(
                f"The column {name!r} is missing in {lacking} rows, which are then in no cell. "
                "Leave those rows out, or give them a value of their own."
            )
    return (
        tuple(name for name in names if is_number[name]),
        tuple(name for name in names if not is_number[name]),
    )


def _levels(design: Design, labels: Sequence[str]) -> list[Sequence[Any]]:
    if design.stream is not None:
        return [list(one) for one in design.stream.coder.clusters[: len(labels)]]
    if not labels:
        return []
    assert design.table is not None
    return [list(one) for one in learn_clusters(design.table, labels)[0]]


def cells_of(
    names: Sequence[str],
    instrument: str | None,
    numbers: Sequence[str],
    labels: Sequence[str],
    levels: Sequence[Sequence[Any]],
    covariates: Sequence[str],
    rows: Engine,
) -> Cells:
    """Return the cells into which columns cut the rows."""
    made: dict[str, CellFactor] = {}
    for name in (*names, *((instrument,) if instrument else ())):
        used = name == instrument
        if name in numbers:
            place = list(covariates).index(name)
            made[name] = number_factor(name, place, rows, instrument=used)
        else:
            way = list(labels).index(name)
            made[name] = label_factor(name, way, levels[way], instrument=used)
    return Cells(
        tuple(made[name] for name in names), None if instrument is None else made[instrument]
    )


def _excluded(
    parsed: ParsedFormula | dict[Any, ParsedFormula],
    alternatives: Sequence[Any],
    instrument: str | None,
) -> tuple[int, ...]:
    """Return the alternatives in whose outcome the instrument has no part, or refuse it."""
    if instrument is None:
        return ()
    by_label = parsed if isinstance(parsed, dict) else dict.fromkeys(alternatives, parsed)
    in_order = [
        next(one for key, one in by_label.items() if str(key) == str(label))
        for label in alternatives
    ]
    return excluded_outcomes(instrument, [one.term_columns for one in in_order])


def excluded_outcomes(instrument: str, columns: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Return the places of the outcomes whose columns lack the instrument; refuse none."""
    found = tuple(place for place, own in enumerate(columns) if instrument not in own)
    if not found:
        raise OptionError(
            f"The instrument {instrument!r} is in the equation of every outcome, so it is excluded "
            "from none and bounds cannot be intersected over it. Give a column that at least one "
            "outcome's formula lacks, or condition on it: by=."
        )
    return found


def moved_by_costs(known: Any) -> bool:
    """Say whether rows have costs or choice sets of their own."""
    return known.costs is not None or known.available is not None
