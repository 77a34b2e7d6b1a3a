"""How well chains have mixed: effective sample size and split R-hat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from selfselect.errors import OptionError

__all__ = ["effective_sample_size", "split_r_hat"]

Array = NDArray[np.float64]


def split_r_hat(draws: Array) -> Array:
    """Compare the spread between half chains with that within: 1 where they agree.

    Parameters
    ----------
    draws : (chains, steps, ...) of any number of quantities, with 4 steps or more.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.samplers import split_r_hat
    >>> draws = np.random.default_rng(0).standard_normal((4, 1000))
    >>> bool(abs(split_r_hat(draws) - 1) < 0.01)
    True
    """
    halves = _split(draws)
    length = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = length * halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = ((length - 1) / length * within + between / length) / within
    # Chains that never move and agree have nothing to disagree about.
    return np.sqrt(np.where((within == 0) & (between == 0), 1.0, ratio))


def effective_sample_size(draws: Array) -> Array:
    """Count the independent draws that would give means as precise as these chains'.

    Autocorrelations are summed in pairs while they stay positive and fall (Geyer 1992).

    Parameters
    ----------
    draws : (chains, steps, ...) of any number of quantities, with 4 steps or more.

    Examples
    --------
    >>> import numpy as np
    >>> from selfselect.samplers import effective_sample_size
    >>> draws = np.random.default_rng(0).standard_normal((2, 1000))
    >>> bool(1500 < effective_sample_size(draws) < 2600)
    True
    """
    halves = _split(draws)
    n_chains, length = halves.shape[:2]
    centred = halves - halves.mean(axis=1, keepdims=True)
    padded = np.fft.rfft(centred, n=2 * length, axis=1)
    covariance = np.fft.irfft(padded * padded.conj(), n=2 * length, axis=1)[:, :length] / length
    covariance = covariance.mean(axis=0)
    within = covariance[0] * length / (length - 1)
    total = (length - 1) / length * within + halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1.0 - (within - covariance * length / (length - 1)) / total
    correlation[0] = 1.0
    pairs = correlation[0 : length - 1 : 2] + correlation[1:length:2]
    pairs = np.minimum.accumulate(np.where(np.isfinite(pairs), pairs, 0.0), axis=0)
    positive = np.cumprod(pairs > 0, axis=0)
    time = -1.0 + 2.0 * (pairs * positive).sum(axis=0)
    return np.asarray(n_chains * length / np.maximum(time, 1.0 / np.log10(n_chains * length)))


def _split(draws: Array) -> Array:
    if draws.ndim < 2 or draws.shape[1] < 4:
        raise OptionError(
            f"Diagnostics need draws of shape (chains, steps, ...) with 4 steps or more, not "
            f"{draws.shape}."
        )
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, half : 2 * half]])
