"""Functions of `scipy.special`, which is loaded when one of them is first called.

Loading it takes as long as fitting a hundred thousand rows, and a fit by compiled kernels calls
none of them.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "bdtrik",
    "betaincinv",
    "chdtrc",
    "chdtri",
    "entr",
    "erfc",
    "erfcx",
    "exp1",
    "expit",
    "factorial2",
    "fdtrc",
    "gammaln",
    "log_ndtr",
    "logit",
    "ndtr",
    "ndtri",
    "ndtri_exp",
    "polygamma",
    "psi",
    "stdtr",
    "stdtrit",
]


class _Function:
    """A function of `scipy.special`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loaded: Any = None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.loaded is None:
            from scipy import special

            self.loaded = getattr(special, self.name)
        return self.loaded(*arguments, **options)


bdtrik, betaincinv = _Function("bdtrik"), _Function("betaincinv")
chdtrc, chdtri, fdtrc = _Function("chdtrc"), _Function("chdtri"), _Function("fdtrc")
entr, exp1 = _Function("entr"), _Function("exp1")
erfc, erfcx = _Function("erfc"), _Function("erfcx")
expit, logit = _Function("expit"), _Function("logit")
factorial2, gammaln = _Function("factorial2"), _Function("gammaln")
log_ndtr, ndtr = _Function("log_ndtr"), _Function("ndtr")
ndtri, ndtri_exp = _Function("ndtri"), _Function("ndtri_exp")
polygamma, psi = _Function("polygamma"), _Function("psi")
stdtr, stdtrit = _Function("stdtr"), _Function("stdtrit")
