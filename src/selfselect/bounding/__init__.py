"""What the rule alone says of potential outcomes: bounds without assumptions on the noise."""

from selfselect.bounding.ask import bounds
from selfselect.bounding.bounds import Bounds

__all__ = ["Bounds", "bounds"]
