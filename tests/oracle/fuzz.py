"""Random models for as long as one likes: what the package says of each, beside the oracle.

    python -m oracle.fuzz --minutes 30 --seed 7              any three to eight unusual levels
    python -m oracle.fuzz --only noise=types --only panel=people
    python -m oracle.fuzz --write-cover                       the set of the suite, made anew

Every failure is reduced: levels are set back to those of a plain fit while the failure stays. It is
printed as a script that shows it again. With the same seed the same models are drawn.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from oracle.checks import CHECKS, Outcome, run
from oracle.compose import kept_refusals
from oracle.generator import (
    FACTORS,
    Spec,
    all_pairs,
    covering_specs,
    meaningful,
    pairs_of,
    random_spec,
    repaired,
    rows_for,
    spec_of_pair,
)

COVER = Path(__file__).with_name("covering.json")
COVER_SEED, MOST_LEVELS = 1, 9
"""Of the covering set in the suite."""

FEWEST_ROWS = 12
"""Below so many rows nothing is fitted."""


def reduced(spec: Spec, check: str) -> tuple[Spec, Outcome]:
    """Set levels back, then take rows away, as long as a check fails."""
    failure = run(spec, {check})[check]
    for name in sorted(spec.unusual(), key=lambda name: name != "table"):
        plainer = repaired(replace(spec, **{name: FACTORS[name][0]}), {})
        if meaningful(plainer) is None and plainer != spec:
            outcome = run(plainer, {check})[check]
            if outcome.kind == "failed":
                spec, failure = plainer, outcome
    while spec.n_rows > 2 * FEWEST_ROWS:
        fewer = replace(spec, n_rows=spec.n_rows // 2)
        outcome = run(fewer, {check})[check]
        if outcome.kind != "failed":
            break
        spec, failure = fewer, outcome
    return spec, failure


def script(spec: Spec, check: str, failure: Outcome) -> str:
    """Write a failure as a script to run in the folder `tests`."""
    levels = ", ".join(f"{name}={level!r}" for name, level in spec.unusual().items())
    made = ", ".join(filter(None, [levels, f"n_rows={spec.n_rows}", f"seed={spec.seed}"]))
    return (
        f"# {check}: {failure.words}\n"
        "from oracle.checks import run\n"
        "from oracle.generator import Spec, draw_case\n"
        f"spec = Spec({made})\n"
        "case = draw_case(spec)  # case.table, case.formula, case.options, case.truth\n"
        f"print(run(spec, {{{check!r}}}))\n"
    )


def covering() -> list[Spec]:
    """Return the covering set of the suite."""
    return [Spec(**levels) for levels in json.loads(COVER.read_text(encoding="utf-8"))]


def write_covering() -> None:
    """Make the covering set anew, from the table of what composes.

    Three levels may be refused together though no two are: their pairs are covered apart.
    """
    refused = kept_refusals()
    made = covering_specs(COVER_SEED, refused, MOST_LEVELS)
    specs = [
        spec for spec in made if run(spec, {"kernels_agree"})["kernels_agree"].kind == "passed"
    ]
    held = set().union(*map(pairs_of, specs))
    for pair in sorted(set(all_pairs()) - refused - held):
        spec = spec_of_pair(pair)
        if spec is not None and pair not in held:
            specs.append(replace(spec, n_rows=rows_for(spec), seed=len(specs) + 1))
            held |= pairs_of(spec)
    lines = [
        json.dumps(spec.unusual() | {"n_rows": spec.n_rows, "seed": spec.seed}) for spec in specs
    ]
    COVER.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def composed(rng: np.random.Generator, only: Mapping[str, str]) -> Spec:
    """Draw a spec of which no two levels are known to be refused together."""
    refused = kept_refusals()
    while True:
        spec = random_spec(rng, int(rng.integers(1, 9)), only)
        if not pairs_of(spec) & refused:
            return replace(spec, n_rows=max(spec.n_rows, rows_for(spec)))


def main() -> int:
    """Draw models until the time is over; the exit status says whether any failed."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--minutes", type=float, default=10.0)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--only", action="append", default=[], metavar="FACTOR=LEVEL")
    asked.add_argument("--check", action="append", choices=list(CHECKS), help="these checks only")
    asked.add_argument("--write-cover", action="store_true", help="make the suite's set anew")
    given = asked.parse_args()
    if given.write_cover:
        write_covering()
        return 0
    only = dict(pair.split("=", 1) for pair in given.only)
    rng = np.random.default_rng(given.seed)
    kinds: Counter[str] = Counter()
    shown: set[tuple[str, str]] = set()
    end, n_models = time.monotonic() + 60.0 * given.minutes, 0
    while time.monotonic() < end:
        spec = composed(rng, only)
        n_models += 1
        for check, outcome in run(spec, given.check).items():
            kinds[outcome.kind] += 1
            if outcome.kind == "failed":
                plainest, failure = reduced(spec, check)
                key = (check, str(plainest.unusual()))
                if key not in shown:
                    shown.add(key)
                    print(script(plainest, check, failure), flush=True)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{n_models} models, seed {given.seed}: {counts}; {len(shown)} findings")
    return 1 if shown else 0


if __name__ == "__main__":
    raise SystemExit(main())
