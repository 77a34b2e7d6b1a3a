"""Every error and warning the package raises, on one screen.

An error says what is wrong, why, and what to do instead. All descend from `SelfSelectError`,
so one ``except`` catches them all; those about values are `ValueError` too.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "ArchiveError",
    "ClusterWarning",
    "ConvergenceWarning",
    "DataError",
    "EngineError",
    "ExtrapolationWarning",
    "FormulaError",
    "MissingDependencyError",
    "MissingRowsWarning",
    "NoSuchResultError",
    "NotCompiledWarning",
    "OptionError",
    "ReportError",
    "RuleError",
    "SelfSelectError",
    "SelfSelectWarning",
    "StaleBuildError",
    "UnsupportedError",
    "warn_user",
    "without_warnings",
]


class SelfSelectError(Exception):
    """The root of all errors of this package."""


class DataError(SelfSelectError, ValueError):
    """The table cannot be used as it is: a column, a value or a count is wrong."""


class FormulaError(DataError):
    """A formula does not parse, or names something it may not use."""


class RuleError(SelfSelectError, ValueError):
    """A selection rule is not what it claims to be, or contradicts the rows."""


class OptionError(SelfSelectError, ValueError):
    """An argument has a value that is not among the possible ones."""


class UnsupportedError(SelfSelectError):
    """The parts fit individually but not together: a solver lacks what it requires."""


class NoSuchResultError(UnsupportedError, AttributeError):
    """The model that was fitted has no such method; the message says why, and which it has."""


class EngineError(SelfSelectError):
    """Sums cannot be done where they were asked for: a cluster or a device is gone or full."""


class ArchiveError(SelfSelectError, ValueError):
    """A saved fit cannot be written, or a file cannot be trusted to hold one."""


class ReportError(SelfSelectError):
    """A report cannot be written where it was asked for; the fit is unharmed."""


class MissingDependencyError(SelfSelectError, ImportError):
    """An optional package is not installed, or cannot start; the message says what to do."""


class StaleBuildError(SelfSelectError, ImportError):
    """The compiled kernels were built from other sources; the message says how to rebuild them."""


class SelfSelectWarning(UserWarning):
    """The root of all warnings of this package."""


class MissingRowsWarning(SelfSelectWarning):
    """Rows were left out because a value is missing."""


class ConvergenceWarning(SelfSelectWarning):
    """The fit stopped early, at a boundary, or with a singular information matrix."""


class NotCompiledWarning(SelfSelectWarning):
    """A large fit runs without compiled kernels: it takes longer than it needs."""


class ClusterWarning(SelfSelectWarning):
    """A fit waits for a cluster whose workers cannot go on at present."""


class ExtrapolationWarning(SelfSelectWarning):
    """Something is asked where the data says nothing: the answer rests on the model alone."""


_kept_quiet: ContextVar[tuple[type[Warning], ...]] = ContextVar("quiet", default=())


@contextmanager
def without_warnings(category: type[Warning]) -> Iterator[None]:
    """Keep warnings of this package to itself; other threads are not touched by it."""
    before = _kept_quiet.set((*_kept_quiet.get(), category))
    try:
        yield
    finally:
        _kept_quiet.reset(before)


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that called this package, however deep inside it we are."""
    if issubclass(category, _kept_quiet.get()):
        return
    level, frame = 2, sys._getframe(1)  # the caller
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == package:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
