"""Real data sets that ship with the package, each with its source and licence."""

from selfselect.datasets.careers import careers
from selfselect.datasets.housing import housing

__all__ = ["careers", "housing"]
