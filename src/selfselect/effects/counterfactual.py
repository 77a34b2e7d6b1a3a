"""Counterfactuals: what happens if the rule, the menu, prices or covariates change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from selfselect.effects._moments import Setting, refuse_selection
from selfselect.effects._scenario import build_scenario
from selfselect.effects._states import (
    Reading,
    State,
    World,
    changed,
    rationed,
    read_quota,
    simulated_moves,
    simulation_note,
)
from selfselect.effects.base import (
    NOTHING_LEFT,
    PER_CENT,
    EffectTable,
    alternative_index,
    check_covariates_word,
    doubts,
    effect_table,
    how_averaged,
    key_name,
    outcome_name,
    refuse_undetermined,
    transform,
)
from selfselect.errors import OptionError
from selfselect.moments.mixed import Logarithm
from selfselect.options import Covariates, Scale
from selfselect.results.averaged_rows import asked_logarithm, sample_of
from selfselect.rules import direction_of
from selfselect.visible import on_one_line

if TYPE_CHECKING:
    import pandas as pd

    from selfselect.report.page import Block, Page
    from selfselect.results.fit_result import FitResult


WHEN = ("before", "after", "change")

ANY, ANOTHER = "(any)", "(another)"

NOBODY = 1e-9
"""Share below which a move is not listed."""


@dataclass(frozen=True, eq=False, repr=False)
class Counterfactual:
    """What a change does.

    Attributes
    ----------
    question : what is changed.
    outcomes : the mean of the observed outcome before and after, and the change, with
        ``scale="level"`` also in per cent; what subsidies cost and a place under a quota is worth,
        where there are any.
    shares : how many choose each alternative before and after, and the change.
    moves : who goes from where to where, and what it does to their outcome; None where rows
        before and after are not the same units.
    """

    question: str
    outcomes: EffectTable
    shares: EffectTable
    moves: EffectTable | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know first."""
        return self.outcomes.warnings

    def to_page(self) -> Page:
        """Compose a page of what changes; the tables hold all numbers, each with its error."""
        parts = [one for one in (self.outcomes, self.shares, self.moves) if one is not None]
        notes = dict.fromkeys(note for one in parts for note in one.notes)
        blocks = [
            self._changes("Mean outcome", self.outcomes, ["quantity"]),
            self._changes("Who chooses what", self.shares, ["alternative"]),
        ]
        if self.moves is not None:
            blocks.append(self._movers(self.moves))
        page = self.outcomes.to_page()
        return replace(page, title=f"If {self.question}", blocks=tuple(blocks), notes=tuple(notes))

    def _changes(self, title: str, found: EffectTable, keys: list[str]) -> Block:
        """Put before, after and change of a quantity on one line, with the interval of the last."""
        from selfselect.report.page import Block

        lines = []
        for name, own in found.table.groupby(keys, sort=False, observed=True):
            at = own.set_index("when")
            last = "change" if "change" in at.index else "after"
            words = ", ".join(map(str, name))
            numbers = at["estimate"].reindex(list(WHEN))
            lines.append((words, *_numbers(numbers), *_interval(at.loc[last])))
        return Block(title, _header(found), tuple(lines))

    def _movers(self, found: EffectTable) -> Block:
        """List those who move, and those who stay where that changes their outcome."""
        from selfselect.report.page import Block

        name, *rest = _header(found)
        lines, stay = [], 0.0
        everybody = tuple(found.table[["from", "to"]].iloc[0])
        for (origin, to), own in found.table.groupby(["from", "to"], sort=False, observed=True):
            at = own.set_index("quantity")
            share = float(at["estimate"]["share"])
            if (origin, to) == everybody:
                lines.append(("all who move", _share(share), *[""] * len(rest)))
                continue
            change = at.loc["change"]
            if origin == to and abs(change["estimate"]) <= NOBODY * abs(at["estimate"].iloc[1]):
                stay += share
                continue
            word = f"{origin} to {to}" if origin != to else f"{origin}, stay"
            numbers = at["estimate"][["outcome before", "outcome after", "change"]]
            lines.append((word, _share(share), *_numbers(numbers), *_interval(change)))
        if stay:
            lines.append(("stay, as before", _share(stay), *[""] * len(rest)))
        return Block("Who moves, and their mean outcome", (name, "share", *rest), tuple(lines))

    def __repr__(self) -> str:
        asked = on_one_line(self.question)
        return f"<Counterfactual: if {asked}; tables .outcomes, .shares and .moves>"

    def __str__(self) -> str:
        return self.to_page().to_text()

    def _repr_html_(self) -> str:
        return self.to_page().to_html()


