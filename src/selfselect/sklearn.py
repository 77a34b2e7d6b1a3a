"""The scikit-learn door: `SelfSelectionRegressor` works in pipelines, searches and clones."""

from __future__ import annotations

from datetime import date, timedelta
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from selfselect.errors import DataError, MissingDependencyError, OptionError

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import (
        _check_sample_weight,
        assert_all_finite,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:
    raise MissingDependencyError(
        "SelfSelectionRegressor needs scikit-learn: pip install 'selfselect[sklearn]'"
    ) from error

from selfselect._fit import fit_design
from selfselect.data.build import design_from_arrays
from selfselect.data.columns import to_numbers
from selfselect.data.panels import group_codes
from selfselect.data.rows import Rows, refuse_many_alternatives
from selfselect.data.tables import column_names, in_another_order, to_frame
from selfselect.moments.base import latent_means
from selfselect.moments.choose import moments_of
from selfselect.options import CovarianceOption, NoiseOption, RuleOption, WeightsKind
from selfselect.solvers.base import Solver
from selfselect.solvers.maximum_likelihood import SharedLeastSquares

Array = NDArray[np.float64]

NO_NUMBERS = (str, bytes, date, timedelta, np.datetime64, np.timedelta64, pd.Period)
"""Cells that `numpy.asarray` turns into numbers, or may, and periods, which read like dates. What
else is none, it refuses itself."""


def _has_labels(model: SelfSelectionRegressor) -> bool:
    if not hasattr(model, "result_") or model.result_.problem.index == "unknown":
        raise AttributeError(
            "predict_proba is for models fitted with the chosen alternatives. Without them, "
            "alternatives have no labels: use result_.predict(X, 'chance')."
        )
    return True


class SelfSelectionRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression under self-selection, in scikit-learn's manner.

    Parameters
    ----------
    n_alternatives : how many alternatives there are, where it was not recorded which was chosen.
        None where `fit` is given the chosen ones, which tell their number.
    rule : ``"max"``, ``"min"``, or an object of `selfselect.rules`.
    noise : an object of `selfselect.noises`; None for one unknown scale per alternative where it
        is known which was chosen, and a common one where it is not.
    solver : None to choose one automatically, or an object of `selfselect.solvers`.
    fit_intercept : whether every equation has a constant.
    covariance : as in `selfselect.fit`.
    weights_kind : what `sample_weight` means, as in `selfselect.fit`; ignored where there is none.
        None reads whole numbers as numbers of identical rows, others as sampling weights.
    random_state : seed of everything random.

    Attributes
    ----------
    classes_ : labels of the alternatives, sorted.
    coef_ : (k, d) slopes.
    intercept_ : (k,) constants.
    scale_ : (k,) noise scales.
    result_ : the `selfselect.FitResult`.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(2_000, seed=1).data
    >>> X, y = villagers[["height", "weight"]], villagers["income"]
    >>> model = ss.SelfSelectionRegressor().fit(X, y, chosen=villagers["job"])
    >>> model.coef_.shape
    (2, 2)
    """

    # chosen and panel are routed to fit by default, so that searches and pipelines hand them on.
    __metadata_request__fit = {"chosen": True, "panel": True}  # noqa: RUF012

    def __init__(
        self,
        *,
        n_alternatives: int | None = None,
        rule: RuleOption = "max",
        noise: NoiseOption = None,
        solver: Solver | None = None,
        fit_intercept: bool = True,
        covariance: CovarianceOption = "observed",
        weights_kind: WeightsKind = None,
        random_state: int | None = None,
    ) -> None:
        self.n_alternatives = n_alternatives
        self.rule = rule
        self.noise = noise
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.covariance = covariance
        self.weights_kind = weights_kind
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, chosen: Any = None, sample_weight: Any = None, panel: Any = None
    ) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : (n, d) covariates.
        y : (n,) recorded outcomes.
        chosen : (n,) label of the chosen alternative; None where it was not recorded, which needs
            `n_alternatives`. Then alternatives are numbered by their mean outcome, largest first,
            and with no more rows than coefficients all get the same least-squares fit, with a
            warning.
        sample_weight : (n,) row weights, or None.
        panel : (n,) whose row it is, where people have several; None where each is its own.
            Standard errors are by person, and `noises.Types` and `noises.SharedShock` let their
            rows share a part.
        """
        given = {"X": X, "y": y, "sample_weight": sample_weight, "chosen": chosen, "panel": panel}
        for name, values in given.items():
            _refuse_masks(values, name)
            if name not in ("chosen", "panel"):
                _refuse_no_numbers(values, name)
        _refuse_other_orders(given)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        assert_all_finite(y, input_name="y")  # None among objects has become nan by now.
        labels, codes = self._alternatives(chosen, X)
        if codes is not None:
            check_consistent_length(y, codes)
        groups = None
        if panel is not None:
            people = pd.DataFrame({"panel": column_or_1d(panel)})
            check_consistent_length(y, people)
            groups = group_codes(people, "panel")
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        kind = self.weights_kind
        if weights is not None and kind is None:
            kind = "frequency" if (weights == np.round(weights)).all() else "probability"
        names = getattr(self, "feature_names_in_", None)
        design = design_from_arrays(
            X,
            np.asarray(y, dtype=np.float64),
            codes,
            alternatives=labels,
            names=[f"x{i}" for i in range(X.shape[1])] if names is None else list(names),
            fit_intercept=self.fit_intercept,
            weights=weights,
            weights_kind=None if weights is None else kind,
            cost=getattr(self.rule, "cost", None),
            groups=groups,
        )
        named = (f", {one}={one}" for one in ("sample_weight", "panel") if given[one] is not None)
        asked = "X, y" + ", chosen" * (chosen is not None) + "".join(named)
        few = codes is None and design.n_counted <= design.n_coefficients
        self.result_ = fit_design(
            design,
            rule=self.rule,
            noise=self.noise,
            solver=SharedLeastSquares() if few else self.solver,
            covariance=self.covariance,
            seed=self.random_state,
            call=f"ss.{self!r}.fit({asked})",
        )
        # Whole numbers on both sides of 2**63 would become doubles, which merge neighbours.
        huge = any(isinstance(one, int) and one >= 2**63 for one in labels)
        self.classes_ = np.asarray(labels, dtype=np.uint64 if huge else None)
        layout = self.result_.problem.layout
        coefficients = np.array(layout.coefficients_of(self.result_.values))
        self.intercept_ = coefficients[:, 0] if self.fit_intercept else np.zeros(len(labels))
        self.coef_ = coefficients[:, 1:] if self.fit_intercept else coefficients
        self.scale_ = layout.scales_of(self.result_.values)
        return self

    def _alternatives(self, chosen: Any, X: Any) -> tuple[list[Any], NDArray[np.intp] | None]:
        if chosen is not None:
            labels, codes = _encode(column_or_1d(chosen))
            if self.n_alternatives not in (None, len(labels)):
                raise OptionError(
                    f"n_alternatives={self.n_alternatives!r} does not agree with `chosen`, which "
                    f"has {len(labels)} alternatives. It is for outcomes of which it was not "
                    "recorded which alternative was chosen: leave it out."
                )
            return labels, codes
        if self.n_alternatives is None:
            raise OptionError(
                "`chosen` was not given. If it was recorded which alternative was chosen, give it, "
                "as in fit(X, y, chosen=job) (a pipeline or a search hands it on). If it was not, "
                "say how many alternatives there are: SelfSelectionRegressor(n_alternatives=2) "
                "fits two of them without names."
            )
        if not isinstance(self.n_alternatives, Integral) or self.n_alternatives < 2:
            raise OptionError(
                f"n_alternatives={self.n_alternatives!r} is not possible. Use a whole number from "
                "2 on; with one alternative nothing is selected and least squares is right."
            )
        refuse_many_alternatives(self.n_alternatives, X)
        return list(range(1, int(self.n_alternatives) + 1)), None

    def _rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        _refuse_masks(X, "X")
        _refuse_no_numbers(X, "X")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return Rows(X, known=self.result_.coding.known.repeat(len(X)))

    def predict(self, X: Any) -> Array:
        """Return the mean (n,) of the observed outcome."""
        rows = self._rows(X)
        return moments_of(self.result_.problem).expectations(self.result_.values, rows).outcome

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R² of the observed outcomes `y` (n,)."""
        for name, values in (("y", y), ("sample_weight", sample_weight)):
            _refuse_masks(values, name)
            _refuse_no_numbers(values, name)
        return float(super().score(X, y, sample_weight))

    def predict_latent(self, X: Any) -> Array:
        """Return the mean (n, k) of every outcome, observed or not."""
        rows = self._rows(X)
        return latent_means(self.result_.problem, self.result_.values, rows)

    @available_if(_has_labels)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability (n, k) that each alternative is chosen, ordered as `classes_`.

        Only where `fit` was given the chosen ones: alternatives without labels are no classes.
        """
        rows = self._rows(X)
        return moments_of(self.result_.problem).chances(self.result_.values, rows)


def _refuse_masks(values: Any, name: str) -> None:
    """Refuse masked values, which scikit-learn would take for numbers."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DataError(
            f"{name} is a masked array, and its mask would be ignored. Leave the masked rows out, "
            "or fill them in."
        )


def _refuse_no_numbers(values: Any, name: str) -> None:
    """Refuse what scikit-learn would take for numbers: dates, durations, text and categories."""
    if hasattr(values, "columns"):
        for column, held in to_frame(values, column_names(values)).items():
            to_numbers(held, f"The column {column!r} of {name}")
        return
    if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
        to_numbers(pd.Series(values), name)
    held = np.asarray(values)
    if held.dtype.kind in "mMSU" or (
        held.dtype.kind == "O" and any(isinstance(one, NO_NUMBERS) for one in held.flat)
    ):
        rows = np.indices(held.shape)[0] if held.ndim else np.zeros(())
        to_numbers(pd.Series(held.ravel(), index=rows.ravel()), name)


def _refuse_other_orders(given: dict[str, Any]) -> None:
    """Refuse the same rows in two orders: what belongs to a row goes by position."""
    indexed = {k: v for k, v in given.items() if isinstance(v, pd.Series | pd.DataFrame)}
    first = next(iter(indexed), "")
    for name, values in indexed.items():
        if in_another_order(values.index, indexed[first].index):
            kind = "frame" if isinstance(values, pd.DataFrame) else "series"
            raise DataError(
                f"{name} is a {kind} with the index of {first} in another order. Give "
                f"{name}.loc[{first}.index], or {name}.to_numpy() if it is in the order of the "
                "rows."
            )


def _encode(chosen: NDArray[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    """Return sorted labels and each row's index into them.

    Small integers are counted instead of sorted: on a million rows that is ten times faster.
    """
    if pd.isna(chosen).any():
        raise DataError(
            f"{pd.isna(chosen).sum()} rows have no value in `chosen`: the choice is not known "
            "there. Leave those rows out, unless they are missing because of their outcome."
        )
    if np.issubdtype(chosen.dtype, np.integer) and chosen.size and chosen.max() < 2**63:
        chosen = chosen.astype(np.intp, copy=False)
        low, high = int(chosen.min()), int(chosen.max())
        if high - low < 1_000:
            shifted = chosen - low if low else chosen
            present = np.flatnonzero(np.bincount(shifted, minlength=high - low + 1))
            if len(present) == high - low + 1:
                return (present + low).tolist(), np.asarray(shifted, dtype=np.intp)
            place = np.zeros(high - low + 1, dtype=np.intp)
            place[present] = np.arange(len(present))
            return (present + low).tolist(), place[shifted]
    try:
        labels, codes = np.unique(chosen, return_inverse=True)
    except TypeError as error:
        raise DataError(
            "`chosen` mixes labels that cannot be sorted, such as numbers and text. Make them of "
            "one kind."
        ) from error
    return labels.tolist(), codes.astype(np.intp)
