"""All that is taken from formulaic, in one place.

Its modules import each other in a circle. Threads that begin with different ones at the same time
would meet half of them; those that import this module wait until the first has loaded it whole.
"""

from formulaic import Formula, ModelSpec, SimpleFormula
from formulaic.errors import DataMismatchWarning, FormulaicError
from formulaic.materializers.types import FactorValues
from formulaic.parser import DefaultFormulaParser
from formulaic.parser.types import Factor
from formulaic.transforms import TRANSFORMS
from formulaic.utils.code import sanitize_variable_names

__all__ = [
    "TRANSFORMS",
    "DataMismatchWarning",
    "DefaultFormulaParser",
    "Factor",
    "FactorValues",
    "Formula",
    "FormulaicError",
    "ModelSpec",
    "SimpleFormula",
    "sanitize_variable_names",
]
