"""Saved fits of version 1 of the format, as version 2 has them."""

from __future__ import annotations

import math
from typing import Any

from selfselect.data.columns import Kind
from selfselect.data.formula_columns import uses_of_columns

__all__ = ["upgraded", "upgraded_state"]


def upgraded(old: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a file of version 1 as a file of version 2 holds it."""
    solution, naive, covariance = old["solution"], old["naive"], old["covariance"]
    return {
        "format": old["format"],
        "version": 2,
        "call": old.get("call"),
        "problem": {
            "is": "problem/1",
            "equations": _equations(old["equations"]),
            "rule": _rule(old["rule"]),
            "noise": _noise(old["noise"]),
            "units": {
                "is": "units/1",
                "shift": _array(old["units"]["shift"]),
                "unit": _array(old["units"]["unit"]),
                "outcome_shift": old["units"]["outcome_shift"],
                "outcome_unit": old["units"]["outcome_unit"],
            },
            "index": old["index"],
            "exchangeable": old["exchangeable"],
            "partial": old.get("partial", False),
        },
        "coding": _coding(old),
        "facts": {"is": "facts/1", **old["facts"]},
        "solver_reason": solution["reason"],
        "solution": {
            "is": "solution/1",
            "free": _array(solution["free"]),
            "loglik": _number(solution["loglik"]),
            "information": _array(solution["information"]),
            "converged": solution["converged"],
            "status": solution["status"],
            "trace": [
                _record("step", one, "loglik", "distance", "step_size") for one in solution["trace"]
            ],
            "n_passes": solution["n_passes"],
            "solver": solution["solver"],
            "starts": [_record("start", one, "loglik", "behind") for one in solution["starts"]],
            "points": solution.get("points"),
            "noise": None if solution.get("noise") is None else _array(solution["noise"]),
            "loglik_error": _number(solution.get("loglik_error", 0.0)),
        },
        "covariance": {
            "is": "covariance/1",
            "kind": covariance["kind"],
            "description": covariance["description"],
            "matrix": _array(covariance["matrix"]),
        },
        "kept": {
            "is": "kept/1",
            "naive": {
                "is": "naive/1",
                "coefficients": [_array(part) for part in naive["coefficients"]],
                "std_errors": [_array(part) for part in naive["std_errors"]],
                "scales": _array(naive["scales"]),
            },
            "independence": _test(old["independence"]),
            "diagnosis": {
                "is": "diagnosis/1",
                "findings": [_record("finding", one) for one in old["diagnosis"]],
            },
            "shares": [_number(share) for share in old["shares"]],
            "noise": [_test(test) for test in old["noise_tests"]],
        },
    }


def _number(value: Any) -> Any:
    """Numbers that are none were written as null, and before that as NaN itself."""
    return {"float": "nan"} if value is None or _is_nan(value) else value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _array(values: Any) -> dict[str, Any]:
    def held(part: Any) -> Any:
        if isinstance(part, list):
            return [held(one) for one in part]
        return None if _is_nan(part) else part

    return {"array": held(values)}


def _record(name: str, old: dict[str, Any], *numbers: str) -> dict[str, Any]:
    return {"is": f"{name}/1", **old, **{one: _number(old[one]) for one in numbers}}


def _test(old: dict[str, Any]) -> dict[str, Any]:
    return _record("test", old, "statistic", "p_value")


def _equations(old: dict[str, Any]) -> dict[str, Any]:
    return {
        "is": "equations/1",
        "outcome": old["outcome"],
        "covariates": old["covariates"],
        "each": [_record("equation", one) for one in old["each"]],
        "costs": [_record("equation", one) for one in old.get("costs", ())],
        "shared": [_record("shared term", one) for one in old.get("shared", ())],
    }


def _coding(old: dict[str, Any]) -> dict[str, Any]:
    coding = old["coding"]
    new = {**coding, "known": {"is": "known columns/1", **old["known"]}}
    if coding["kind"] == "long":
        new["sources"] = [
            {"is": "source/1", "coder": coder, "name": name, "alternative": alternative}
            for coder, name, alternative in coding["sources"]
        ]
    return new


def upgraded_state(text: str, old: dict[str, Any]) -> dict[str, Any]:
    """Return what the coder of a right side learnt as version 2 has it.

    Version 1 wrote kind and categories of every factor, and not what columns held.
    """
    labels = {name: entry[1] for name, entry in old["factors"].items() if entry[1] is not None}
    kinds: dict[str, Kind] = {}
    for name, uses in uses_of_columns(text).items():
        kinds[name] = "category" if name in labels or uses == {"label"} else "number"
        if kinds[name] == "number" and "logic" in uses and "arithmetic" not in uses:
            kinds[name] = "truth"
    return {"kinds": kinds, "transforms": old["transforms"], "factors": labels}


def _by_label(old: Any) -> Any:
    """Return numbers that may have been kept by label, one level or two deep."""
    if isinstance(old, dict):
        return {"map": [[key, _by_label(value)] for key, value in old["by_label"]]}
    if isinstance(old, list):
        return [_by_label(one) for one in old]
    return old


def _rule(old: dict[str, Any]) -> dict[str, Any]:
    if old["name"] == "Ranked":
        return {"is": "ranked/1", "rank": old["rank"]}
    costs = old["cost"]
    cost = None if costs is None else {"map": [[key, value] for key, value in costs.items()]}
    if old["name"] == "MonotoneArgmax":
        given = {"map": old["transforms"]} if old["by_label"] else old["transforms"]
        return {"is": "monotone argmax/1", "transforms": given, "cost": cost}
    if old["name"] == "LinearArgmax":
        return {
            "is": "linear argmax/1",
            "matrix": _by_label(old["matrix"]),
            "constant": _by_label(old["constant"]),
            "cost": cost,
        }
    return {"is": f"{str(old['name']).lower()}/1", "cost": cost}


def _noise(old: dict[str, Any]) -> dict[str, Any]:
    if "covariance" in old:
        return {"is": "known covariance/1", "matrix": _by_label(old["covariance"])}
    scale = _by_label(old["scale"])
    if old.get("name") == "Correlated":
        given = old["correlation"]
        if isinstance(given, dict):
            given = {"map": [[[a, b], value] for a, b, value in given["by_pair"]]}
        elif isinstance(given, list):
            given = _array(given)
        return {
            "is": "correlated/1",
            "scale": scale,
            "correlation": given,
            "draws": old["draws"],
        }
    if old.get("name") == "SharedShock":
        loading = _by_label(old["loading"])
        return {"is": "shared shock/1", "scale": scale, "loading": loading, "nodes": old["nodes"]}
    return {"is": "independent/1", "scale": scale}
