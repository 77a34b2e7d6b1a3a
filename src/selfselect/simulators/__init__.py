"""Simulators: simulated data with known truth."""

from selfselect.simulators.auction import auction
from selfselect.simulators.curved import curved, curved_rule
from selfselect.simulators.gaussian import gaussian
from selfselect.simulators.hostile import hostile
from selfselect.simulators.market import market
from selfselect.simulators.sample import Sample, simulate
from selfselect.simulators.tender import tender
from selfselect.simulators.village import village

__all__ = [
    "Sample",
    "auction",
    "curved",
    "curved_rule",
    "gaussian",
    "hostile",
    "market",
    "simulate",
    "tender",
    "village",
]
