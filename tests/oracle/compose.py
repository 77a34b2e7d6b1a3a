"""Which options compose, and which are refused together: the table, made anew.

    python -m oracle.compose            compares today's table with the one that is kept
    python -m oracle.compose --write    writes it

Every pair of unusual levels of two options is posed, and every level is asked for every answer.
What is refused is kept with its reason. A pair that computed once may not be refused later.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from oracle import library
from oracle.generator import (
    FACTORS,
    Pair,
    Spec,
    all_pairs,
    draw_case,
    meaningful,
    repaired,
    spec_of_pair,
)

KEPT = Path(__file__).with_name("composes.json")

N_ROWS = 300

TRIES = 3
"""Samples that are tried before a pair counts as refused: some are too thin for any model."""

ANSWERS: dict[str, Callable[[Any, Any], Any]] = {
    "predict": lambda fit, _: fit.predict(kind="outcome"),
    "predict errors": lambda fit, _: fit.predict(kind="chance", level=0.95),
    "simulate": lambda fit, _: fit.simulate(seed=1),
    "choice probabilities": lambda fit, _: fit.choice_probabilities(),
    "potential outcomes": lambda fit, _: fit.potential_outcomes(),
    "treatment effects": lambda fit, labels: fit.treatment_effects(labels[-1], labels[0]),
    "marginal effects": lambda fit, _: fit.marginal_effects(),
    "counterfactual": lambda fit, labels: fit.counterfactual(subsidy={labels[-1]: 0.1}),
    "policy": lambda fit, _: fit.policy(),
    "gains": lambda fit, labels: fit.gains(labels[-1], labels[0], draws=2_000),
    "mte": lambda fit, _: fit.mte(),
    "summary": lambda fit, _: str(fit.summary()),
    "explain": lambda fit, _: str(fit.explain()),
    "profile": lambda fit, _: fit.conf_int(method="profile"),
    "save": lambda fit, _: fit.save(_new_file()),
}
"""What is asked of a fit with one unusual level."""


SELECTION_LACKS = ("noise", "panel")
"""Options that selection models should have too. Where a door gains one, the generator must draw
it: `meaningful` says today that it cannot."""


def _new_file() -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder)
    path.mkdir()
    return str(path / "fit.json")


def name_of(pair: Pair) -> str:
    """Write a pair as the kept table does."""
    return f"{pair[0]}={pair[1]} & {pair[2]}={pair[3]}"


def pair_of(name: str) -> Pair:
    """Read a pair from the kept table."""
    one, other = (side.split("=") for side in name.split(" & "))
    return one[0], one[1], other[0], other[1]


def refusal(ask: Callable[[Spec, Path], Any], spec: Spec) -> str | None:
    """Return why a spec is refused, in the first sentence of the error; None where it computes."""
    words = ""
    for seed in range(TRIES):
        with TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ask(Spec(**(vars(spec) | {"seed": seed, "n_rows": N_ROWS})), Path(folder))
            except Exception as error:
                words = written(error)
            else:
                return None
    return words


def written(error: Exception) -> str:
    """Write the first sentence of a refusal; an error that is none of the package's is BARE."""
    bare = "" if isinstance(error, library.Refused) else "BARE "
    return f"{bare}{type(error).__name__}: {str(error).split('. ')[0]}"


def refused_pairs(pairs: list[Pair]) -> dict[str, str]:
    """Return the refused ones of some pairs, with reasons."""
    found = {
        name_of(("door", door, option, level)): f"{door} has no option {option!r}"
        for door in FACTORS["door"][1:]
        for option in SELECTION_LACKS
        if option not in library.options_of_door(door)
        for level in FACTORS[option][1:]
    }
    for pair in pairs:
        spec = spec_of_pair(pair)
        assert spec is not None
        words = refusal(_asked, spec)
        if words is not None:
            found[name_of(pair)] = words
    return found


def _asked(spec: Spec, folder: Path) -> None:
    """Pose a model; fit it where that reads the table otherwise, or where errors are asked for."""
    fitted = spec.table in ("csv", "parquet", "dask") or spec.errors != "observed"
    ask = library.fit if fitted else library.pose
    ask(draw_case(spec), folder)


def refused_answers() -> dict[str, str]:
    """Return which answers are refused of a fit with one unusual level, with reasons."""
    found = {}
    for factor, levels in FACTORS.items():
        for level in levels[1:]:
            spec = repaired(Spec(**{factor: level}), {})
            if meaningful(spec) is not None or spec.table in ("csv", "parquet", "dask"):
                continue
            case = draw_case(Spec(**(vars(spec) | {"seed": 1, "n_rows": N_ROWS})))
            with TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = library.fit(case, Path(folder))
                for answer, ask in ANSWERS.items():
                    if answer == "mte" and spec.door == "fit":
                        continue  # there is no equation that selects
                    try:
                        ask(fit, case.labels)
                    except Exception as error:
                        found[f"{factor}={level} & {answer}"] = written(error)
    return found


def kept() -> dict[str, Any]:
    """Return the table that is kept."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def kept_refusals() -> set[Pair]:
    """Return the pairs that are refused, as the kept table has them."""
    return {pair_of(name) for name in kept()["refused"]}


def main() -> None:
    pairs = all_pairs()
    refused, answers = refused_pairs(pairs), refused_answers()
    table = {
        "pairs": len(set(map(name_of, pairs)) | set(refused)), "refused": refused,
        "answers_refused": answers,
    }  # fmt: skip
    print(f"{table['pairs']} pairs, {len(refused)} refused; {len(answers)} answers refused")
    if "--write" in sys.argv:
        KEPT.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        before = kept()
        for what in ("refused", "answers_refused"):
            for name in sorted(set(table[what]) ^ set(before[what])):
                print("now refused:" if name in table[what] else "now computes:", name)


if __name__ == "__main__":
    main()
