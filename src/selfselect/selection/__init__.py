"""Models with a selection equation of their own: sample selection and endogenous switching."""

from selfselect.selection.sample_selection import sample_selection
from selfselect.selection.switching import switching

__all__ = ["sample_selection", "switching"]
