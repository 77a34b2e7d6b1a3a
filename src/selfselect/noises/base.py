"""The contract of noises: how outcomes scatter around their means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.errors import OptionError
from selfselect.kernels.joint import Indices, JointTerms, Sides, independent_means
from selfselect.noises.shapes.base import Family, Shape
from selfselect.noises.shapes.normal import SHAPE as NORMAL
from selfselect.rules.base import Label

Array = NDArray[np.float64]

COMMON = "(common)"
"""Stands in place of an alternative's label where one parameter belongs to all."""


@dataclass(frozen=True)
class Extra:
    """A parameter beside the coefficients and scales of the alternatives.

    Attributes
    ----------
    label : (alternative or pair, term), as tables name it.
    start : where a search begins.
    fixed : its value where it is known, None where it is estimated.
    tied_to : position, among the extras, of an earlier one that it equals; None where it is its
        own.
    in_outcome_units : whether it is measured in units of the outcome.
    column : the covariate it multiplies (see `Equation.columns`); None where it multiplies none.
    turned : whether it is a correlation that solvers move on Fisher's scale, where it is free.
    limit : the largest size that is tried.
    alternative : position of the alternative that tables list it with; None for the end of them.
    before_scale : whether it stands before that alternative's scale, rather than behind it.
    """

    label: tuple[Label, str]
    start: float
    fixed: float | None = None
    tied_to: int | None = None
    in_outcome_units: bool = False
    column: int | None = None
    turned: bool = False
    limit: float = float("inf")
    alternative: int | None = None
    before_scale: bool = False


