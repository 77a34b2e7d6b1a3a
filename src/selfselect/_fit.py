"""The front door: the whole flow from a table to a result, on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfselect.data.design import Design
from selfselect.engines.base import EngineChoice
from selfselect.engines.checkpoint import check_place, recorded_in
from selfselect.engines.choose import engine_for
from selfselect.engines.memory import Memory
from selfselect.errors import (
    ConvergenceWarning,
    DataError,
    UnsupportedError,
    warn_user,
    without_warnings,
)
from selfselect.inference.covariance import estimate_covariance
from selfselect.inference.dependence import Dependence
from selfselect.noises import as_noise
from selfselect.options import (
    CovarianceOption,
    Limits,
    Missing,
    MissingOutcome,
    NoiseOption,
    RuleOption,
    WeightsKind,
)
from selfselect.posing import design_for, pose, pose_design
from selfselect.results.fit_result import FitResult
from selfselect.results.refit import arguments_for, write_call
from selfselect.seeds import check_seed, generator
from selfselect.solvers import as_solved, choose_solver
from selfselect.solvers.base import Solver
from selfselect.threads import limited_to, one_blas_thread


def fit(
    formula: str | Mapping[Any, str],
    data: Any,
    *,
    chosen: str | None = None,
    alternatives: int | str | None = None,
    available: Mapping[Any, str] | None = None,
    possible: Mapping[Any, str] | None = None,
    cost: Mapping[Any, Any] | None = None,
    case: str | None = None,
    shared: Any = None,
    offset: Any = None,
    rule: RuleOption = "max",
    noise: NoiseOption = None,
    solver: Solver | None = None,
    weights: Any = None,
    weights_kind: WeightsKind = None,
    missing: Missing = "drop",
    missing_outcome: MissingOutcome = "raise",
    outcome_between: Limits = None,
    covariance: CovarianceOption = "observed",
    cluster: Any = None,
    panel: str | None = None,
    engine: EngineChoice | None = None,
    checkpoint: str | Path | None = None,
    seed: int | None = None,
    progress: bool | None = None,
) -> FitResult:
    """Fit a linear regression under self-selection.

    Every row has one outcome per alternative, and only one of them is recorded; `rule` says which.
    The fit estimates the coefficients of every alternative.

    Parameters
    ----------
    formula : ``"income ~ height + weight"`` for all alternatives, or a dict of formulas by
        alternative for covariates of their own.
    data : a pandas or polars frame, a pyarrow table, or a dict of arrays; or files that are read
        piece by piece and may be larger than memory: a path, a pattern such as
        ``"rows/*.parquet"``, a list of them, an Arrow dataset; or a `dask.dataframe`.
    chosen : the column of the chosen alternative. Alternatives are ordered as in the
        dict of formulas, else sorted by label.
    alternatives : how many alternatives there are, where the chosen one was not recorded
        (leave `chosen` out). They are numbered by their mean outcome, the largest first. A dict
        of formulas without `chosen` names them. In long data: the column that names them.
    available : ``{alternative: column}`` of true or false; alternatives left out are always
        available.
    possible : ``{alternative: column}`` of true or false: which may be the chosen one, for rows
        in which `chosen` is missing; alternatives left out always may.
    cost : ``{alternative: cost}``, by which it is less attractive. With ``rule="max"`` the largest
        outcome less its cost is chosen, with ``rule="min"`` the smallest outcome plus its cost.
        Recorded is the outcome itself. A number or a column is a known cost, ``"~ tuition"`` one
        that is estimated.
    case : for long data, one row per case and alternative: the column that says which rows belong
        together. `alternatives` is then the column that says whose row it is, and `chosen` one of
        true or false. Covariates may differ between the rows of a case; an alternative without a
        row is not available to the case.
    shared : coefficients that alternatives have in common: ``["distance"]``, ``"all"`` (with
        `noise` None the scale too), ``{"distance": ["a", "b"]}`` for some alternatives, or
        ``{"distance": {"a": "distance_a", "b": "distance_b"}}``.
    offset : a column that is added to the mean of every outcome, with no coefficient; or
        ``{alternative: column}``.
    rule : ``"max"``, ``"min"``, or an object of `selfselect.rules`; `rules.ConvexRule` makes one
        of a function that chooses.
    noise : an object of `selfselect.noises`; None for `noises.Independent()`, with one scale per
        alternative where the choice was recorded, and a common one where it was not.
    solver : None to choose one automatically, or an object of `selfselect.solvers`.
    weights : a column, or one number per row: how much each row's log-likelihood counts. Rows of
        weight zero are kept for predictions and count for nothing; where they lack the outcome or
        the choice they are left out.
    weights_kind : ``"frequency"``, numbers of identical rows: results are as if rows were repeated,
        except that ``center``, ``scale``, ``poly`` and splines count every row once;
        ``"probability"``, to correct for unequal sampling: only ratios matter, and standard errors
        are robust. None leaves it open for whole numbers whose sum is at most five times the rows
        (others are refused): observed covariances read them as frequencies, robust ones as sampling
        weights.
    missing : ``"drop"`` leaves rows with a missing covariate out, counts them and warns;
        ``"raise"`` refuses them.
    missing_outcome : ``"raise"`` refuses rows that were chosen but have no outcome, since leaving
        them out selects on the outcome; ``"silent"`` keeps them for what their choice says;
        ``"drop"`` leaves them out anyway.
    outcome_between : (lowest, highest) outcome of rows without one, in units of the formula's left
        side: columns or numbers, None where there is no limit. Top-coded outcomes are missing
        outcomes with ``("topcode", None)``.
    covariance : ``"observed"`` information, also ``"nonrobust"``; ``"opg"``, outer products of
        scores; ``"robust"``, a sandwich corrected for its bias; ``"HC0"``, a plain one, and
        ``"HC1"``, that times n/(n - k) for k parameters; ``"clustered"``; ``"bootstrap"`` or a
        `selfselect.inference.Bootstrap`.
    cluster : a column, a list of columns for several ways of clustering at once, or one label per
        row; implies ``"clustered"``, or (one way only) a bootstrap of clusters.
    panel : the column that identifies the person, where people have several rows. With
        `noises.Types` the rows of a person share their type, with `noises.SharedShock` their shock.
        Standard errors are clustered by it unless `cluster` says otherwise, and BIC counts people
        and not rows, under every noise, so that noises can be compared.
    engine : where rows are held and summed over: None chooses by the type of `data`; or an object
        of `selfselect.engines`, such as ``engines.Torch("cuda")`` for a graphics card.
    checkpoint : a file that keeps what a long fit has summed so far. The same call after the
        process was killed goes on where it stopped and ends with the same numbers; a file of
        another fit or other data is refused. It is removed when the fit is done.
    seed : of all random numbers (bootstrap samples, the sample of rows on which a large fit
        starts).
    progress : whether to show progress; None shows it on a terminal for what takes seconds.

    Returns
    -------
    FitResult
        Start with ``print(result.summary())`` and ``result.compare()``.

    Examples
    --------
    >>> import selfselect as ss
    >>> villagers = ss.simulators.village(2_000, seed=1).data
    >>> result = ss.fit("income ~ height + weight", villagers, chosen="job")
    >>> result.converged
    True
    """
    given = dict(locals())
    call = write_call(fit, given)
    check_seed(seed, optional=True)
    if checkpoint is not None:
        check_place(checkpoint)
    choice = engine_for(data, engine)
    with limited_to(choice.threads):
        design, rule, noise = design_for(
            **arguments_for(given, pose), source=choice.open(data), progress=progress
        )
    return fit_design(
        design,
        rule=rule,
        noise=noise,
        solver=solver,
        covariance=covariance,
        seed=seed,
        progress=progress,
        call=call,
        engine=choice,
        checkpoint=checkpoint,
    )


def fit_design(
    design: Design,
    *,
    rule: Any = "max",
    noise: Any = None,
    solver: Any = None,
    covariance: Any = "observed",
    seed: int | None = None,
    progress: bool | None = None,
    call: str | None = None,
    engine: EngineChoice | None = None,
    checkpoint: str | Path | None = None,
) -> FitResult:
    """Fit a design that is already made, as `fit` does; `call` is kept with the result."""
    tried = () if noise is None else as_noise(noise).candidates
    if tried:
        options = {"rule": rule, "solver": solver, "covariance": covariance, "seed": seed,
                   "progress": progress, "call": call, "engine": engine}  # fmt: skip
        return _smallest_bic(design, tried, options, checkpoint)
    rng = generator(check_seed(seed, optional=True))
    problem = pose_design(design, rule=rule, noise=noise, rng=rng)
    choice: EngineChoice = Memory() if engine is None else engine
    with one_blas_thread(), limited_to(choice.threads):
        rows = choice.load(problem, design.rows if design.stream is None else design.stream)
        solver, reason = choose_solver(problem, solver)
        if checkpoint is not None:
            _refuse_chains(solver)
        with recorded_in(
            checkpoint,
            rows,
            data=_data_of(design),
            model=(problem, design.facts),
            options=(solver, covariance, seed),
        ) as summed:
            solution = solver.solve(problem, summed, rng=rng, progress=progress)
            problem = as_solved(problem, solution)
            spread = estimate_covariance(
                problem,
                summed,
                solution,
                kind=covariance,
                dependence=Dependence(
                    design.cluster_sizes, design.facts.cluster, design.facts.weights_kind
                ),
                solver=solver,
                rng=rng,
                progress=progress,
            )
    if not solution.converged:
        warn_user(f"Not converged. {solution.ending}", ConvergenceWarning)
    return FitResult(
        design.coding,
        problem,
        solution,
        spread,
        design.facts,
        reason,
        engine=rows,
        row_labels=design.labels,
        call=call,
        table=design.table,
    )


def _smallest_bic(
    design: Design, tried: Sequence[Any], options: dict[str, Any], checkpoint: str | Path | None
) -> FitResult:
    """Fit several noises, and return the fit with the smallest BIC.

    Noise that comes out as simpler noise that was tried ends the trials: the data show no more.
    In 84 samples of six truths none that is richer had a smaller BIC then.
    """
    if checkpoint is not None:
        raise UnsupportedError(
            "A checkpoint keeps the sums of one fit, and choosing by BIC takes several. Give the "
            "number of components, or leave checkpoint= out."
        )
    fits: list[FitResult] = []
    said: list[str] = []
    for number, noise in enumerate(tried, start=1):
        # A candidate that does not converge is passed over, which is no news for the reader.
        with without_warnings(ConvergenceWarning):
            try:
                found = fit_design(design, noise=noise, **options)
            except DataError as error:
                if not fits:
                    raise
                said.append(f"{number}: {error}")
                continue
        if found.converged or not fits:
            fits.append(found)
        value = f"{found.bic:.1f}" if found.converged else "not converged"
        said.append(f"{number}: {value}")
        if found.solution.settled in tried[: number - 1]:
            break
    best = min(fits, key=lambda one: one.bic)
    reason = f"{best.solver_reason}; BIC by number: {', '.join(said)}"
    return replace(best, solver_reason=reason)


def _data_of(design: Design) -> Any:
    """Return what identifies the rows of a fit."""
    if design.stream is None:
        return design.rows
    return design.stream.source.fingerprint, design.stream.tally, design.rows


def _refuse_chains(solver: Any) -> None:
    """Refuse to resume what rests on more than sums."""
    from selfselect.solvers import MonteCarloNewton, ProjectedSGD

    if isinstance(solver, MonteCarloNewton | ProjectedSGD):
        raise UnsupportedError(
            f"{type(solver).__name__} keeps Markov chains of every row from pass to pass, which a "
            "checkpoint of sums does not hold. Fit without checkpoint=."
        )
