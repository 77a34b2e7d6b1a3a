"""Inference: covariances, tests and intervals."""

from selfselect.inference.bootstrap import Bootstrap
from selfselect.inference.statistics import TestResult

__all__ = ["Bootstrap", "TestResult"]
