"""Inference: covariances, tests and intervals."""

from selfselect.inference.covariance import Bootstrap
from selfselect.inference.statistics import TestResult

__all__ = ["Bootstrap", "TestResult"]