@runtime_checkable
class Noise(Protocol):
    """Anything that says how noise is distributed and draws from it."""

    @property
    def scale(self) -> Any:
        """The scales: ``"each"``, ``"common"``, or known ones."""

    @property
    def name(self) -> str:
        """A few words for summaries."""

    def fixed_scales(self, alternatives: Sequence[Label]) -> Array | None:
        """Return the scales (k,) where they are known, None where they are to be estimated."""

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        """Return the parameters it has beside the scales."""

    def renumbered(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where each extra comes from when alternatives are put in that order."""

    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        """Draw noise (n, k) with the given scales, in units of the outcome."""


class Points(NamedTuple):
    """Points by which a likelihood is simulated or integrated.

    Attributes
    ----------
    number : how many there are now.
    most : how many there may be.
    what : what they are called.
    alike : whether their error is the same in all rows, so that a sample shows its size.
    """

    number: int
    most: int
    what: str
    alike: bool


class Begin(NamedTuple):
    """A place from which a search begins: its name, and the noise's extras in internal units."""

    name: str
    extras: Array


class FittedNoise(ABC):
    """What a noise that can be fitted adds to the contract: its own mathematics.

    Subclasses change what is different for them. Everything is in internal units: `extras` are the
    noise's own parameters, `inverse_scales` (k,) the h of all alternatives.

    Attributes
    ----------
    joint : whether the likelihood takes the alternatives of a row together.
    independent : whether the noises of a row's alternatives are independent by assumption.
    correlated : whether its extras are the correlations of all pairs.
    one_sided : whether independence is the edge of what its extras can be.
    extras_in_scales : whether the kernel takes the extras in units of the alternatives' scales.
    selected : whether it is correlated with the noise of a selection equation, which it needs.
    sign_only : whether only the side of zero on which the outcome lies is recorded.
    mixed : whether it is a mixture over unobserved types.
    grouped : whether the rows of a person share a part of it.
    takes_formulas : whether its scale may be a formula of covariates.
    method : how its parameters are estimated, ``ml`` or ``two-step``.
    """

    joint: ClassVar[bool] = False
    independent: ClassVar[bool] = False
    correlated: ClassVar[bool] = False
    one_sided: ClassVar[bool] = False
    extras_in_scales: ClassVar[bool] = False
    selected: ClassVar[bool] = False
    takes_formulas: ClassVar[bool] = False
    sign_only: ClassVar[bool] = False
    mixed: ClassVar[bool] = False
    grouped: ClassVar[bool] = False
    method: ClassVar[str] = "ml"

    @property
    @abstractmethod
    def name(self) -> str:
        """A few words for summaries."""

    @property
    def scale(self) -> Any:
        """The scales: ``"each"``, ``"common"``, or known ones."""
        return "known"

    @property
    def spread(self) -> str | Mapping[Any, str] | None:
        """Formulas of the logarithm of the scale, where it moves with covariates; else None."""
        return None

    @abstractmethod
    def fixed_scales(self, alternatives: Sequence[Label]) -> Array | None:
        """Return the scales (k,) where they are known, None where they are to be estimated."""

    def extras(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        """Return the parameters it has beside the scales; here none."""
        del alternatives
        return ()

    def renumbered(self, order: Indices) -> Indices:
        """Return where each extra comes from when alternatives are put in that order."""
        del order
        return np.empty(0, dtype=np.intp)

    def shown(self, alternatives: Sequence[Label]) -> tuple[Extra, ...]:
        """Return what tables show in place of the extras; nothing where they show those."""
        del alternatives
        return ()

    def show(self, extras: Array, alternatives: Sequence[Label]) -> tuple[Array, Array]:
        """Return what is shown of extras (e,) in the user's units, and its derivatives (s, e)."""
        del alternatives
        return extras, np.eye(len(extras))

    def read(self, shown: Array, alternatives: Sequence[Label]) -> Array:
        """Return the extras whose values are shown: the inverse of `show`."""
        del alternatives
        return shown

    def undetermined(self) -> str | None:
        """Say which of its parameters are held since the data do not determine them."""
        return None

    @property
    def weighed(self) -> tuple[Label, ...]:
        """Labels of the types whose weight may depend on covariates."""
        return ()

    def plainest(self) -> FittedNoise:
        """Return the simplest noise that is the same model."""
        return self

    @abstractmethod
    def draw(
        self, n_rows: int, scales: Sequence[float], alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        """Draw noise (n, k) with the given scales, in units of the outcome."""

    @property
    def margin(self) -> Shape:
        """The distribution of one alternative's noise."""
        return NORMAL

    @property
    def gaussian(self) -> bool:
        """Whether the noises of a row are jointly normal, with `standard_covariance`."""
        return False

    @property
    def family(self) -> Family | None:
        """The shapes among which that of the noise is estimated; None where it is known."""
        return None

    @property
    def each(self) -> bool:
        """Whether every alternative has a shape of its own."""
        return False

    @property
    def candidates(self) -> tuple[FittedNoise, ...]:
        """The noises among which the data chooses by BIC; empty where it is this one."""
        return ()

    @property
    def simpler(self) -> FittedNoise | None:
        """The noise whose estimates are reported where the data do not show all of this one."""
        return None

    def margins(self, extras: Array, n_alternatives: int) -> list[Shape]:
        """Return the distribution of each alternative's noise, given the noise's own parameters."""
        del extras
        return [self.margin] * n_alternatives

    def draw_standard(
        self, n_rows: int, extras: Array, h: Array, alternatives: Sequence[Label], rng: Generator
    ) -> Array:
        """Draw noises (n, n_noises) of a fitted model, in units of its scales 1 / h.

        What people share is no part of them: `Likelihood.draw` draws that.
        """
        normal = rng.standard_normal((n_rows, self.n_noises(len(alternatives))))
        return self.from_normal(normal, extras, h)

    def fewest_rows(self, n_alternatives: int) -> int:
        """Return how many rows its parameters need at least."""
        del n_alternatives
        return 0

    def softened(self, width: float) -> FittedNoise:
        """Return the noise with kinks of its shape rounded over a width; here it has none."""
        del width
        return self

    def known_correlation(self, alternatives: Sequence[Label]) -> Array | None:
        """Return the correlation (k, k) where it is known and not zero; else None."""
        del alternatives
        return None

    def standard_covariance(self, extras: Array, inverse_scales: Array) -> Array:
        """Return the covariance (k, k) of the noises, each in units of its own scale."""
        del extras
        return np.eye(len(inverse_scales))

    def points(self, n_alternatives: int) -> Points | None:
        """Return the points of its likelihood; None where that is in closed form."""
        del n_alternatives
        return None

    def with_points(self, number: int) -> Self:
        """Return the noise with that many points."""
        raise OptionError(f"The likelihood of {type(self).__name__} has no {number} points to set.")

    def simulated(self, n_alternatives: int) -> bool:
        """Say whether its likelihood is simulated."""
        del n_alternatives
        return False

    def compiled(self, n_alternatives: int, index: str) -> bool:
        """Say whether a compiled kernel evaluates its atoms: see `likelihoods.joint`.

        The index is ``"known"`` or ``"unknown"``.
        """
        del n_alternatives, index
        return False

    def possible(self, extras: Array) -> bool:
        """Say whether the compiled kernel can evaluate at these extras.

        Where noises are independent: whether there are shapes with these parameters.
        """
        del extras
        return True

    def narrowest(self, covariance: Array, extras: Array) -> float:
        """Return the spread of the narrowest direction, in units of the smallest scale."""
        del covariance, extras
        return 1.0

    def evaluate(
        self,
        a: Array,
        chosen: Indices,
        side: Sides,
        extras: Array,
        *,
        keys: Any,
        curvature: bool,
    ) -> JointTerms:
        """Evaluate atoms: see `kernels.joint.independent_atoms`.

        `extras` are as the kernel takes them, `keys` those of the rows where it is simulated.
        """
        del extras, keys
        return self.margin.atoms(a, chosen, side, curvature=curvature)

    def residuals(
        self,
        a: Array,
        chosen: Indices,
        side: Sides,
        gradient: Array,
        covariance: Array,
        extras: Array,
    ) -> Array:
        """Return the mean (n, k) of the noises given each atom, in units of their scales.

        For normal noise it is minus the gradient in the a, times the covariance.
        """
        del chosen, side, extras
        return -gradient[:, : a.shape[1]] @ covariance

    def hermite_means(
        self, a: Array, chosen: Indices, side: Sides, extras: Array, *, keys: Any
    ) -> Array:
        """Return means (5, n, k) of Hermite polynomials of the noises given each atom.

        Each noise is put on the scale of its normal scores: see `kernels.joint`. `extras` and
        `keys` are those of `evaluate`.
        """
        del keys
        observed = chosen[:, None] == np.arange(a.shape[1])
        return independent_means(self.normal_scores(a, extras), observed, side)

    def normal_scores(self, a: Array, extras: Array) -> Array:
        """Return noises (n, k), in units of their scales, on the scale of their normal scores."""
        shapes = self.margins(extras, a.shape[1])
        if len({id(shape) for shape in shapes}) == 1:
            return shapes[0].normal_scores(a)
        return np.column_stack([shape.normal_scores(a[:, j]) for j, shape in enumerate(shapes)])

    def n_noises(self, n_alternatives: int) -> int:
        """Return how many noises a row has; here one per alternative."""
        return n_alternatives

    def from_normal(self, z: Array, extras: Array, inverse_scales: Array) -> Array:
        """Make noises, in units of their scales, of independent standard normal numbers.

        Parameters
        ----------
        z : (n, n_noises) standard normal numbers.
        extras, inverse_scales : those of the fitted model, in internal units.
        """
        covariance = self.standard_covariance(extras, inverse_scales)
        # A correlation of one leaves no room for a Cholesky factor.
        values, axes = np.linalg.eigh(covariance)
        z = z @ (axes * np.sqrt(np.maximum(values, 0.0))).T
        shapes = self.margins(extras, z.shape[1])
        return np.column_stack([shape.from_normal(z[:, j]) for j, shape in enumerate(shapes)])

    def begins(self, free: NDArray[np.bool_], inverse_scales: Array) -> list[Begin]:
        """Return where searches begin, beside independent noise; `free` says which extras are."""
        del free, inverse_scales
        return []

    def boundary(
        self,
        alternatives: Sequence[Label],
        covariance: Array,
        extras: Array,
        *,
        known_scales: bool,
    ) -> str | None:
        """Return words for what is at its limit, after "At the boundary:"; None if nothing is."""
        del alternatives, covariance, extras, known_scales
        return None

    def degenerate(self, alternatives: Sequence[Label], extras: Array) -> str | None:
        """Say why a place is no estimate of the model however likely; None where it may be one."""
        del alternatives, extras
        return None

    def at_limit(self, extras: Array) -> Array | None:
        """Return the extras moved towards the limit they are close to; None where there is none."""
        del extras
        return None

    def arranged(self, extras: Array) -> Array:
        """Return the extras of the same noise in the order that is agreed on; here as given."""
        return extras

    def turned(self, extras: Array) -> bool:
        """Say whether the extras should change their sign, which the likelihood does not see."""
        del extras
        return False

    def contains(
        self, other: FittedNoise, alternatives: Sequence[Label], *, free_scales: bool
    ) -> bool:
        """Say whether another noise is this one with some of its parameters fixed.

        `free_scales` says whether every alternative has a scale of its own here.
        """
        if other.margin is not self.margin:
            return False
        narrow, wide = other.extras(alternatives), self.extras(alternatives)
        if not narrow:
            # Independent noise is any other without correlations.
            return all(extra.fixed in (None, 0.0) for extra in wide)
        if type(other) is not type(self):
            own = all(extra.fixed is None and extra.tied_to is None for extra in wide)
            return self.correlated and free_scales and own
        return all(
            theirs.fixed in (None, ours.fixed)
            and (
                theirs.tied_to is None or ours.tied_to is not None or ours.fixed == narrow[0].fixed
            )
            for ours, theirs in zip(narrow, wide, strict=True)
        )

    def why_no_score_test(self) -> str | None:
        """Say why independence cannot be tested by the score; None where it can."""
        return None
