"""Models with a selection equation of their own: sample selection and endogenous switching."""

from selfselect.selection.doors import sample_selection, switching

__all__ = ["sample_selection", "switching"]
