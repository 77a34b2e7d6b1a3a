"""Independent noise with Student's t distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selfselect.errors import OptionError
from selfselect.noises._shaped import Shaped
from selfselect.noises.shapes import Shape
from selfselect.noises.shapes._student import FEWEST, StudentFamily, student_shape
from selfselect.noises.shapes.base import Family
from selfselect.plain import archived


@archived("student")
@dataclass(frozen=True)
class Student(Shaped):
    r"""Independent noise with the tails of Student's t distribution.

    .. math:: y_{ij} = x_{ij}'w_j + \sigma_j e_{ij}, \qquad e \sim t_\nu

    The standard deviation is :math:`\sigma_j\sqrt{\nu/(\nu - 2)}`; with two degrees of freedom or
    fewer there is none. Many degrees of freedom are normal noise. The density is not log-concave:
    the search begins at the optimum under normal noise, and there may be others.

    Parameters
    ----------
    degrees : degrees of freedom, more than 1.1; None estimates them.
    each : whether every alternative has degrees of its own, where they are estimated.
    scale : as in `Independent`.

    Examples
    --------
    >>> from selfselect.noises import Student
    >>> Student(5).name.partition(",")[0]
    'Student t with 5 degrees of freedom'
    """

    degrees: float | None = None
    each: bool = False
    scale: str | float | Mapping[Any, float | str] | Sequence[float] = "each"

    def __post_init__(self) -> None:
        self._check_scale()
        given = self.degrees
        number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
        if given is not None and not (number and FEWEST <= float(given) < np.inf):
            raise OptionError(
                f"degrees={given!r} are no degrees of freedom. Use a number of at least {FEWEST}, "
                "or None to estimate them."
            )
        if self.each and given is not None:
            raise OptionError(
                "each=True gives every alternative degrees of freedom of its own, and these are "
                "known. Leave one of them out."
            )

    @property
    def name(self) -> str:
        known = "" if self.degrees is None else f" with {self.degrees:g} degrees of freedom"
        return super().name.replace("Student t,", f"Student t{known},")

    @property
    def settled(self) -> Shape | None:
        return None if self.degrees is None else student_shape(float(self.degrees))

    @property
    def family(self) -> Family | None:
        return StudentFamily() if self.degrees is None else None
