"""Selected outcomes between limits, and sums of log Φ over rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from selfselect.kernels.compiled import extension
from selfselect.kernels.tails import HALF_LOG_TWO_PI, interval_terms, mills_terms

Array = NDArray[np.float64]


# Sums over rows of log masses of the normal, at arguments linear in the parameters.
#
# A row is beyond one end, of mass :math:`\Phi(a)` (`SignedRows`), or between two, of mass
# :math:`\Phi(a) - \Phi(b)` (`IntervalRows`). Both give the sum, its slope and minus its curvature
# in the direction that the arguments are linear in, and the same slope row by row.


@dataclass(frozen=True, eq=False)
class MillsSums:
    """Weighted sums over rows of a log mass that depends on parameters b (m,).

    Attributes
    ----------
    log_mass : of the log mass.
    pull : (m,) its slope in b.
    curvature : (m, m) minus its curvature; zeros where that was not wanted.
    """

    log_mass: float
    pull: Array
    curvature: Array


@dataclass(frozen=True, eq=False)
class SignedRows:
    """Rows v (m, n), one column each, with the sign of what was recorded, at arguments a = v'b.

    `weights` says how much each counts, and is None where every row counts once.
    """

    values: Array
    weights: Array | None

    def at(self, direction: Array, *, curved: bool = True) -> MillsSums:
        """Sum over the rows at arguments along `direction` (m,)."""
        native = extension()
        if native is None:
            return self.at_by_numpy(direction, curved=curved)
        size = len(self.values)
        pull, curvature = np.empty(size), np.zeros((size, size))
        log_mass = native.signed_rows(
            self.values, self.weights, direction, pull, curvature if curved else None
        )
        return MillsSums(log_mass, pull, curvature)

    def at_by_numpy(self, direction: Array, *, curved: bool = True) -> MillsSums:
        """Do the same by NumPy: the oracle of the compiled function."""
        mills = mills_terms(direction @ self.values)
        log_cdf, ratio, slope = mills.log_cdf, mills.ratio, mills.slope
        if self.weights is not None:
            log_cdf, ratio, slope = (self.weights * one for one in (log_cdf, ratio, slope))
        size = len(self.values)
        curvature = (self.values * slope) @ self.values.T if curved else np.zeros((size, size))
        return MillsSums(float(log_cdf.sum()), self.values @ ratio, curvature)

    def each(self, direction: Array) -> tuple[Array, Array]:
        """Return the log mass (n,) of every row, and its slope (m, n) in the direction."""
        mills = mills_terms(direction @ self.values)
        return mills.log_cdf, self.values * mills.ratio

    def moments(self, direction: Array) -> tuple[Array, Array]:
        """Return mean (n,) of normal noise that the rows show, and one less its variance.

        The mean has the sign of the rows.
        """
        mills = mills_terms(direction @ self.values)
        return mills.ratio, mills.slope


@dataclass(frozen=True, eq=False)
class IntervalRows:
    """Rows w (m - 2, n) between two ends: a = w'b + b_lower, b = w'b + b_upper, a > b.

    The direction b (m,) has the numbers of both ends behind the first `n_before` of the others.
    """

    values: Array
    weights: Array | None
    n_before: int

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """Where the entries of a direction stand if both ends come last."""
        n, m = self.n_before, len(self.values)
        return np.array([*range(n), m, m + 1, *range(n, m)], dtype=np.intp)

    def _ends(self, direction: Array) -> tuple[Array, Array]:
        n = self.n_before
        base = np.concatenate([direction[:n], direction[n + 2 :]]) @ self.values
        return base + direction[n], base + direction[n + 1]

    def at(self, direction: Array, *, curved: bool = True) -> MillsSums:
        """Sum over the rows at ends along `direction` (m,); -inf where ends change places."""
        size, n, m = len(direction), self.n_before, len(self.values)
        if not direction[n] > direction[n + 1]:
            return MillsSums(-np.inf, np.zeros(size), np.zeros((size, size)))
        a, b = self._ends(direction)
        terms = interval_terms(b, a)
        at_a, at_b, weights = terms.upper_density, terms.lower_density, self.weights
        # By the lower end, and by the upper one; the other entries move both.
        slopes = np.stack([at_a, -at_b])
        mean = at_a - at_b
        counted = slopes if weights is None else slopes * weights
        log_mass = terms.log_mass.sum() if weights is None else weights @ terms.log_mass
        pull = np.concatenate([self.values @ (counted[0] + counted[1]), counted.sum(axis=1)])
        curvature = np.zeros((size, size))
        if curved:
            bends = counted * (np.stack([a, b]) + mean)
            curvature[:m, :m] = (self.values * (bends[0] + bends[1])) @ self.values.T
            curvature[m:, :m] = bends @ self.values.T
            curvature[:m, m:] = curvature[m:, :m].T
            crossed = float(counted[0] @ at_b)
            curvature[m:, m:] = np.diag(bends.sum(axis=1)) + crossed * np.array([[1, -1], [-1, 1]])
            curvature = curvature[self._order[:, None], self._order]
        return MillsSums(float(log_mass), pull[self._order], curvature)

    def each(self, direction: Array) -> tuple[Array, Array]:
        """Return the log mass (n,) of every row, and its slope (m, n) in the direction."""
        a, b = self._ends(direction)
        terms = interval_terms(b, a)
        mean = terms.upper_density - terms.lower_density
        ends = np.vstack([terms.upper_density, -terms.lower_density])
        return terms.log_mass, np.insert(self.values * mean, [self.n_before] * 2, ends, axis=0)

    def moments(self, direction: Array) -> tuple[Array, Array]:
        """Return mean (n,) of normal noise that the rows show, and one less its variance."""
        a, b = self._ends(direction)
        terms = interval_terms(b, a)
        mean = terms.upper_density - terms.lower_density
        return mean, terms.upper_density * (a + mean) - terms.lower_density * (b + mean)


# Outcomes known to lie between two limits, in rows that a selection index selects.
#
# With :math:`e = h y - \xi` and u standard normal of correlation :math:`\rho = \tanh t`, a row
# adds
#
# .. math:: \log\int_{y_1}^{y_2} h\,\phi(e)\,[\Phi(A) - \Phi(B)]\,dy, \qquad
#    A = a \cosh t + e \sinh t, \quad B = b \cosh t + e \sinh t,
#
# the probability of a rectangle: y between its limits, and :math:`-a < u \le -b`. The integrand is
# log-concave. Gauss-Legendre nodes lie on panels around its mode, and around the places where A
# and B change sign: there Φ is a step where the correlation is nearly one. With the nodes given, a
# row is a sum of outcomes that were observed exactly. So all derivatives are means, and narrow
# intervals lose no digits: no two probabilities are subtracted.

Indices = NDArray[np.intp]

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(10)

NARROW = 0.25
"""Width of an interval, in units of what the integrand varies over, that takes one panel."""
REACH = 9.0
"""Distance from the mode at which the integrand is below 1e-17 of it: its logarithm is curved by
one and more."""
FALL = 38.0
"""Fall of the integrand's logarithm beyond which the rest is nothing."""
RINGS = 5
"""Panels on either side of the mode, each longer than the one before it."""
STEPS = np.array([-8.0, -3.0, 0.0, 3.0, 8.0])
"""Values of A and B at which panels end."""
HALVINGS = 14
"""Halvings of the interval that holds the mode, where the correlation is zero. One nearer to one
makes Φ steeper, and takes as many more as it takes to find the mode in units of the step."""
BLOCK = 1_024
"""Rows whose nodes are held at once."""


