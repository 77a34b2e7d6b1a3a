r"""The contract of samplers: Markov kernels on the latent outcomes that explain a row.

A `Target` holds, for many rows at once, the normal distribution of the latent outcomes given the
observed one, and the rule that says which of them explain the row. A sampler is a pair of pure
functions, vectorised over rows: `init` finds latent outcomes inside, `step` moves them. Chains
live with whoever calls: the same latent outcomes can be stepped on at other means, since the
explaining set depends on neither coefficients nor scales.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import UnsupportedError
from selfselect.rules.base import NO_ROW_DATA, RowData, has_bounds

__all__ = ["Draw", "Sampler", "Target", "require_capability"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Target:
    """Latent outcomes of some rows: normal given the observed one, within what explains it.

    Attributes
    ----------
    rule : which alternative is chosen, in the order of the alternatives.
    chosen : (n,) the chosen alternative.
    outcome : (n,) with what outcome.
    means : (n, k) means of the latent outcomes, before anything is observed.
    scales : (k,) their standard deviations.
    correlation : (k, k) of the noise; None where it is independent.
    known : row data of the rule.
    start : position of the first row in the data, to name rows by.
    """

    rule: Any
    chosen: Indices
    outcome: Array
    means: Array
    scales: Array
    correlation: Array | None = None
    known: RowData = field(default=NO_ROW_DATA)
    start: int = 0

    def __len__(self) -> int:
        return len(self.chosen)

    def take(self, which: slice | Indices) -> Target:
        """Keep the rows `which`."""
        return replace(
            self,
            chosen=self.chosen[which],
            outcome=self.outcome[which],
            means=self.means[which],
            known=self.known.take(which),
        )

    @cached_property
    def center(self) -> Array:
        """The mean (n, k) of the latent outcomes given the observed one, and that one itself."""
        each = np.arange(len(self))
        if self.correlation is None:
            center = self.means.copy()
        else:
            surprise = self.outcome - self.means[each, self.chosen]
            center = self.means + surprise[:, None] * self._gain[self.chosen]
        center[each, self.chosen] = self.outcome
        return center

    @cached_property
    def _gain(self) -> Array:
        """Regression (k, k) of every outcome on the observed one, by row of the observed one."""
        assert self.correlation is not None
        return self.correlation * self.scales / self.scales[:, None]

    @cached_property
    def _root(self) -> Array:
        assert self.correlation is not None
        root: Array = np.linalg.cholesky(self.correlation) * self.scales[:, None]
        return root.T

    @cached_property
    def spread(self) -> Array:
        """Standard deviation (n, k) of what varies: zero for the observed outcome."""
        spread = np.repeat(self.scales[None, :], len(self), axis=0)
        spread[np.arange(len(self)), self.chosen] = 0.0
        return spread if self.informed is None else spread * self.informed

    @property
    def informed(self) -> Array | None:
        """Whether (n, k) the row says something of the alternative; None where it does of all.

        Where noise is independent and the rule bounds each outcome on its own, a row says nothing
        of an alternative that is not available, which is left at its mean. Other rules may compare
        outcomes that such an alternative is part of.
        """
        available = self.known.available
        if available is None or self.correlation is not None or not has_bounds(self.rule):
            return None
        return available.astype(np.float64)

    def deviations(self, rng: Generator, times: int | None = None) -> Array:
        """Draw normal deviations (n, k) from `center`, whatever the rule says of them.

        With `times`, so many of every row: (times, n, k).
        """
        shape = self.means.shape if times is None else (times, *self.means.shape)
        noise = rng.standard_normal(shape)
        if self.correlation is None:
            noise *= self.spread
            return noise
        noise = noise @ self._root
        each = np.arange(len(self))
        noise -= noise[..., each, self.chosen][..., None] * self._gain[self.chosen]
        noise[..., each, self.chosen] = 0.0
        return noise

    def contains(self, latent: Array) -> Mask:
        """Say whether latent outcomes explain their rows.

        Parameters
        ----------
        latent : (n, k), or (m, n, k) for m candidates per row.

        Returns
        -------
        (n,) or (m, n).
        """
        if latent.ndim == 2:
            return np.asarray(self.rule.choose(latent, self.known) == self.chosen)
        m, n, k = latent.shape
        chosen = self.rule.choose(latent.reshape(m * n, k), self._repeated(m))
        return np.asarray(chosen.reshape(m, n) == self.chosen)

    def _repeated(self, times: int) -> RowData:
        if self.known.costs is None and self.known.available is None:
            return self.known
        return self.known.take(np.tile(np.arange(len(self)), times))


@dataclass(frozen=True, eq=False)
class Draw:
    """What one step of a sampler gives.

    Attributes
    ----------
    latent : (n, k) where the chains stand.
    first, square : (n, k) means of the deviation from the target's `center` and of its square,
        given what the step looked at. A sampler that knows no better gives those of `latent`.
    more : (m, n, k) further points distributed as `latent`; None where there are none.
    control : (k, k, n) numbers of expectation zero that move with `first` and `square`: mean
        products of fresh deviations, less their expectations. None where there are none.
    """

    latent: Array
    first: Array
    square: Array
    more: Array | None = None
    control: Array | None = None

    @classmethod
    def at(cls, target: Target, latent: Array) -> Draw:
        """Take the latent outcomes for all that is known."""
        deviation = latent - target.center
        return cls(latent, deviation, deviation * deviation)

    def put(self, which: Indices, part: Draw) -> None:
        """Set the rows `which` to those of another draw."""
        self.latent[which], self.first[which] = part.latent, part.first
        self.square[which] = part.square
        if self.more is not None:
            self.more[:, which] = part.latent if part.more is None else part.more
        if self.control is not None:
            self.control[:, :, which] = 0.0 if part.control is None else part.control


@runtime_checkable
class Sampler(Protocol):
    """Anything that draws latent outcomes which explain rows.

    `steps` says how many steps make a draw that is worth keeping, `exact` whether one step draws
    anew from the target whatever came before, `requires` what the rule must offer.
    """

    requires: ClassVar[tuple[type, ...]]
    exact: ClassVar[bool]

    @property
    def steps(self) -> int:
        """How many steps make a draw."""

    def init(self, target: Target, rng: Generator) -> Array:
        """Return latent outcomes (n, k) that explain their rows."""

    def step(self, target: Target, latent: Array, rng: Generator) -> Draw:
        """Move latent outcomes (n, k) that explain their rows to others that do."""


def require_capability(sampler: Any, target: Target) -> None:
    """Raise one error that names what a rule lacks for a sampler."""
    for capability in sampler.requires:
        if not isinstance(target.rule, capability):
            word = capability.__name__.removeprefix("Has").lower()
            what = {"projection": "project", "bounds": "bounds"}[word]
            raise UnsupportedError(
                f"{type(sampler).__name__} needs a rule with {word}, and "
                f"{type(target.rule).__name__} has none. Give the rule a `{what}`, or use "
                "EllipticalSlice, which needs nothing but `choose`."
            )