def _header(found: EffectTable) -> tuple[str, ...]:
    tail = 50.0 * (1.0 - found.level)
    drawn = ("MC err",) if "mc_error" in found.table else ()
    return ("", *WHEN, f"[{tail:g}%", f"{100 - tail:g}%]", *drawn)


def _numbers(values: pd.Series[float]) -> list[str]:
    """Write before, after and change; what there is none of stays empty."""
    from selfselect.report.page import format_number

    return ["" if np.isnan(value) else format_number(float(value)) for value in values]


def _interval(row: Any) -> list[str]:
    """Write an interval, and the error due to simulation where there was one."""
    from selfselect.report.page import format_number

    names = ("conf_low", "conf_high", "mc_error")
    return [format_number(float(row[name])) for name in names if name in row]


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"


def counterfactual(
    fit: FitResult,
    *,
    data: Any = None,
    rule: Any = None,
    close: Any = (),
    open: Any = (),
    subsidy: Mapping[Any, float] | None = None,
    quota: Mapping[Any, float] | None = None,
    rationing: Literal["price", "lottery"] = "price",
    base: Any = None,
    level: float = 0.95,
    covariates: Covariates = "sampled",
    scale: Scale = "model",
    draws: int | None = None,
    seed: int = 0,
) -> Counterfactual:
    """Return what a change does: mean outcomes before and after, shares, and who moves.

    Equations and noise stay the same; only choices change.

    Parameters
    ----------
    fit : a fitted model.
    data : other covariates. With as many rows as before, row i is the same unit and moves are
        listed; with another number it is another population.
    rule : another rule; the known costs of the old one then count no longer.
    close : alternatives that are closed to everyone.
    open : alternatives that are opened to everyone.
    subsidy : ``{alternative: amount}`` by which an alternative becomes more attractive, in the
        units in which the rule compares; negative for a tax. Outcomes are counted without it.
        Where those are logarithms, a subsidy of s is e^s - 1 times the outcome, and
        1 - e^-s times it where the smallest is chosen.
    quota : ``{alternative: share}``: at most that share of everyone may choose it.
    rationing : who gets the places under a quota. ``"price"``: a fee, the same for all, that
        leaves just as many takers as there are places; it is in `outcomes`. ``"lottery"``:
        places are drawn among those who choose it, and losers take their next best.
    base : the rows that are changed; None for those of the fit.
    level, covariates, scale : see `selfselect.effects`. With ``scale="level"`` outcomes, and what
        subsidies cost, are those of the level; a fee stays in the units in which the rule compares.
    draws, seed : of the simulation, where one is needed.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> closed = result.counterfactual(close=["fishing"])
    >>> closed.shares.table.query("when == 'after'")["estimate"].round(3).tolist()
    [0.0, 1.0]
    """
    refuse_undetermined(fit, "A counterfactual", choices=True)
    check_covariates_word(covariates)
    refuse_selection(fit.problem, "Who moves, and what the movers' outcomes would be, depends")
    logarithm = asked_logarithm(fit, scale)
    sample = sample_of(fit, base, option="base")
    places = read_quota(fit, quota, rationing)
    scenario = build_scenario(
        fit, sample.rows, data=data, rule=rule, close=close, open_to_all=open, subsidy=subsidy
    )
    if not scenario.words and places is None:
        raise OptionError(
            "Nothing is changed. Give close=[...], open=[...], subsidy={...}, quota={...}, "
            "rule=... or data=...."
        )
    before = Setting(sample.rows, fit.problem.ordered_rule, logarithm)
    scenario = replace(scenario, setting=replace(scenario.setting, logarithm=logarithm))
    world = World(fit, before, scenario, sample.own, covariates, draws, seed)
    state = changed(world) if places is None else rationed(world, places)
    words = scenario.words if places is None else (*scenario.words, places.words)
    note = how_averaged(fit, len(sample.rows), covariates, own=sample.own)
    tables = _Tables(
        world,
        state,
        level,
        (*doubts(fit, levels=logarithm is not None), *sample.warnings, *scenario.warnings),
        (note, *state.notes),
    )
    return Counterfactual(
        " and ".join(words), tables.outcomes(subsidy), tables.shares(), tables.moves()
    )