@dataclass(frozen=True, eq=False)
class SelectedIntervalTerms:
    """Log-probabilities, with derivatives in ξ, h, a, b and t, and the mean of e given the row.

    `slope` is (5, n) and `curvature` (5, 5, n); derivatives in an end that is None are zero.
    """

    log_mass: Array
    slope: Array
    curvature: Array
    noise: Array


def selected_interval_terms(
    low: Array, high: Array, mean: Array, h: float, a: Array | None, b: Array | None, t: float
) -> SelectedIntervalTerms:
    """Evaluate rows (n,).

    Parameters
    ----------
    low, high : limits of the outcome; infinite where there is none.
    mean : ξ.
    h : inverse scale.
    a, b : what -u lies below, and not below; None where there is no such end.
    t : Fisher's transform of the correlation.
    """
    n_rows = len(low)
    found = SelectedIntervalTerms(
        np.empty(n_rows), np.empty((5, n_rows)), np.empty((5, 5, n_rows)), np.empty(n_rows)
    )
    for start in range(0, n_rows, BLOCK):
        at = slice(start, start + BLOCK)
        ends = [None if one is None else one[at] for one in (a, b)]
        part = _evaluate(low[at], high[at], mean[at], h, ends[0], ends[1], t)
        found.log_mass[at], found.noise[at] = part.log_mass, part.noise
        found.slope[:, at], found.curvature[:, :, at] = part.slope, part.curvature
    return found


