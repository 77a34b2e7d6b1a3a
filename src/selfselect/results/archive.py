"""Saved fits: versioned JSON, never pickle, and no file that cannot be trusted."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from selfselect.data.coder import Coder
from selfselect.data.coding import (
    ArrayCoding,
    Coding,
    FirstStage,
    FormulaCoding,
    KnownColumns,
    OutcomeCoder,
    residual_name,
)
from selfselect.data.design import DataFacts
from selfselect.data.equations import INTERCEPT, Equation, Equations, SharedTerm
from selfselect.data.formulas import parse_formula
from selfselect.data.long import CovariateSource, LongCoding
from selfselect.data.selection_rows import SelectionCoding
from selfselect.errors import ArchiveError, SelfSelectError
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import TestResult
from selfselect.plain import NAMES, archived, check_plain, from_plain, to_plain
from selfselect.problem.problem import Problem
from selfselect.problem.units import Units
from selfselect.results._archive_checks import check_coder, check_equations, check_fit
from selfselect.results.diagnosis import Diagnosis, Finding
from selfselect.results.fit_result import FitResult, SavedAnswers
from selfselect.results.late import LateModule
from selfselect.results.naive import Naive
from selfselect.results.overfitting import too_many
from selfselect.results.rejections import tests_of_noise
from selfselect.results.streaming import as_path, write_whole
from selfselect.solvers.base import Ending, Solution, StartRecord, Status, TraceEntry

if TYPE_CHECKING:
    import selfselect.multinomial.door as multinomial_module
    import selfselect.verdict.verdict as verdict_module
else:
    multinomial_module = LateModule("selfselect.multinomial.door")
    verdict_module = LateModule("selfselect.verdict.verdict")


# How rows are coded, in saved fits: what coders learnt, and formulas that are read again.


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
    sources = from_plain(content["sources"], tuple[CovariateSource, ...])
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
    return Coder.restore(text, names, content["state"])


def _refuse_unknown(covariates: tuple[str, ...], coders: tuple[Coder, ...]) -> None:
    made = {name for coder in coders for name in coder.names}
    for name in covariates:
        if name not in made:
            raise ArchiveError(f"no formula makes the covariate {name!r}")


def _squeezed(text: str) -> str:
    return "".join(text.split())


# Saved fits: versioned JSON, never pickle, and no file that cannot be trusted.
#
# Rules, noises and sums are known to files by the short names they register (see
# `selfselect.plain`); the records that only a saved fit holds are registered here.


FORMAT = "selfselect fit"
VERSION = 3

MOST_BYTES = 1 << 29
"""Size of a file that is read; a fit of 3,000 parameters takes about 400 MB."""

RECORDS = {
    "equations": Equations, "equation": Equation, "shared term": SharedTerm,
    "known columns": KnownColumns, "source": CovariateSource, "units": Units, "problem": Problem,
    "ending": Ending, "status": Status, "step": TraceEntry, "start": StartRecord,
    "covariance": Covariance, "facts": DataFacts, "naive": Naive, "test": TestResult,
    "finding": Finding, "diagnosis": Diagnosis, "kept": SavedAnswers,
}  # fmt: skip
for _name, _kind in RECORDS.items():
    archived(_name)(_kind)
archived("solution", 2)(Solution)


def save(fit: FitResult, path: str | Path) -> None:
    """Save as versioned JSON, without the rows; `selfselect.load` reads it back.

    A verdict that was made is saved too, without the fits of its other models.
    """
    _refuse_code(fit)

    def content() -> dict[str, Any]:
        check_fit(fit, _kept(fit))
        return _content(fit)

    write_content(content, path)


def write_content(make: Callable[[], dict[str, Any]], path: str | Path) -> None:
    """Write what a fit is made of, as `make` returns it; the file appears whole or not at all."""
    try:
        content = sealed({"format": FORMAT, "version": VERSION, **make()})
        check_plain(content)
    except ArchiveError as error:
        raise ArchiveError(f"The fit cannot be saved: {error}") from error
    target = as_path(path)
    try:
        write_whole(target, json.dumps(content, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise ArchiveError(
            f"The fit could not be saved to {str(target)!r}: {error.strerror}. It is unharmed; "
            "save it elsewhere."
        ) from error


def load(path: str | Path) -> FitResult:
    """Read a fit that was saved, without its rows.

    No code in the file is run, and its contents are checked: a file that is not as it was saved
    raises an `ArchiveError`. A saved `selfselect.MultinomialResult` is returned as one.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(500, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> with TemporaryDirectory() as folder:
    ...     result.save(Path(folder) / "fit.json")
    ...     ss.load(Path(folder) / "fit.json").converged
    True
    """
    name = repr(str(path))
    text = _read(as_path(path), name)
    try:
        content = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(
            f"The file {name} is not complete JSON ({_first_line(error)}): it may be truncated, or "
            "not a saved fit."
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ArchiveError(f"The file {name} is JSON but not a saved fit of selfselect.")
    version = content.get("version")
    if version != VERSION or isinstance(version, bool | float):
        raise ArchiveError(
            f"The file {name} has version {str(version)[:40]!r} of the format, and this selfselect "
            f"reads version {VERSION} only: fit again, or use a matching selfselect."
        )
    try:
        check_plain(content)
        if content != sealed(content):
            raise ArchiveError("its numbers are not those of its checksum")
        return _rebuild(content)
    except Exception as error:
        # Whatever goes wrong with a file that cannot be trusted, it is the file's fault.
        why = str(error) if isinstance(error, SelfSelectError) else _first_line(error)
        raise ArchiveError(
            f"The file {name} is damaged, or was changed after it was saved: {why.rstrip('.')}."
        ) from error


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return what a file holds with a checksum of it: nothing else shows that a digit has changed.

    It finds accidents. Whoever forges a file can forge it, too, so nothing is believed for it.
    """
    bare = {key: value for key, value in content.items() if key != "checksum"}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"))
    return bare | {"checksum": sha256(text.encode("utf-8")).hexdigest()}


def _read(source: Path, name: str) -> str:
    """Return the text of a regular file of no unreasonable size."""
    try:
        # A pipe would be waited for.
        with open(os.open(source, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise ArchiveError(f"The file {name} cannot be read: it is no regular file.")
            if about.st_size > MOST_BYTES:
                raise ArchiveError(
                    f"The file {name} has {about.st_size:,} bytes, which no saved fit has: at most "
                    f"{MOST_BYTES:,} are read."
                )
            return file.read(MOST_BYTES).decode("utf-8")
    except FileNotFoundError as error:
        raise ArchiveError(f"There is no file {name}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ArchiveError(f"The file {name} cannot be read as text: {error}.") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("the same key twice in one object")
    return found


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _refuse_code(fit: FitResult) -> None:
    for word, one in (("rule", fit.problem.rule), ("noise", fit.problem.noise)):
        if type(one) not in NAMES:
            raise ArchiveError(
                f"A fit with the {word} {type(one).__name__} cannot be saved: it is code of yours, "
                "and a saved fit holds no code. Save its tables with tidy().to_csv(...)."
            )


def _kept(fit: FitResult) -> SavedAnswers:
    return SavedAnswers(
        fit.naive_fit,
        fit.independence_test(),
        fit.diagnose(),
        tuple(fit.shares.tolist()),
        tuple(tests_of_noise(fit)),
        tuple(fit.rejections()),
        too_many(fit),
    )


def _content(fit: FitResult) -> dict[str, Any]:
    content = {
        "call": fit.call,
        "problem": to_plain(fit.problem),
        "coding": coding_content(fit.coding),
        "facts": to_plain(fit.facts),
        "solver_reason": fit.solver_reason,
        "solution": to_plain(fit.solution),
        "covariance": to_plain(fit.covariance),
        "kept": to_plain(_kept(fit)),
    }
    if fit.answers.verdict is not None:
        content["verdict"] = verdict_module.saved_verdict(fit)
    return content


def _rebuild(content: dict[str, Any]) -> FitResult:
    if content.get("model") == "multinomial":
        found: Any = multinomial_module.rebuild(content)
        return cast("FitResult", found)
    problem = from_plain(content["problem"], Problem)
    # Long data, and equations with transforms of their own, have covariates of their own.
    own = content["coding"]["kind"] in ("long", "selection")
    check_equations(problem.equations, own_covariates=own)
    facts = from_plain(content["facts"], DataFacts)
    kept = from_plain(content["kept"], SavedAnswers)
    fit = FitResult(
        coding=read_coding(content["coding"], problem.equations, facts),
        problem=problem,
        solution=from_plain(content["solution"], Solution),
        covariance=from_plain(content["covariance"], Covariance),
        facts=facts,
        solver_reason=from_plain(content["solver_reason"], str),
        kept=kept,
        call=from_plain(content["call"], str | None),
    )
    check_fit(fit, kept)
    if "verdict" in content:
        verdict_module.restore_verdict(fit, content["verdict"])
    return fit
