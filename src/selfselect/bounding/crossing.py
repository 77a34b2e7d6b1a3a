"""Tests of the rule: bounds of several values of an instrument that contradict each other.

Where an instrument has no part in an outcome, its distribution is the same at every value of the
instrument, so a lower bound at one value may not exceed an upper bound at another. Crossing bounds
reject rule and exclusion together, whatever the noise. Where the instrument has no part in any
outcome nor in costs, outcome and choice may not depend on it at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from selfselect.bounding.cells import Group
from selfselect.bounding.confidence import REACH
from selfselect.bounding.sums import Counted, Grids
from selfselect.inference.statistics import TestResult, impossible_test
from selfselect.kernels.special import chdtrc, erfc, ndtri

__all__ = ["crossing_test", "same_choices_test"]

Array = NDArray[np.float64]

RULE, CHOICES = "Test of the rule", "Test that outcome and choice do not depend on the instrument"

FEWEST_EXPECTED = 5.0
"""Rows that are expected of a combination of outcome and choice for chi-square to hold."""


def crossing_test(
    counted: Counted, groups: Sequence[Group], grids: Grids, excluded: Sequence[int]
) -> TestResult:
    """Test that no lower bound lies above an upper one of another value of the instrument.

    The statistic is the largest crossing in units of its standard error. The p-value is that of
    the inequalities that may hold with equality, each counted (Bonferroni): it is too large rather
    than too small.

    Parameters
    ----------
    counted, groups, grids : distributions by value of the instrument.
    excluded : the outcomes in which the instrument has no part.
    """
    found = []
    for group in groups:
        cells = np.array(group.cells)
        if len(cells) < 2:
            continue
        for target in excluded:
            at = np.searchsorted(grids.values[target], grids.points[target])
            least, least_error = _shares(counted, target, 1, cells, at)
            most, most_error = _shares(counted, target, 0, cells, at)
            crossing = least[:, None, :] - most[None, :, :]
            if np.isinf(counted.df):
                error = np.hypot(least_error[:, None, :], most_error[None, :, :])
            else:
                # Rows of a cluster may be at several values of the instrument.
                error = least_error[:, None, :] + most_error[None, :, :]
            other = ~np.eye(len(cells), dtype=bool)
            found.append((crossing / error)[other].ravel())
    if not found:
        return impossible_test(RULE, "the instrument has one value with rows enough")
    every = np.concatenate(found)
    rows = float(counted.weight.sum())
    near = ndtri(1.0 - REACH / np.log(max(rows, 3.0)) / len(every))
    # Where all are far from equality the largest alone counts, and rejects nothing.
    binding = max(1, int((every > -near).sum()))
    statistic = float(every.max())
    p_value = min(1.0, binding * 0.5 * float(erfc(statistic / np.sqrt(2.0))))
    return TestResult(
        RULE,
        "the rule holds, and the instrument does not affect the outcomes it is excluded from",
        statistic,
        binding,
        p_value,
        law="largest crossing of bounds in standard errors",
    )


def _shares(
    counted: Counted, target: int, end: int, cells: NDArray[np.intp], at: NDArray[np.intp]
) -> tuple[Array, Array]:
    """Return distributions (cells, points) and their errors, which are positive everywhere."""
    share = counted.below[target, end][np.ix_(cells, at)] / counted.weight[cells, None]
    rows = counted.effective[target, end][cells, None]
    # Agresti and Coull: two rows more on either side.
    moved = (share * rows + 2.0) / (rows + 4.0)
    return share, np.sqrt(moved * (1.0 - moved) / rows)


def same_choices_test(counted: Counted, groups: Sequence[Group]) -> TestResult:
    """Test, by Pearson's chi-square, that (outcome, choice) does not depend on the instrument.

    Outcomes are compared in four parts of their range. With clusters or probability weights rows
    count as the independent rows that would tell as much.
    """
    statistic, df = 0.0, 0
    rows = counted.effective.min(axis=(0, 1))
    for group in groups:
        cells = np.array(group.cells)
        share = counted.choices[cells] / counted.weight[cells, None]
        count = rows[cells]
        pooled = count @ share / count.sum()
        enough = pooled * count.min() >= FEWEST_EXPECTED
        rest = share[:, ~enough].sum(axis=1, keepdims=True)
        share = np.hstack([share[:, enough], rest])
        pooled = count @ share / count.sum()
        kept = pooled > 0.0
        share, pooled = share[:, kept], pooled[kept]
        if len(cells) > 1 and len(pooled) > 1:
            statistic += float((count[:, None] * (share - pooled) ** 2 / pooled).sum())
            df += (len(cells) - 1) * (len(pooled) - 1)
    if not df:
        return impossible_test(CHOICES, "too few rows are in each value of the instrument")
    return TestResult(
        CHOICES,
        "the rule holds, and the instrument affects no outcome and no cost",
        statistic,
        df,
        float(chdtrc(df, statistic)),
    )
