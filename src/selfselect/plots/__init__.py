"""Pictures: computed first, then drawn on given or new axes."""

from selfselect.plots.selection_lines import LinesPicture, selection_lines

__all__ = ["LinesPicture", "selection_lines"]
