"""What people share, drawn: a type or a shock for each, and outcomes of their rows given it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from selfselect.data.rows import Rows
from selfselect.likelihoods._components import TypesAt
from selfselect.likelihoods._costs import cost_values
from selfselect.likelihoods._drawing import latent_outcomes
from selfselect.likelihoods._shocks import ShocksAt

__all__ = ["draw_given_shared"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


def draw_given_shared(at: TypesAt | ShocksAt, noise: Array, rng: Generator) -> tuple[Array, Array]:
    """Return outcomes and estimated costs (n, k) of rows, in units of the outcome.

    Parameters
    ----------
    at : the types, or the shock, for a batch in which the rows of a person stand together.
    noise : (n, k) of the rows, in units of the scales.
    rng : draws what each person has.
    """
    inner = at.components.inner if isinstance(at, TypesAt) else at.shocks.inner
    latent, costs = np.empty(noise.shape), np.zeros(noise.shape)
    pieces = _by_type(at, rng) if isinstance(at, TypesAt) else _with_shocks(at, rng)
    for which, natural, rows in pieces:
        latent[which] = latent_outcomes(inner, natural, rows, noise[which])
        costs[which] = cost_values(inner, natural, rows)
    return latent, costs


def _by_type(at: TypesAt, rng: Generator) -> Iterator[tuple[Indices, Array, Rows]]:
    """Give every person a type; return the rows of each type, and its inner parameters."""
    rows = at.batch.rows
    sizes = _sizes(at)
    drawn = rng.uniform(size=(len(sizes), 1))
    # Rounding may leave the last sum below one.
    type_of = (drawn > np.cumsum(np.exp(at.log_prior), axis=1)[:, :-1]).sum(axis=1)
    by_row = np.repeat(type_of, sizes)
    for m in range(at.number):
        which = np.flatnonzero(by_row == m)
        yield which, at.inner(m), rows.take(which)


def _with_shocks(at: ShocksAt, rng: Generator) -> Iterator[tuple[Indices, Array, Rows]]:
    """Give every person a shock; return all rows with it as a covariate."""
    sizes = _sizes(at)
    rows = at.with_shock(rng.standard_normal(len(sizes))).rows
    yield np.arange(len(rows)), at.inner(0), rows


def _sizes(at: TypesAt | ShocksAt) -> Indices:
    n_rows = len(at.batch)
    if at.starts is None:
        return np.ones(n_rows, dtype=np.intp)
    return np.diff(np.append(at.starts, n_rows))
