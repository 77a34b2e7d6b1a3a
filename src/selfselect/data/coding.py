"""Codings: how a table becomes `Rows`, learnt from the fitted rows and frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.checks import check_availability, check_numbers
from selfselect.data.equations import INTERCEPT, Equations
from selfselect.data.formulas import Coder
from selfselect.data.rows import Rows
from selfselect.data.tables import to_frame
from selfselect.errors import DataError
from selfselect.rules._labels import by_alternative
from selfselect.rules.base import Label, RowData

__all__ = ["ArrayCoding", "Coding", "FormulaCoding", "KnownColumns"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class KnownColumns:
    """Where the known costs and the availability of each alternative are found.

    Attributes
    ----------
    costs : per alternative a number, the name of a column, or None.
    available : per alternative the name of a column, or None where it is always available.
    """

    costs: tuple[float | str | None, ...]
    available: tuple[str | None, ...]

    @classmethod
    def resolve(
        cls,
        cost: Mapping[Any, Any] | None,
        available: Mapping[Any, Any] | None,
        alternatives: Sequence[Label],
    ) -> KnownColumns:
        """Put what the user gave by label in the order of the alternatives."""
        costs = by_alternative(cost or {}, alternatives, what="cost")
        open_to = by_alternative(available or {}, alternatives, what="column of availability")
        return cls(
            tuple(costs.get(label) for label in alternatives),
            tuple(open_to.get(label) for label in alternatives),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The data columns that are needed."""
        named = [entry for entry in (*self.costs, *self.available) if isinstance(entry, str)]
        return tuple(dict.fromkeys(named))

    def read(self, frame: pd.DataFrame) -> RowData:
        """Read costs and availability of the rows of `frame`."""
        costs: Array | None = None
        if any(entry is not None for entry in self.costs):
            costs = np.zeros((len(frame), len(self.costs)))
            for j, entry in enumerate(self.costs):
                if isinstance(entry, str):
                    costs[:, j] = check_numbers(frame[entry], f"The cost column {entry!r}")
                elif entry is not None:
                    costs[:, j] = entry
        available: Mask | None = None
        if any(entry is not None for entry in self.available):
            available = np.ones((len(frame), len(self.available)), dtype=bool)
            for j, column in enumerate(self.available):
                if column is not None:
                    available[:, j] = check_availability(frame[column], column)
        return RowData(costs, available)


class Coding(Protocol):
    """Anything that codes new rows as those of the fit were coded."""

    @property
    def equations(self) -> Equations:
        """Names and positions of all terms."""

    @property
    def known(self) -> KnownColumns:
        """Where costs and availability are found."""

    def code(self, data: Any, *, with_known: bool) -> CodedRows:
        """Code rows to predict; `with_known` says whether costs and availability are needed."""


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows to predict, with the caller's index and which of them are complete.

    Attributes
    ----------
    rows : the complete rows.
    index : labels of all rows, complete or not.
    complete : (n,) which rows have no missing covariate.
    """

    rows: Rows
    index: pd.Index[Any]
    complete: Mask


@dataclass(frozen=True, eq=False)
class FormulaCoding:
    """A coding learnt from formulas.

    Attributes
    ----------
    equations : names and positions of all terms.
    coders : one per distinct right side of the formulas.
    coder_of : per alternative, which coder its equation uses.
    known : where costs and availability are found.
    """

    equations: Equations
    coders: tuple[Coder, ...]
    coder_of: tuple[int, ...]
    known: KnownColumns
    columns: tuple[str, ...]

    def covariates(self, matrices: Sequence[Array]) -> Array:
        """Join the coded right sides into one matrix of all covariates."""
        found: dict[str, Array] = {}
        for coder, matrix in zip(self.coders, matrices, strict=True):
            for position, name in enumerate(coder.names):
                if name != INTERCEPT:
                    found.setdefault(name, matrix[:, position])
        if not found:
            return np.empty((matrices[0].shape[0], 0))
        return np.column_stack([found[name] for name in self.equations.covariates])

    def code(self, data: Any, *, with_known: bool) -> CodedRows:
        needed = (*self.columns, *(self.known.columns if with_known else ()))
        frame = to_frame(data, needed)
        complete = ~frame[list(self.columns)].isna().any(axis=1).to_numpy()
        kept = frame[complete]
        matrices = [coder.code(kept) for coder in self.coders]
        covariates = self.covariates(matrices)
        if not np.isfinite(covariates).all():
            bad = self.equations.covariates[
                int(np.flatnonzero(~np.isfinite(covariates).all(axis=0))[0])
            ]
            raise DataError(f"The term {bad!r} is infinite or not a number in the new rows.")
        known = self.known.read(kept) if with_known else RowData()
        return CodedRows(Rows(covariates, known=known), frame.index, complete)


@dataclass(frozen=True, eq=False)
class ArrayCoding:
    """The coding of plain arrays: columns are covariates, in order."""

    equations: Equations
    known: KnownColumns

    def code(self, data: Any, *, with_known: bool) -> CodedRows:
        del with_known
        names = self.equations.covariates
        if not isinstance(data, np.ndarray):
            data = to_frame(data, names).to_numpy(dtype=np.float64)
        values = np.asarray(data, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(names):
            raise DataError(
                f"The new rows have shape {values.shape}; the fit had {len(names)} covariates, "
                f"so (rows, {len(names)}) is expected."
            )
        complete = np.asarray(~np.isnan(values).any(axis=1))
        rows = Rows(np.ascontiguousarray(values[complete]) if not complete.all() else values)
        return CodedRows(rows, pd.RangeIndex(len(values)), complete)
