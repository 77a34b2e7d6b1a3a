"""Saved fits: versioned JSON, never pickle, and no file that cannot be trusted.

Rules, noises and sums are known to files by the short names they register (see
`selfselect.plain`); the records that only a saved fit holds are registered here.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from selfselect.data.build import DataFacts
from selfselect.data.coding import KnownColumns
from selfselect.data.equations import Equation, Equations, SharedTerm
from selfselect.data.long import Source
from selfselect.errors import ArchiveError, SelfSelectError
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import TestResult
from selfselect.plain import NAMES, archived, check_plain, from_plain, to_plain
from selfselect.problem.problem import Problem
from selfselect.problem.units import Units
from selfselect.results._archive_checks import check_equations, check_fit
from selfselect.results._status_text import with_ending
from selfselect.results.diagnosis import Diagnosis, Finding
from selfselect.results.files import as_path, write_whole
from selfselect.results.fit_result import FitResult, SavedAnswers
from selfselect.results.naive import Naive
from selfselect.results.overfitting import too_many
from selfselect.results.page_methods import VERDICT
from selfselect.results.saved_codings import coding_content, read_coding
from selfselect.results.specification import tests_of_noise
from selfselect.solvers.base import Solution, StartRecord, TraceEntry
from selfselect.solvers.status import Ending, Status

__all__ = ["load", "save", "sealed", "write_content"]

FORMAT = "selfselect fit"
VERSION = 2

MOST_BYTES = 1 << 29
"""Size of a file that is read; a fit of 3,000 parameters takes about 400 MB."""

RECORDS = {
    "equations": Equations, "equation": Equation, "shared term": SharedTerm,
    "known columns": KnownColumns, "source": Source, "units": Units, "problem": Problem,
    "ending": Ending, "status": Status, "step": TraceEntry, "start": StartRecord,
    "covariance": Covariance, "facts": DataFacts, "naive": Naive, "test": TestResult,
    "finding": Finding, "diagnosis": Diagnosis, "kept": SavedAnswers,
}  # fmt: skip
for _name, _kind in RECORDS.items():
    archived(_name)(_kind)
archived("solution", 2)(Solution)


def save(fit: FitResult, path: str | Path) -> None:
    """Write a fit; the file appears whole or not at all."""
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
    if version not in (1, VERSION) or isinstance(version, bool | float):
        raise ArchiveError(
            f"The file {name} has version {str(version)[:40]!r} of the format; this selfselect "
            f"reads versions 1 and {VERSION}. Fit again, or use a matching selfselect."
        )
    try:
        check_plain(content, not_finite=version == 1)
        if version == 1:
            from selfselect.results._version1 import upgraded

            content = upgraded(content)
        elif "checksum" in content and content != sealed(content):
            # The first files of this version have none.
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
    if fit.memory.get(VERDICT) is not None:
        # Imported here and where it is read: few fits have one, and its room is behind this one.
        from selfselect.verdict import saved_verdict

        content["verdict"] = to_plain(saved_verdict(fit))
    return content


def _rebuild(content: dict[str, Any]) -> FitResult:
    if content.get("model") == "multinomial":
        # Imported here: few fits are such, and their room is behind this one.
        from selfselect.multinomial.archive import rebuild

        found: Any = rebuild(content)
        return cast("FitResult", found)
    content["solution"] = with_ending(content["solution"])
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
        from selfselect.verdict import SavedVerdict, restore_verdict

        restore_verdict(fit, from_plain(content["verdict"], SavedVerdict))
    return fit
