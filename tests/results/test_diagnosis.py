"""Diagnosis: what is weakly identified is said in a sentence, with the number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import selfselect as ss


def sentences(fit: ss.FitResult) -> str:
    return " ".join(finding.sentence for finding in fit.diagnose().weak)


def test_a_healthy_fit_has_nothing_weak(result: ss.FitResult) -> None:
    diagnosis = result.diagnose()
    assert diagnosis.weak == ()
    assert len(diagnosis.findings) == 8
    assert "!" not in str(diagnosis)
    share = 100 * result.counts["hunting"] / result.nobs
    assert f"'hunting' is chosen in {result.counts['hunting']} of 500 rows ({share:.1f}%)" in str(
        diagnosis
    )


def test_a_rare_alternative_is_named_with_its_share() -> None:
    sample = ss.simulators.hostile("rare", 4_000, seed=1)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen")
    share = fit.counts["rare"] / fit.nobs
    assert 0.005 < share < 0.02
    assert (
        f"'rare' is chosen in {fit.counts['rare']} of 4000 rows ({100 * share:.1f}%)"
        in sentences(fit)
    )
    few = "Its estimates rest on few outcomes: fewer than 2% of all."
    assert few in sentences(fit)
    assert few in " ".join(str(fit.summary()).split())


def test_few_rows_per_parameter_are_not_called_rare() -> None:
    village = ss.simulators.village(60, seed=1)
    fit = ss.fit(village.formula, village.data, chosen="job")
    few = fit.counts.min()
    assert 0.3 < few / 60 < 0.5
    assert (
        f"{few / 4:.0f} per parameter. Its estimates rest on few outcomes: fewer than "
        "10 per parameter."
    ) in sentences(fit)


def test_nearly_collinear_covariates_are_named() -> None:
    sample = ss.simulators.hostile("collinear", 2_000, seed=1)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen")
    assert "'x', 'almost_x' are nearly collinear" in sentences(fit)
    assert "condition number 2" in sentences(fit)


def test_thin_overlap_names_the_covariate_along_which_it_is_thin() -> None:
    rng = np.random.default_rng(0)
    n_rows = 4_000
    table = pd.DataFrame({"x": rng.normal(size=n_rows), "far": rng.normal(size=n_rows)})
    # `a` is chosen almost only where far is large, so its slope rests on few rows elsewhere.
    latent = np.column_stack(
        [table["x"] + 9.0 * table["far"] - 18.0, -9.0 * table["far"]]
    ) + rng.normal(size=(n_rows, 2))
    seen = latent.argmax(axis=1)
    table = table.assign(y=latent.max(axis=1), job=np.array(["a", "b"])[seen])
    fit = ss.fit("y ~ x + far", table, chosen="job")
    assert "variation lies where 'a' was chosen. That is little" in sentences(fit)


@pytest.mark.parametrize("kind", ["rare", "ties", "huge", "collinear"])
def test_hostile_data_is_diagnosed_without_failing(kind: str) -> None:
    sample = ss.simulators.hostile(kind, 1_500, seed=2)
    fit = ss.fit(sample.formula, sample.data, chosen="chosen")
    assert all(finding.verdict in ("fine", "weak") for finding in fit.diagnose().findings)
    assert str(fit.diagnose()).count("\n") == len(fit.diagnose().findings) - 1
