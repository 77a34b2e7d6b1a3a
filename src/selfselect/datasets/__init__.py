"""Real data sets that ship with the package, each with its source and licence."""

from selfselect.datasets.careers import careers

__all__ = ["careers"]
