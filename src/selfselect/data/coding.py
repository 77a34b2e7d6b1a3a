"""How rows are coded: frozen, so that new rows are coded as the old."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.data.coder import Coder
from selfselect.data.columns import (
    check_availability,
    check_numbers,
    find_kind,
    first_rows,
    to_numbers,
)
from selfselect.data.equations import INTERCEPT, Equations
from selfselect.data.missing import find_any_absent
from selfselect.data.rows import Rows
from selfselect.data.tables import column_names, to_frame
from selfselect.errors import DataError, FormulaError, OptionError
from selfselect.rules.base import Label, RowData, by_alternative

Array = NDArray[np.float64]


# First stages of endogenous covariates: least squares on instruments and all that is exogenous.


def residual_name(column: str) -> str:
    """Return the name of the residual of an endogenous covariate."""
    return f"{column}_residual"


@dataclass(frozen=True, eq=False)
class FirstStage:
    """The regression of one endogenous covariate.

    Attributes
    ----------
    column : the endogenous covariate.
    coder : of the right side.
    coefficients : (q,) in the order of the coder's names.
    instruments : names of the coder's that no outcome has.
    statistic : F of the test that these are all zero.
    df_residual : its degrees of freedom below the line.
    two_values : whether the column holds two values alone, so that no residual of it is normal.
    """

    column: str
    coder: Coder
    coefficients: Array
    instruments: tuple[str, ...]
    statistic: float
    df_residual: float
    two_values: bool = False

    def with_residual(self, data: Any) -> pd.DataFrame:
        """Return a table with the residuals of its rows in a column of their own."""
        columns = dict.fromkeys([*self.coder.kinds, self.column])
        frame = to_frame(data, (*columns, *column_names(data)))
        known = frame[list(columns)].notna().all(axis=1).to_numpy()
        values = np.full(len(frame), np.nan)
        own = frame[known]
        x = to_numbers(own[self.column], f"The endogenous covariate {self.column!r}")
        values[known] = x - self.coder.code(own) @ self.coefficients
        return frame.assign(**{residual_name(self.column): values})


@dataclass(frozen=True, eq=False)
class CarriedStages:
    """How the rows of a fit move it through its first stages.

    Attributes
    ----------
    places : (e,) columns of the residuals among the covariates.
    w : (n, q) the right side of all first stages.
    influence : (n, e q) what each row, by its weight, does to their coefficients.
    reach : (m, e q) derivatives of the reported estimates in these.
    """

    places: tuple[int, ...]
    w: Array
    influence: Array
    reach: Array


def fit_first_stages(
    coder: Coder,
    w: Array,
    each: dict[str, Array],
    instruments: tuple[str, ...],
    weights: Array,
    *,
    repeated: bool,
) -> tuple[FirstStage, ...]:
    """Regress every endogenous covariate on all of w (n, q).

    `repeated` says whether a row stands for as many as its weight says.
    """
    excluded = np.array([name in instruments for name in coder.names])
    root = np.sqrt(weights)
    weighed = w * root[:, None]
    lengths = np.sqrt((weighed**2).sum(axis=0))
    if (lengths == 0).any() or np.linalg.cond(weighed / np.where(lengths > 0, lengths, 1.0)) > 1e10:
        raise DataError(
            "Instruments and exogenous covariates repeat each other, so the first stage of "
            f"{', '.join(map(repr, each))} is not determined. Leave out what is repeated."
        )
    free = float(weights.sum() if repeated else (weights > 0).sum()) - len(coder.names)
    found = []
    for column, x in each.items():
        y = x * root
        coefficients = np.asarray(np.linalg.lstsq(weighed, y, rcond=None)[0], dtype=np.float64)
        left = float(((y - weighed @ coefficients) ** 2).sum())
        short = weighed[:, ~excluded]
        without = y - short @ np.linalg.lstsq(short, y, rcond=None)[0]
        if not left > 1e-12 * float((y**2).sum()):
            raise DataError(
                f"The first stage explains {column!r} exactly, so nothing of it is endogenous. "
                "Leave it out of `endogenous`, or correct the instruments."
            )
        gain = max(float((without**2).sum()) - left, 0.0) / excluded.sum()
        statistic = float(gain / (left / free))
        two_values = len(np.unique(x[weights > 0])) == 2
        found.append(
            FirstStage(column, coder, coefficients, instruments, statistic, free, two_values)
        )
    return tuple(found)


# Codings: how a table becomes `Rows`, learnt from the fitted rows and frozen.

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
        check_known(cost, available)
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
            nothing = np.asarray(~available.any(axis=1))
            if nothing.any():
                raise DataError(
                    f"No alternative is available in {nothing.sum()} rows "
                    f"({first_rows(nothing, frame.index)}), so nothing could be chosen there. "
                    "Correct `available` or leave those rows out."
                )
        return RowData(costs, available)

    def repeat(self, n_rows: int) -> RowData:
        """Return costs that are numbers for `n_rows` rows that have no columns."""
        if not any((*self.costs, *self.available)):
            return RowData()
        return self.read(pd.DataFrame(index=range(n_rows)))


def check_known(cost: Any, available: Any) -> None:
    """Refuse costs and availability that are not given by alternative, or not as they should."""
    for name, given, example in (
        ("cost", cost, "{'fishing': 'boat_rent'} or {'fishing': 2.5}"),
        ("available", available, "{'fishing': 'near_water'}"),
    ):
        if given is not None and not isinstance(given, Mapping):
            raise OptionError(f"`{name}` must be given by alternative, as in {name}={example}.")
        for label, entry in (given or {}).items():
            # True is a number to Python, and no amount.
            number = isinstance(entry, int | float | np.number) and not isinstance(entry, bool)
            number = number and np.isfinite(entry)
            if not isinstance(entry, str) and not (name == "cost" and number):
                raise OptionError(
                    f"{name}[{label!r}] is {entry!r}. Give the name of a column"
                    f"{' or a finite number' if name == 'cost' else ''}, as in {name}={example}."
                )


class Coding(Protocol):
    """Anything that codes new rows as those of the fit were coded."""

    @property
    def equations(self) -> Equations:
        """Names and positions of all terms."""

    @property
    def known(self) -> KnownColumns:
        """Where costs and availability are found."""

    def code(
        self, data: Any, *, with_known: bool, with_outcome: bool = False, needed: str = "all"
    ) -> CodedRows:
        """Code new rows.

        `with_known` says whether costs and availability are needed, `with_outcome` whether the
        outcome is. `needed` are "all" equations; of a coding with a selection equation, also the
        "outcomes" or the "selection" alone.
        """


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
class OutcomeCoder:
    """The left side of the formulas: a column as it is, or an expression that is learnt.

    Attributes
    ----------
    text : the left side.
    columns : the data columns it needs.
    coder : None where it is a column.
    """

    text: str
    columns: tuple[str, ...]
    coder: Coder | None

    @classmethod
    def learn(
        cls, text: str, columns: tuple[str, ...], frame: pd.DataFrame
    ) -> tuple[OutcomeCoder, Array]:
        """Learn how the outcome is coded, and code it; nan where it was not recorded."""
        lacking = find_any_absent(frame, columns)
        if lacking is not None:
            # Learnt from the rows that have an outcome; it is missing in the others.
            learnt, values = cls.learn(text, columns, frame[~lacking])
            outcome = np.full(len(frame), np.nan)
            outcome[~lacking] = values
            return learnt, outcome
        for name in columns:
            if find_kind(frame[name], name) != "number":
                to_numbers(frame[name], f"The outcome column {name!r}")
        if text in frame:
            plain = cls(text, columns, None)
            return plain, plain.code(frame)
        coder, matrix = Coder.learn(f"{text} - 1", frame)
        if matrix.shape[1] != 1:
            raise FormulaError(
                f"The outcome {text!r} makes {matrix.shape[1]} columns. Give a numeric one."
            )
        return cls(text, columns, coder), _finite(matrix[:, 0], text, frame.index)

    def code_recorded(self, frame: pd.DataFrame) -> Array:
        """Code the outcome (n,) of rows; nan where it was not recorded."""
        lacking = find_any_absent(frame, self.columns)
        if lacking is None and len(frame):
            return self.code(frame)
        outcome = np.full(len(frame), np.nan)
        if lacking is not None and not lacking.all():
            outcome[~lacking] = self.code(frame[~lacking])
        return outcome

    def code(self, frame: pd.DataFrame) -> Array:
        """Code the outcome (n,) of rows that have one."""
        if self.coder is None:
            return check_numbers(frame[self.text], f"The outcome {self.text!r}")
        return _finite(self.coder.code(frame)[:, 0], self.text, frame.index)


def _finite(outcome: Array, text: str, labels: pd.Index[Any]) -> Array:
    """Refuse a recorded outcome of which the left side makes no number: it is not missing."""
    odd = ~np.isfinite(outcome)
    if odd.any():
        raise DataError(
            f"The outcome {text!r} is infinite or not a number in {odd.sum()} rows "
            f"({first_rows(odd, labels)}): there the formula makes no number of the recorded one, "
            "as the logarithm of zero. Correct these rows, or use another transform, such as "
            "np.log1p; leaving them out would select on the outcome."
        )
    return np.ascontiguousarray(outcome)


@dataclass(frozen=True, eq=False)
class FormulaCoding:
    """A coding learnt from formulas.

    Attributes
    ----------
    equations : names and positions of all terms.
    coders : one per distinct right side of the formulas.
    coder_of : per alternative, which coder its equation uses.
    known : where costs and availability are found.
    columns : the data columns that the right sides of the formulas need.
    outcome : how the left side is coded.
    """

    equations: Equations
    coders: tuple[Coder, ...]
    coder_of: tuple[int, ...]
    known: KnownColumns
    columns: tuple[str, ...]
    outcome: OutcomeCoder

    def covariates(self, matrices: Sequence[Array]) -> Array:
        """Join the coded right sides into one matrix of all covariates, its columns in a row.

        One right side is that matrix, but for its constant: it is not copied.
        """
        if len(matrices) == 1 and self.coders[0].names == (INTERCEPT, *self.equations.covariates):
            return matrices[0][:, 1:]
        found: dict[str, Array] = {}
        for coder, matrix in zip(self.coders, matrices, strict=True):
            for position, name in enumerate(coder.names):
                if name != INTERCEPT:
                    found.setdefault(name, matrix[:, position])
        if not found:
            return np.empty((matrices[0].shape[0], 0))
        return np.stack([found[name] for name in self.equations.covariates]).T

    def columns_for(self, needed: str) -> tuple[str, ...]:
        """Return the data columns of the right sides that are needed: here of all."""
        del needed
        return self.columns

    def covariates_for(self, needed: str) -> Any:
        """Return the positions of the covariates that are needed: here of all."""
        del needed
        return slice(None)

    def read_covariates(self, frame: pd.DataFrame, needed: str = "all") -> Array:
        """Code the right sides of other rows into one matrix of all covariates."""
        del needed
        found: dict[str, NDArray[Any]] = {}
        for coder in self.coders:
            found = {**coder.terms(frame), **found}
        made = np.empty((len(self.equations.covariates), len(frame)))
        for place, name in enumerate(self.equations.covariates):
            made[place] = found[name]
        return made.T

    def code(
        self, data: Any, *, with_known: bool, with_outcome: bool = False, needed: str = "all"
    ) -> CodedRows:
        columns = dict.fromkeys(
            (
                *self.columns_for(needed),
                *(self.outcome.columns if with_outcome else ()),
                *(self.known.columns if with_known else ()),
            )
        )
        frame = to_frame(data, columns)
        lacking = find_any_absent(frame, columns)
        complete = np.ones(len(frame), dtype=bool) if lacking is None else ~lacking
        kept = frame if lacking is None else frame[complete]
        covariates, used = self.read_covariates(kept, needed), self.covariates_for(needed)
        finite = np.isfinite(covariates[:, used]).all(axis=0)
        if not finite.all():
            bad = np.array(self.equations.covariates)[used][~finite][0]
            raise DataError(f"The term {str(bad)!r} is infinite or not a number in the new rows.")
        known = self.known.read(kept) if with_known else RowData()
        outcome = self.outcome.code(kept) if with_outcome else None
        return CodedRows(Rows(covariates, outcome=outcome, known=known), frame.index, complete)


@dataclass(frozen=True, eq=False)
class ArrayCoding:
    """The coding of plain arrays: columns are covariates, in order."""

    equations: Equations
    known: KnownColumns

    def code(
        self, data: Any, *, with_known: bool, with_outcome: bool = False, needed: str = "all"
    ) -> CodedRows:
        del with_known, needed
        if with_outcome:
            raise OptionError(
                "A fit of plain arrays does not know where new outcomes are. Fit a table by "
                "formula to use new rows with their outcome."
            )
        names = self.equations.covariates
        if not isinstance(data, np.ndarray):
            frame = to_frame(data, names)
            data = np.column_stack(
                [to_numbers(frame[name], f"The column {name!r}") for name in names]
            )
        values = np.asarray(data, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(names):
            raise DataError(
                f"The new rows have shape {values.shape}; the fit had {len(names)} covariates, "
                f"so (rows, {len(names)}) is expected."
            )
        complete = np.asarray(~np.isnan(values).any(axis=1))
        kept = values if complete.all() else np.ascontiguousarray(values[complete])
        rows = Rows(kept, known=self.known.repeat(len(kept)))
        return CodedRows(rows, pd.RangeIndex(len(values)), complete)
