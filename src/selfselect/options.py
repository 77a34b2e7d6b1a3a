"""What options take, as types: a type checker refuses what a call would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from selfselect.inference.covariance import Bootstrap
    from selfselect.noises.base import Noise
    from selfselect.rules.base import SelectionRule


RuleOption: TypeAlias = "Literal['max', 'min'] | SelectionRule"

NoiseName: TypeAlias = Literal[
    "independent", "correlated", "shared shock", "mixture", "student", "types"
]

NoiseOption: TypeAlias = "NoiseName | Noise | None"

CovarianceName: TypeAlias = Literal[
    "observed", "robust", "clustered", "bootstrap", "HC0", "HC1", "opg",
    "nonrobust", "oim", "sandwich", "cluster",
]  # fmt: skip

CovarianceOption: TypeAlias = "CovarianceName | Bootstrap"

WeightsKind: TypeAlias = Literal["frequency", "probability"] | None

Missing: TypeAlias = Literal["drop", "raise"]

MissingOutcome: TypeAlias = Literal["raise", "silent", "drop"]

Limits: TypeAlias = tuple[str | float | None, str | float | None] | None
"""The lowest and the highest value: columns or numbers, None where there is no limit."""

Intervals: TypeAlias = Literal["wald", "profile"]

PredictionKind: TypeAlias = Literal["latent", "chance", "outcome", "given_seen", "scale"]

Scale: TypeAlias = Literal["model", "level"]

Covariates: TypeAlias = Literal["sampled", "fixed"]
