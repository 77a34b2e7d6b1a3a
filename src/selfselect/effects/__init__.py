"""Effects: what follows from a fit, as small tables with standard errors.

Every effect is a method of the result too: ``result.treatment_effects("hunting", "fishing")``.
Options that all of them share:

* ``data``: rows to average over, any table; None for the rows of the fit, with their weights.
* ``at``: None averages over rows; ``"means"`` takes one row at the means of all columns (categories
  at the commonest); ``{"height": 180}`` or ``{"height": [160, 170, 180]}`` gives values to some
  columns, every combination of them, and leaves the others at their means, over the rows that
  have all of these.
* ``level``: confidence of the intervals, 0.95.
* ``covariates``: ``"sampled"``, the default, is about the population of which the rows are a
  sample, so errors account for their sampling; ``"fixed"`` is about these rows and no others.
* ``scale``: where the left side of the formula is a logarithm, ``"level"`` gives effects on what
  it is the logarithm of, and says them in per cent (noise must be normal or a mixture of normals);
  ``"model"``, the default, leaves it as it is.

A group, such as those who choose hunting, is made of all rows by their chance to choose it.
"""

from selfselect.effects.base import EffectTable
from selfselect.effects.choice_probabilities import choice_probabilities
from selfselect.effects.counterfactual import Counterfactual, counterfactual
from selfselect.effects.decompose import decompose
from selfselect.effects.gains import Gains, gains
from selfselect.effects.marginal_effects import marginal_effects
from selfselect.effects.mte import MarginalTreatment, mte
from selfselect.effects.policy import Policy, policy
from selfselect.effects.potential_outcomes import potential_outcomes
from selfselect.effects.sorting import heterogeneity, sorting
from selfselect.effects.treatment_effects import treatment_effects

__all__ = [
    "Counterfactual",
    "EffectTable",
    "Gains",
    "MarginalTreatment",
    "Policy",
    "choice_probabilities",
    "counterfactual",
    "decompose",
    "gains",
    "heterogeneity",
    "marginal_effects",
    "mte",
    "policy",
    "potential_outcomes",
    "sorting",
    "treatment_effects",
]
