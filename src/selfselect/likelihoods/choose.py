"""Which likelihood a problem has: the only place that distinguishes rule, noise and index.

A likelihood's module is loaded when it is chosen, so that a process starts quickly.
"""

from __future__ import annotations

from typing import Any

from selfselect.errors import UnsupportedError
from selfselect.likelihoods.base import Likelihood, is_weighed
from selfselect.problem.problem import Problem
from selfselect.rules import has_bounds


def choose_likelihood(problem: Problem) -> Likelihood:
    """Return the likelihood of a problem, or refuse one that has none."""
    noise, rule, rank = problem.noise, problem.ordered_rule, problem.rank
    known, boxes = problem.index == "known", has_bounds(rule)
    of_selection = (
        noise.selected,
        bool(getattr(problem.rule, "selects", False)),
        problem.equations.selection is not None,
    )
    if any(of_selection):
        if not all(of_selection):
            raise UnsupportedError(
                f"{type(noise).__name__} with the rule {type(problem.rule).__name__} has no "
                "likelihood here: a selection equation, its rule and noises.Selection belong "
                "together. Use selfselect.sample_selection or selfselect.switching."
            )
        selection: Any = problem.equations.selection
        if rule.has_cuts != bool(selection.n_cuts):
            raise UnsupportedError(
                "rules.OrderedIndex and cut points in the selection equation belong together. Use "
                "selfselect.switching with ordered=[...]."
            )
        if noise.sign_only:
            from selfselect.likelihoods.binary_selection import BinarySelection

            return BinarySelection(problem)
        from selfselect.likelihoods.selection import SelectionLikelihood

        return SelectionLikelihood(problem)
    if noise.mixed or (problem.grouped and noise.grouped):
        if not boxes or rank is not None:
            raise UnsupportedError(
                f"{type(noise).__name__} needs a rule with `bounds`, not {problem.rule.name}: "
                "noise that a person's rows share is implemented only where explaining sets are "
                "boxes."
            )
        from selfselect.likelihoods.mixed import Mixed, refuse_types

        refuse_types(problem)
        return Mixed(problem)
    correlation = noise.known_correlation(problem.equations.alternatives)
    joint = noise.joint or problem.partial or bool(problem.equations.costs) or is_weighed(problem)
    # The likelihood of the unknown index is known for normal noise; others are sums of atoms.
    moving = bool(problem.layout.spreads)
    joint = joint or not (known or (noise.margin.normal and not moving))
    if correlation is not None and (joint or not known or rank is not None):
        raise UnsupportedError(
            "Correlated noise of known covariance needs to know which alternative was chosen, and "
            f"a rule with convex explaining sets; {problem.rule.name}, {problem.index} index. Use "
            "noises.Independent()."
        )
    if problem.partial and not noise.margin.smooth:
        raise UnsupportedError(
            "Outcomes that were not recorded are integrated over by nodes. The second derivatives "
            f"of {noise.margin.name} noise are all at its kink, where no node is, so the search "
            "would have no curvature to go by. Leave such rows out, or use shape='logistic'."
        )
    if rank is not None:
        if not known:
            _ = problem.side  # Refuses: without the index an outcome of some rank says too little.
        if joint:
            raise UnsupportedError(
                "Ranked rules need independent noise, no estimated costs, and rows in which "
                "the outcome and the chosen alternative are recorded."
            )
        if moving:
            raise UnsupportedError(
                "Ranked rules need scales that do not move with covariates. Use noises.Independent "
                "with scale='each' or 'common'."
            )
        if not noise.margin.normal:
            raise UnsupportedError(f"Ranked rules need normal noise, not {noise.margin.name} one.")
        from selfselect.likelihoods.unknown import RankedLikelihood

        return RankedLikelihood(problem)
    if joint:
        if not boxes:
            raise UnsupportedError(
                f"{type(problem.rule).__name__} offers no `bounds`, which dependent noise, "
                "estimated costs and incomplete rows need. Give the rule a `bounds` method; a "
                "noise of known covariance is noises.KnownCovariance."
            )
        from selfselect.likelihoods.joint import Joint

        return Joint(problem)
    if not known:
        _ = problem.side  # Refuses rules that need the index.
        from selfselect.likelihoods.unknown import Unknown

        return Unknown(problem)
    if correlation is not None or not boxes:
        if moving:
            raise UnsupportedError(
                f"{type(problem.rule).__name__} offers no `bounds`, which scales that move with "
                "covariates need. Give the rule a `bounds` method, or use scale='each'."
            )
        if not noise.margin.normal:
            raise UnsupportedError(
                f"A rule without `bounds` needs normal noise, not {noise.margin.name} one. Give "
                "the rule a `bounds` method."
            )
        from selfselect.likelihoods.polyhedra import Polyhedra, has_polyhedra

        if correlation is None and has_polyhedra(problem):
            return Polyhedra(problem)
        from selfselect.likelihoods.sampled import Sampled

        return Sampled(problem, boxes)
    if noise.family is not None and problem.layout.n_noise_extras:
        from selfselect.likelihoods.shaped import ShapedBoxes

        return ShapedBoxes(problem)
    from selfselect.likelihoods.boxes import Boxes

    return Boxes(problem)