@dataclass(frozen=True, eq=False)
class _Tables:
    """The tables of a state, all with the same level, warnings and notes."""

    world: World
    state: State
    level: float
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def labels(self) -> tuple[Any, ...]:
        return self.world.fit.problem.equations.alternatives

    @property
    def logarithm(self) -> Logarithm | None:
        return self.world.before.logarithm

    def _table(
        self, title: str, keys: Mapping[str, Sequence[Any]], function: Callable[[Reading], Any],
        share: Sequence[bool] | bool = False, above: Any = -np.inf,
    ) -> EffectTable:  # fmt: skip
        state = self.state
        found = transform(state.averages, lambda vector: function(state.read(vector)))
        mc_error = None
        if state.mc is not None:
            averages = replace(state.averages, covariance=state.mc)
            made = transform(averages, lambda vector: function(state.read(vector)))
            mc_error = np.sqrt(np.maximum(np.diag(made.covariance), 0.0))
        return effect_table(
            title, keys, found, level=self.level, df=self.world.fit.covariance.df,
            warnings=self.warnings, notes=self.notes, share=share, above=above,
            mc_error=mc_error,
        )  # fmt: skip

    def outcomes(self, subsidy: Mapping[Any, float] | None) -> EffectTable:
        fit, state, logarithm = self.world.fit, self.state, self.logarithm
        mean = f"mean {outcome_name(fit, 'model' if logarithm is None else 'level')}"
        amounts = np.zeros(len(self.labels))
        for label, amount in (subsidy or {}).items():
            amounts[alternative_index(fit, label)] = amount
        # Only these rules compare outcomes themselves, so that a subsidy is an amount of outcome.
        way = direction_of(self.world.scenario.setting.rule)
        paid = way is not None and bool(subsidy)
        priced = state.read(state.averages.mean).price is not None
        least = -np.inf if logarithm is None else -logarithm.offset
        lines = [(mean, "before", least), (mean, "after", least), (mean, "change", -np.inf)]
        lines += [(f"{mean}, {PER_CENT}", "change", NOTHING_LEFT)] * (logarithm is not None)
        lines += [("subsidies paid, per row", "after", -np.inf)] * paid
        lines += [("fee for a place", "after", -np.inf)] * priced

        def values(reading: Reading) -> Any:
            before, after = (one.sum() for one in reading.outcome)
            found = [before, after, after - before]
            if logarithm is not None:
                found.append(100.0 * (after - before) / before)
            if way is not None and paid:
                found.append(_paid(amounts, reading, logarithm, way))
            if priced:
                found.append(reading.price)
            return np.array(found)

        quantity, when, above = zip(*lines, strict=True)
        keys = {"quantity": quantity, "when": when}
        return self._table("Mean outcome", keys, values, above=above)

    def shares(self) -> EffectTable:
        def values(reading: Reading) -> Any:
            before, after = reading.share
            return np.stack([before, after, after - before], axis=1).ravel()

        k = len(self.labels)
        keys = {
            "alternative": [label for label in self.labels for _ in WHEN],
            "when": list(WHEN) * k,
        }
        return self._table("Shares", keys, values, [when != "change" for when in keys["when"]])

    def moves(self) -> EffectTable | None:
        """Tell who moves; simulated where the averages do not say it."""
        world, state, k = self.world, self.state, len(self.labels)
        if state.read(state.averages.mean).moves is None:
            if state.after is None or not world.scenario.same_rows:
                return None
            averages, mc = simulated_moves(world, state.after)

            def read(vector: Any) -> Reading:
                return Reading((0.0, 0.0), (0.0, 0.0), vector.reshape(k, k, 3))

            simulated = State(averages, read, None, mc)
            notes = (*self.notes, simulation_note(world))
            return replace(self, state=simulated, notes=notes).moves()
        found = np.real(state.read(state.averages.mean).moves[..., 0])
        pairs = [(g, h) for g in range(k) for h in range(k) if found[g, h] > NOBODY]

        def values(reading: Reading) -> Any:
            moves = reading.moves
            everyone = moves[..., 0].sum()
            stay = np.trace(moves[..., 0])
            listed = [everyone - stay]
            for g, h in pairs:
                share, before, after = moves[g, h]
                listed += [share, before / share, after / share, (after - before) / share]
            return np.array(listed)

        what = ("share", "outcome before", "outcome after", "change")
        anybody, another = (key_name(name, self.labels) for name in (ANY, ANOTHER))
        keys = {
            "from": [anybody, *(self.labels[g] for g, _ in pairs for _ in what)],
            "to": [another, *(self.labels[h] for _, h in pairs for _ in what)],
            "quantity": ["share", *(word for _ in pairs for word in what)],
        }
        return self._table(
            "Who moves", keys, values, [word == "share" for word in keys["quantity"]]
        )


def _paid(amounts: Any, reading: Reading, logarithm: Logarithm | None, way: float) -> Any:
    """Return what subsidies cost, per row: amounts of outcome, or shares of it under logarithms.

    A subsidy is added to what is sought large, and taken off what is sought small.
    """
    share, outcome = reading.share[1], reading.outcome[1]
    if logarithm is None:
        return amounts @ share
    shares = way * np.expm1(way * logarithm.rate * amounts)
    return shares @ (outcome + logarithm.offset * share)
