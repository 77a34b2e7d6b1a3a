"""Simulators: simulated data with known truth."""

from selfselect.simulators.auctions import auction, market, tender
from selfselect.simulators.populations import curved, curved_rule, gaussian, hostile, village
from selfselect.simulators.sample import Sample, simulate

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