def _evaluate(
    low: Array, high: Array, mean: Array, h: float, a: Array | None, b: Array | None, t: float
) -> SelectedIntervalTerms:
    which, e, log_weight = _nodes(low, high, mean, h, a, b, t)
    ends = [None if one is None else one[which] for one in (a, b)]
    y = (e + mean[which]) / h
    starts = np.flatnonzero(np.diff(which, prepend=-1))

    def sums(values: Array) -> Array:
        return np.asarray(np.add.reduceat(values, starts, axis=-1))

    mass = _Mass.at(e, ends[0], ends[1], t)
    value = log_weight - 0.5 * e * e - HALF_LOG_TWO_PI + mass.log
    top = np.maximum.reduceat(value, starts)
    share = np.exp(value - top[which])
    total = sums(share)
    share /= total[which]
    # Derivatives of an outcome that was observed exactly, in e and in each end and t.
    by_e, own = mass.slope[0] - e, mass.curvature
    own[0, 0] -= 1.0
    slope = np.stack([-by_e, y * by_e + 1.0 / h, *mass.slope[1:]])
    weighted = share * slope
    mean_slope, spread = np.zeros((5, len(total))), np.zeros((5, 5, len(total)))
    used = [0, 1, *(place for place, one in ((2, a), (3, b)) if one is not None), 4]
    # What e is multiplied by in ξ and h; the others stand for themselves.
    factor = (np.full(len(e), -1.0), y, None, None, None)
    for i in used:
        mean_slope[i] = sums(weighted[i])
    for place, i in enumerate(used):
        for j in used[place:]:
            second = own[max(i - 1, 0), max(j - 1, 0)]
            for one in (factor[i], factor[j]):
                second = second if one is None else second * one
            found = sums(share * second + weighted[i] * slope[j]) - mean_slope[i] * mean_slope[j]
            spread[i, j] = spread[j, i] = found
    spread[1, 1] -= 1.0 / h**2
    return SelectedIntervalTerms(top + np.log(total), mean_slope, spread, sums(share * e))


@dataclass(frozen=True, eq=False)
class _Mass:
    """log[Φ(A) - Φ(B)] at nodes, with derivatives (4, n) and (4, 4, n) in e, a, b and t."""

    log: Array
    slope: Array
    curvature: Array

    @classmethod
    def at(cls, e: Array, a: Array | None, b: Array | None, t: float) -> _Mass:
        c, s = math.cosh(t), math.sinh(t)
        nothing = np.zeros(len(e))
        ends = [nothing if one is None else one * c + e * s for one in (a, b)]
        turned = [nothing if one is None else one * s + e * c for one in (a, b)]
        log, pull, second = _mass(ends[0], ends[1], a is not None, b is not None)
        slope, curvature = np.zeros((4, len(e))), np.zeros((4, 4, len(e)))
        for i, end in enumerate((a, b)):
            if end is None:
                continue
            # A and B move by s with e, by c with their own end, and are turned by t.
            mine = 1 + i
            both = s * (second[i][0] + second[i][1])
            by_t = second[i][0] * turned[0] + second[i][1] * turned[1]
            slope[0] += s * pull[i]
            slope[mine] = c * pull[i]
            slope[3] += pull[i] * turned[i]
            curvature[0, 0] += s * both
            curvature[0, mine] = c * both
            curvature[mine, mine] = c * c * second[i][i]
            curvature[0, 3] += s * by_t + c * pull[i]
            curvature[mine, 3] = c * by_t + s * pull[i]
            curvature[3, 3] += turned[i] * by_t + pull[i] * ends[i]
        curvature[1, 2] = c * c * second[0][1]
        return cls(log, slope, curvature)


