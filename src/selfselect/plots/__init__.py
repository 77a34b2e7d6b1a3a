"""Plots of a fit, on given or new axes, with the plotted numbers."""

from selfselect.plots.base import Marks, Picture
from selfselect.plots.bounds import bounds
from selfselect.plots.choice_probabilities import choice_probabilities
from selfselect.plots.coefficients import coefficients
from selfselect.plots.convergence import convergence
from selfselect.plots.counterfactual import counterfactual
from selfselect.plots.gains import gains
from selfselect.plots.mte import mte
from selfselect.plots.potential_outcomes import potential_outcomes
from selfselect.plots.qq import qq
from selfselect.plots.residuals import residuals
from selfselect.plots.responsibilities import responsibilities
from selfselect.plots.selection_lines import LinesPicture, selection_lines
from selfselect.plots.sensitivity import sensitivity
from selfselect.plots.starts import starts

__all__ = [
    "LinesPicture",
    "Marks",
    "Picture",
    "bounds",
    "choice_probabilities",
    "coefficients",
    "convergence",
    "counterfactual",
    "gains",
    "mte",
    "potential_outcomes",
    "qq",
    "residuals",
    "responsibilities",
    "selection_lines",
    "sensitivity",
    "starts",
]
