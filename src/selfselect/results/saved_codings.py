"""How rows are coded, in saved fits: what coders learnt, and formulas that are read again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from selfselect.data.coder import Coder
from selfselect.data.coding import ArrayCoding, Coding, FormulaCoding, KnownColumns, OutcomeCoder
from selfselect.data.design import DataFacts
from selfselect.data.equations import INTERCEPT, Equations
from selfselect.data.first_stage import FirstStage, residual_name
from selfselect.data.formulas import parse_formula
from selfselect.data.long import LongCoding, Source
from selfselect.data.selection_coding import SelectionCoding
from selfselect.errors import ArchiveError
from selfselect.plain import from_plain, to_plain
from selfselect.results._archive_checks import check_coder

__all__ = ["coding_content", "read_coding"]


def coding_content(coding: Any) -> dict[str, Any]:
    """Return how rows are coded as plain data."""
    known = to_plain(coding.known)
    if isinstance(coding, ArrayCoding):
        return {"kind": "array", "known": known}
    content = {
        "kind": "selection" if isinstance(coding, SelectionCoding) else "formula",
        "known": known,
        "coders": [_coder_content(coder) for coder in coding.coders],
        "coder_of": list(coding.coder_of),
        "outcome": None if coding.outcome.coder is None else _coder_content(coding.outcome.coder),
    }
    if isinstance(coding, SelectionCoding) and coding.first_stages:
        content["first_stages"] = {
            "coder": _coder_content(coding.first_stages[0].coder),
            "each": [
                {
                    "column": one.column,
                    "coefficients": to_plain(one.coefficients),
                    "instruments": list(one.instruments),
                    "statistic": one.statistic,
                    "df_residual": one.df_residual,
                    "two_values": one.two_values,
                }
                for one in coding.first_stages
            ],
        }
    if isinstance(coding, LongCoding):
        return content | {
            "kind": "long",
            "case": coding.case,
            "alternative": coding.alternative,
            "sources": to_plain(coding.sources),
        }
    return content


def _coder_content(coder: Coder) -> dict[str, Any]:
    return {"text": coder.text, "names": list(coder.names), "state": coder.state()}


def read_coding(content: dict[str, Any], equations: Equations, facts: DataFacts) -> Coding:
    """Return how rows are coded; what is not as formulas make it is refused."""
    known = from_plain(content["known"], KnownColumns)
    if content["kind"] == "array":
        return ArrayCoding(equations, known)
    # The same door a user's formula goes through: a file cannot smuggle code in. What columns are
    # needed is read off the formulas, not believed: any other name might mean a Python builtin.
    in_order = content["coders"]
    if content["kind"] == "selection":
        # That of the selection is the first, and its columns come last.
        in_order = [*in_order[1:], *in_order[:1]]
    named = [
        name
        for coder in in_order
        for name in parse_formula(f"outcome ~ {from_plain(coder['text'], str)}").term_columns
    ]
    coders = tuple(_coder(one, one["text"]) for one in content["coders"])
    coder_of = from_plain(content["coder_of"], tuple[int, ...])
    for equation, place, formula in zip(equations.each, coder_of, facts.formulas, strict=True):
        parsed = parse_formula(formula)
        if not 0 <= place < len(coders) or set(coders[place].names) != set(equation.estimated):
            raise ArchiveError(
                f"the equation of {equation.alternative!r} has other terms than its formula"
            )
        written = (parsed.outcome, parsed.terms)
        if [_squeezed(one) for one in written] != [
            _squeezed(one) for one in (equations.outcome, coders[place].text)
        ]:
            raise ArchiveError(f"the formula {formula!r} is not the one that was coded")
    outcome = parse_formula(f"{equations.outcome} ~ 1")
    left, coder = content["outcome"], None
    if left is not None:
        # Only the state is taken from the file; the expression is the one that was just parsed.
        coder = _coder(left, f"{outcome.outcome} - 1")
    elif outcome.outcome_columns != (outcome.outcome.strip("`"),):
        raise ArchiveError(f"how the outcome {outcome.outcome!r} is coded is missing")
    outcome_coder = OutcomeCoder(outcome.outcome, outcome.outcome_columns, coder)
    needed = tuple(dict.fromkeys(named))
    if content["kind"] == "formula":
        _refuse_unknown(equations.covariates, coders)
        return FormulaCoding(equations, coders, coder_of, known, needed, outcome_coder)
    if content["kind"] == "selection":
        _check_selection(equations, coders, coder_of, facts)
        stages = _first_stages(content.get("first_stages"), equations)
        coding = SelectionCoding(equations, coders, coder_of, known, needed, outcome_coder, stages)
        # Offsets have no coder there: they are added as they are.
        columns = dict.fromkeys((*needed, *coding.offset_columns))
        return replace(coding, columns=tuple(columns))
    if content["kind"] != "long":
        raise ArchiveError(f"there is no coding of the kind {str(content['kind'])[:40]!r}")
    sources = from_plain(content["sources"], tuple[Source, ...])
    for covariate, one in zip(equations.covariates, sources, strict=True):
        label = None if one.alternative is None else equations.alternatives[one.alternative]
        full = one.name if one.alternative is None else f"{one.name}[{label}]"
        if one.name not in coders[one.coder].names or covariate != full or one.coder < 0:
            raise ArchiveError(f"the covariate {covariate!r} comes from nowhere")
    return LongCoding(
        equations, coders, coder_of, known, needed, outcome_coder,
        from_plain(content["case"], str), from_plain(content["alternative"], str), sources,
    )  # fmt: skip


def _first_stages(content: Any, equations: Equations) -> tuple[FirstStage, ...]:
    """Return the first stages of endogenous covariates; those that are not such are refused."""
    if content is None:
        return ()
    text = from_plain(content["coder"]["text"], str)
    parse_formula(f"x ~ {text}")
    coder = _coder(content["coder"], text)
    stages = tuple(
        FirstStage(
            from_plain(one["column"], str),
            coder,
            from_plain(one["coefficients"], np.ndarray),
            from_plain(one["instruments"], tuple[str, ...]),
            from_plain(one["statistic"], float),
            from_plain(one["df_residual"], float),
            from_plain(one.get("two_values", False), bool),
        )
        for one in content["each"]
    )
    for one in stages:
        numbers = np.append(one.coefficients, [one.statistic, one.df_residual])
        known = residual_name(one.column) in equations.covariates
        if len(numbers) != len(coder.names) + 2 or not np.isfinite(numbers).all() or not known:
            raise ArchiveError(f"the first stage of {one.column!r} is not one of this fit")
        if not set(one.instruments) <= set(coder.names) or not one.instruments:
            raise ArchiveError(f"the instruments of {one.column!r} are not in its first stage")
    return stages


def _check_selection(
    equations: Equations, coders: tuple[Coder, ...], coder_of: tuple[int, ...], facts: DataFacts
) -> None:
    """Refuse a selection equation, or the order of the coders, that is not the formulas'."""
    selection, text = equations.selection, facts.selection
    if selection is None or text is None or coder_of != tuple(range(1, len(coders))):
        raise ArchiveError("the selection equation, or its formula, is missing")
    parsed = parse_formula(f"recorded {text}" if text.startswith("~") else text)
    same = _squeezed(parsed.terms) == _squeezed(coders[0].text)
    terms = {*selection.terms[: selection.n_slopes], *([INTERCEPT] if selection.n_cuts else [])}
    if not same or {*coders[0].names, *([INTERCEPT] if selection.n_cuts else [])} != terms:
        raise ArchiveError("the selection equation has other terms than its formula")
    used = {column for one in (*equations.each, selection) for column in one.columns}
    if used | {0} != set(range(len(equations.covariates) + 1)):
        raise ArchiveError("no formula makes one of the covariates")


def _coder(content: dict[str, Any], text: str) -> Coder:
    names = from_plain(content["names"], tuple[str, ...])
    check_coder(text, names)
    state = content["state"]
    if "kinds" not in state:
        from selfselect.results._version1 import upgraded_state

        state = upgraded_state(text, state)
    return Coder.restore(text, names, state)


def _refuse_unknown(covariates: tuple[str, ...], coders: tuple[Coder, ...]) -> None:
    made = {name for coder in coders for name in coder.names}
    for name in covariates:
        if name not in made:
            raise ArchiveError(f"no formula makes the covariate {name!r}")


def _squeezed(text: str) -> str:
    return "".join(text.split())