def _mass(
    upper: Array, lower: Array, has_upper: bool, has_lower: bool
) -> tuple[Array, tuple[Array, Array], tuple[tuple[Array, Array], tuple[Array, Array]]]:
    """Return log[Φ(A) - Φ(B)] with first and second derivatives in A and B."""
    nothing = np.zeros(len(upper))
    if not has_lower:
        one = mills_terms(upper)
        return one.log_cdf, (one.ratio, nothing), ((-one.slope, nothing), (nothing, nothing))
    if not has_upper:
        one = mills_terms(-lower)
        return one.log_cdf, (nothing, -one.ratio), ((nothing, nothing), (nothing, -one.slope))
    both = interval_terms(lower, upper)
    up, down = both.upper_density, both.lower_density
    crossed = up * down
    return (
        both.log_mass,
        (up, -down),
        ((-up * (upper + up), crossed), (crossed, down * (lower - down))),
    )


def _slope_in_noise(e: Array, a: Array | None, b: Array | None, t: float) -> tuple[Array, Array]:
    """Return the first derivative of the integrand's logarithm in e, and minus the second."""
    c, s = math.cosh(t), math.sinh(t)
    nothing = np.zeros(len(e))
    ends = [nothing if one is None else one * c + e * s for one in (a, b)]
    _, pull, second = _mass(ends[0], ends[1], a is not None, b is not None)
    curved = second[0][0] + second[1][1] + 2.0 * second[0][1]
    return s * (pull[0] + pull[1]) - e, 1.0 - s * s * curved


def _nodes(
    low: Array, high: Array, mean: Array, h: float, a: Array | None, b: Array | None, t: float
) -> tuple[Indices, Array, Array]:
    """Return nodes in e: the row of each, in order, where it lies, and the log of its weight."""
    first, last = h * low - mean, h * high - mean
    beyond = np.zeros(len(low))
    if a is not None:
        beyond = np.maximum(beyond, -a)
    if b is not None:
        beyond = np.maximum(beyond, b)
    left, right = -(beyond + 3.0), beyond + 3.0
    for _ in range(HALVINGS + math.ceil(math.log2(math.cosh(t)))):
        middle = 0.5 * (left + right)
        rising = _slope_in_noise(middle, a, b, t)[0] > 0
        left, right = np.where(rising, middle, left), np.where(rising, right, middle)
    mode = np.clip(0.5 * (left + right), first, last)
    slope, curved = _slope_in_noise(mode, a, b, t)
    scale = 1.0 / np.maximum(np.sqrt(np.maximum(curved, 1.0)), np.abs(slope))
    width = h * (high - low)
    short = width < NARROW * np.minimum(scale, 1.0 / math.cosh(t))
    pieces = [_panel(np.flatnonzero(short), first[short], width[short])]
    whole = np.flatnonzero(~short)
    if len(whole):
        borders = _borders(
            first[whole], last[whole], mode[whole], scale[whole], np.abs(slope[whole]),
            [one[whole] for one in (a, b) if one is not None], t,
        )  # fmt: skip
        sizes = np.diff(borders, axis=1)
        row, panel = np.nonzero(sizes > 0)
        pieces.append(_panel(whole[row], borders[row, panel], sizes[row, panel]))
    which, e, log_weight = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    order = np.argsort(which, kind="stable")
    return which[order], e[order], log_weight[order]


def _borders(
    first: Array,
    last: Array,
    mode: Array,
    scale: Array,
    steep: Array,
    ends: list[Array],
    t: float,
) -> Array:
    """Return where the panels of rows begin and end, (n, m) in ascending order."""
    reach = REACH / np.maximum(1.0, steep * (REACH / FALL))
    # From the scale at the mode to the end of the reach, by equal factors.
    rings = scale[:, None] * (reach / scale)[:, None] ** (np.arange(RINGS + 1) / RINGS)
    borders = [mode[:, None], mode[:, None] - rings, mode[:, None] + rings]
    s, c = math.sinh(t), math.cosh(t)
    if abs(s) > 1e-3:
        borders += [(STEPS - one[:, None] * c) / s for one in ends]
    joined = np.hstack(borders)
    from_, to = np.maximum(first, mode - reach), np.minimum(last, mode + reach)
    joined = np.clip(joined, from_[:, None], to[:, None])
    joined.sort(axis=1)
    return joined


def _panel(which: Indices, start: Array, size: Array) -> tuple[Indices, Array, Array]:
    """Return the nodes of panels: their row, where they lie, and the log of their weight."""
    e = start[:, None] + 0.5 * size[:, None] * (1.0 + NODES)
    weight = 0.5 * size[:, None] * NODE_WEIGHTS
    return np.repeat(which, len(NODES)), e.reshape(-1), np.log(weight).reshape(-1)
