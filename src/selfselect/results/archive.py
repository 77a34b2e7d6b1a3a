"""Saved fits: versioned JSON, never pickle, and no file that cannot be trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfselect.data.build import DataFacts
from selfselect.data.coder import Coder
from selfselect.data.coding import ArrayCoding, FormulaCoding, KnownColumns, OutcomeCoder
from selfselect.data.equations import Equation, Equations, SharedTerm
from selfselect.data.formulas import parse_formula
from selfselect.data.long import LongCoding, Source
from selfselect.errors import ArchiveError, SelfSelectError
from selfselect.inference.covariance import Covariance
from selfselect.inference.statistics import TestResult
from selfselect.noises import Correlated, Independent, KnownCovariance, Noise, SharedShock
from selfselect.problem.problem import Problem
from selfselect.problem.units import Units
from selfselect.results.diagnosis import Diagnosis, Finding
from selfselect.results.files import write_whole
from selfselect.results.fit_result import FitResult, Kept
from selfselect.results.naive import Naive
from selfselect.results.specification import tests_of_noise
from selfselect.rules import LinearArgmax, Maximum, Minimum, MonotoneArgmax, Ranked
from selfselect.rules._transforms import NAMED, as_transform
from selfselect.solvers.base import Solution, StartRecord, TraceEntry

__all__ = ["load", "save"]

Array = NDArray[np.float64]

FORMAT = "selfselect fit"
VERSION = 1


def save(fit: FitResult, path: str | Path) -> None:
    """Write a fit; the file appears whole or not at all."""
    text = json.dumps(_strict(_content(fit)), indent=1, allow_nan=False, default=_refuse)
    target = Path(path)
    try:
        write_whole(target, text)
    except OSError as error:
        raise ArchiveError(
            f"The fit could not be saved to {str(target)!r}: {error.strerror}. It is unharmed; "
            "save it elsewhere."
        ) from error


def load(path: str | Path) -> FitResult:
    """Read a fit that was saved, without its rows.

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
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ArchiveError(f"There is no file {str(source)!r}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ArchiveError(f"The file {str(source)!r} cannot be read as text: {error}.") from error
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ArchiveError(
            f"The file {str(source)!r} is not complete JSON ({error}): it may be truncated, or not "
            "a saved fit."
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ArchiveError(f"The file {str(source)!r} is JSON but not a saved fit of selfselect.")
    if content.get("version") != VERSION:
        raise ArchiveError(
            f"The file {str(source)!r} has version {content.get('version')!r} of the format; this "
            f"selfselect reads version {VERSION}. Fit again, or use a matching selfselect."
        )
    try:
        return _rebuild(content)
    except SelfSelectError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ArchiveError(
            f"The file {str(source)!r} is damaged: {type(error).__name__} at {error}."
        ) from error


def _refuse(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise ArchiveError(
        f"The fit cannot be saved: {value!r} of type {type(value).__name__} has no plain form."
    )


def _strict(value: Any) -> Any:
    """Write what is no finite number as null: strict readers refuse NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {key: _strict(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(one) for one in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)


def _array(values: Any) -> Array:
    """Read numbers; those that are null are nan."""
    return np.array(values, dtype=float)


def _entry(kind: Any, content: dict[str, Any], *numbers: str) -> Any:
    """Rebuild a record, whose `numbers` may be null."""
    return kind(**{**content, **{name: _number(content[name]) for name in numbers}})


def _content(fit: FitResult) -> dict[str, Any]:
    solution, units = fit.solution, fit.problem.units
    return {
        "format": FORMAT,
        "version": VERSION,
        "equations": asdict(fit.problem.equations),
        "coding": _coding_content(fit),
        "known": asdict(fit.coding.known),
        "index": fit.problem.index,
        "exchangeable": fit.problem.exchangeable,
        "rule": _rule_content(fit.problem.rule),
        "partial": fit.problem.partial,
        "noise": _noise_content(fit.problem.noise),
        "units": {f.name: _listed(getattr(units, f.name)) for f in fields(units)},
        "solution": {
            "free": solution.free.tolist(),
            "loglik": solution.loglik,
            "information": solution.information.tolist(),
            "converged": solution.converged,
            "status": solution.status,
            "trace": [asdict(entry) for entry in solution.trace],
            "n_passes": solution.n_passes,
            "solver": solution.solver,
            "starts": [asdict(record) for record in solution.starts],
            "points": solution.points,
            "noise": None if solution.noise is None else solution.noise.tolist(),
            "loglik_error": solution.loglik_error,
            "reason": fit.solver_reason,
        },
        "covariance": {
            "kind": fit.covariance.kind,
            "description": fit.covariance.description,
            "matrix": fit.covariance.matrix.tolist(),
        },
        "facts": asdict(fit.facts),
        "naive": {
            "coefficients": [part.tolist() for part in fit.naive_fit.coefficients],
            "std_errors": [part.tolist() for part in fit.naive_fit.std_errors],
            "scales": fit.naive_fit.scales.tolist(),
        },
        "independence": asdict(fit.independence_test()),
        "noise_tests": [asdict(test) for test in tests_of_noise(fit)],
        "rejections": list(fit.rejections()),
        "diagnosis": [asdict(finding) for finding in fit.diagnose().findings],
        "shares": fit.shares.tolist(),
        "call": fit.call,
    }


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _coding_content(fit: FitResult) -> dict[str, Any]:
    coding = fit.coding
    if isinstance(coding, FormulaCoding | LongCoding):
        long = {}
        if isinstance(coding, LongCoding):
            sources = [[one.coder, one.name, one.alternative] for one in coding.sources]
            long = {"case": coding.case, "alternative": coding.alternative, "sources": sources}
        return long | {
            "kind": "long" if long else "formula",
            "coders": [_coder_content(coder) for coder in coding.coders],
            "coder_of": list(coding.coder_of),
            "outcome": None
            if coding.outcome.coder is None
            else _coder_content(coding.outcome.coder),
        }
    return {"kind": "array"}


def _coder_content(coder: Coder) -> dict[str, Any]:
    return {"text": coder.text, "names": list(coder.names), "state": coder.state()}


def _rule_content(rule: Any) -> dict[str, Any]:
    if isinstance(rule, Ranked):
        return {"name": "Ranked", "rank": rule.rank}
    given_cost = getattr(rule, "cost", None)
    cost = None if given_cost is None else dict(_pairs_of(given_cost))
    if isinstance(rule, MonotoneArgmax):
        given = rule.transforms
        plain: Any
        if isinstance(given, dict):
            plain = [[key, _transform_content(value)] for key, value in given.items()]
        else:
            plain = [_transform_content(value) for value in given]
        return {
            "name": "MonotoneArgmax",
            "by_label": isinstance(given, dict),
            "transforms": plain,
            "cost": cost,
        }
    if isinstance(rule, LinearArgmax):
        return {
            "name": "LinearArgmax",
            "matrix": _weights_content(rule.matrix),
            "constant": _weights_content(rule.constant),
            "cost": cost,
        }
    if type(rule) in (Maximum, Minimum):
        return {"name": type(rule).__name__, "cost": cost}
    raise ArchiveError(
        f"A fit with the rule {type(rule).__name__} cannot be saved: it is code of yours, and a "
        "saved fit holds no code. Save its tables with tidy().to_csv(...)."
    )


def _pairs_of(mapping: Any) -> list[tuple[Any, Any]]:
    return [(key, _refuse(value) if isinstance(value, np.generic) else value)
            for key, value in mapping.items()]  # fmt: skip


def _transform_content(value: Any) -> Any:
    label = as_transform(value).label
    if label is None or (isinstance(label, str) and label not in NAMED):
        raise ArchiveError(
            "A fit whose transforms are functions cannot be saved: a saved fit holds no code. Use "
            f"named transforms ({', '.join(sorted(NAMED))}) or factors, or save its tables with "
            "tidy().to_csv(...)."
        )
    return label


def _weights_content(given: Any) -> Any:
    """Write numbers that may be kept by label, one level or two deep."""
    if isinstance(given, dict):
        return {"by_label": [[key, _weights_content(value)] for key, value in given.items()]}
    return given


def _weights(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _weights(value) for key, value in content["by_label"]}
    return content


def _noise_content(noise: Noise) -> dict[str, Any]:
    if isinstance(noise, KnownCovariance):
        return {"covariance": _weights_content(noise.matrix)}
    content = {"name": type(noise).__name__, "scale": _scale_content(noise)}
    if isinstance(noise, Correlated):
        given = noise.correlation
        if isinstance(given, Mapping):
            given = {"by_pair": [[*key, float(value)] for key, value in given.items()]}
        elif not isinstance(given, str):
            given = np.asarray(given, dtype=float).tolist()
        return content | {"correlation": given, "draws": int(noise.draws)}
    if isinstance(noise, SharedShock):
        given = noise.loading
        if isinstance(given, Mapping):
            given = {"by_label": [[key, float(value)] for key, value in given.items()]}
        elif given is not None and not isinstance(given, str):
            given = float(given)
        return content | {"loading": given, "nodes": int(noise.nodes)}
    if not isinstance(noise, Independent):
        raise ArchiveError(
            f"A fit with the noise {type(noise).__name__} cannot be saved: it is code of yours, "
            "and a saved fit holds no code. Save its tables with tidy().to_csv(...)."
        )
    return content


def _scale_content(noise: Noise) -> Any:
    if isinstance(noise.scale, str):
        return noise.scale
    if hasattr(noise.scale, "items"):
        return {"by_label": [[key, float(value)] for key, value in noise.scale.items()]}
    return np.asarray(noise.scale, dtype=float).tolist()


def _rebuild(content: dict[str, Any]) -> FitResult:
    equations = Equations(
        content["equations"]["outcome"],
        tuple(content["equations"]["covariates"]),
        tuple(
            Equation(
                one["alternative"],
                tuple(one["terms"]),
                tuple(one["columns"]),
                bool(one.get("has_offset", False)),
            )
            for one in content["equations"]["each"]
        ),
        tuple(
            Equation(one["alternative"], tuple(one["terms"]), tuple(one["columns"]))
            for one in content["equations"].get("costs", ())
        ),
        tuple(
            SharedTerm(one["term"], tuple((int(j), int(place)) for j, place in one["members"]))
            for one in content["equations"].get("shared", ())
        ),
    )
    known = KnownColumns(tuple(content["known"]["costs"]), tuple(content["known"]["available"]))
    units = Units(
        _array(content["units"]["shift"]),
        _array(content["units"]["unit"]),
        float(content["units"]["outcome_shift"]),
        float(content["units"]["outcome_unit"]),
    )
    problem = Problem(
        equations,
        _rule(content["rule"]),
        _noise(content["noise"]),
        units,
        content["index"],
        bool(content["exchangeable"]),
        bool(content.get("partial", False)),
    )
    solution = content["solution"]
    facts = content["facts"]
    result = FitResult(
        coding=_coding(content["coding"], equations, known),
        problem=problem,
        solution=Solution(
            free=_array(solution["free"]),
            loglik=_number(solution["loglik"]),
            information=_array(solution["information"]),
            converged=bool(solution["converged"]),
            status=str(solution["status"]),
            trace=tuple(
                _entry(TraceEntry, entry, "loglik", "distance", "step_size")
                for entry in solution["trace"]
            ),
            n_passes=int(solution["n_passes"]),
            solver=str(solution["solver"]),
            starts=tuple(
                _entry(StartRecord, record, "loglik", "behind") for record in solution["starts"]
            ),
            points=solution.get("points"),
            noise=None if solution.get("noise") is None else _array(solution["noise"]),
            loglik_error=float(solution.get("loglik_error", 0.0)),
        ),
        covariance=Covariance(
            content["covariance"]["kind"],
            content["covariance"]["description"],
            _array(content["covariance"]["matrix"]),
        ),
        facts=DataFacts(
            **{
                **facts,
                "formulas": tuple(facts["formulas"]),
                "counts": tuple(facts["counts"]),
                "outcome_range": tuple(facts["outcome_range"]),
            }
        ),
        solver_reason=str(solution["reason"]),
        kept=Kept(
            Naive(
                tuple(_array(part) for part in content["naive"]["coefficients"]),
                tuple(_array(part) for part in content["naive"]["std_errors"]),
                _array(content["naive"]["scales"]),
            ),
            _entry(TestResult, content["independence"], "statistic", "p_value"),
            Diagnosis(tuple(Finding(**finding) for finding in content["diagnosis"])),
            tuple(map(_number, content["shares"])),
            tuple(
                _entry(TestResult, test, "statistic", "p_value") for test in content["noise_tests"]
            ),
            # Files of earlier versions have none: they are put into words again.
            tuple(map(str, content["rejections"])) if "rejections" in content else None,
        ),
        call=None if content.get("call") is None else str(content["call"]),
    )
    if result.values.shape != (result.covariance.matrix.shape[0],):
        raise ArchiveError("The saved fit is damaged: parameters and covariance differ in size.")
    return result


def _coding(content: dict[str, Any], equations: Equations, known: KnownColumns) -> Any:
    if content["kind"] == "array":
        return ArrayCoding(equations, known)
    # The same door a user's formula goes through: a file cannot smuggle code in. What columns are
    # needed is read off the formulas, not believed: any other name might mean a Python builtin.
    columns = {
        name
        for coder in content["coders"]
        for name in parse_formula(f"outcome ~ {coder['text']}").term_columns
    }
    coders = tuple(
        Coder.restore(coder["text"], tuple(coder["names"]), coder["state"])
        for coder in content["coders"]
    )
    coder_of = tuple(content["coder_of"])
    for equation, place in zip(equations.each, coder_of, strict=True):
        if set(coders[place].names) != set(equation.estimated):
            raise ArchiveError(
                f"The saved fit is damaged: the equation of {equation.alternative!r} has other "
                "terms than its formula."
            )
    outcome = parse_formula(f"{equations.outcome} ~ 1")
    left = content["outcome"]
    coder = None
    if left is not None:
        # Only the state is taken from the file; the expression is the one that was just parsed.
        coder = Coder.restore(f"{outcome.outcome} - 1", tuple(left["names"]), left["state"])
    outcome_coder = OutcomeCoder(outcome.outcome, outcome.outcome_columns, coder)
    needed = tuple(sorted(columns))
    if content["kind"] == "long":
        sources = tuple(Source(*one) for one in content["sources"])
        return LongCoding(
            equations, coders, coder_of, known, needed, outcome_coder,
            content["case"], content["alternative"], sources,
        )  # fmt: skip
    return FormulaCoding(equations, coders, coder_of, known, needed, outcome_coder)


def _rule(content: dict[str, Any]) -> Any:
    if content["name"] == "MonotoneArgmax":
        given = content["transforms"]
        transforms = dict(given) if content["by_label"] else given
        return MonotoneArgmax(transforms, cost=content["cost"])
    if content["name"] == "Ranked":
        return Ranked(content["rank"])
    if content["name"] == "LinearArgmax":
        return LinearArgmax(
            _weights(content["matrix"]), _weights(content["constant"]), cost=content["cost"]
        )
    rules = {"Maximum": Maximum, "Minimum": Minimum}
    return rules[content["name"]](cost=content["cost"])


def _noise(content: dict[str, Any]) -> Noise:
    if "covariance" in content:
        return KnownCovariance(_weights(content["covariance"]))
    scale = content["scale"]
    if isinstance(scale, dict):
        scale = dict(scale["by_label"])
    if content.get("name") == "Correlated":
        given = content["correlation"]
        if isinstance(given, dict):
            given = {(a, b): value for a, b, value in given["by_pair"]}
        elif isinstance(given, list):
            given = _array(given)
        return Correlated(scale, given, int(content["draws"]))
    if content.get("name") == "SharedShock":
        given = content["loading"]
        if isinstance(given, dict):
            given = dict(given["by_label"])
        return SharedShock(scale, given, int(content["nodes"]))
    return Independent(scale)
