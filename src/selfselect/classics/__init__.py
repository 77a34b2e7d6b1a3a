"""Classics: sample selection and endogenous switching, by maximum likelihood and in two steps."""

from selfselect.classics.result import SelectionResult
from selfselect.classics.sample_selection import sample_selection
from selfselect.classics.switching import switching

__all__ = ["SelectionResult", "sample_selection", "switching"]
