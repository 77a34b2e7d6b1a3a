"""The options of the known-index theorem, with its unstated constants set to one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from selfselect.errors import OptionError

__all__ = ["TheoryCost", "theory_cost"]


@dataclass(frozen=True)
class TheoryCost:
    """The options that the theorem asks for, and what they cost.

    Attributes
    ----------
    n_steps : steps of stochastic ascent, one fresh row each.
    n_rows : rows it wants, so that draws with replacement seldom collide (n >= 2 T^2 / 0.01).
    sampler_steps, gamma, radius : of projected Langevin: m, the step size, the ball.
    projections : n_steps times sampler_steps.
    """

    n_steps: int
    n_rows: float
    sampler_steps: int
    gamma: float
    radius: float
    projections: float

    def __str__(self) -> str:
        return (
            f"{self.n_steps:.3g} steps of stochastic ascent, each with {self.sampler_steps:.3g} "
            f"steps of projected Langevin of size {self.gamma:.3g} in a ball of radius "
            f"{self.radius:.3g}: {self.projections:.3g} projections. Drawn with replacement the "
            f"theorem wants {self.n_rows:.3g} rows; without, {self.n_steps:.3g}. Constants that "
            "the theorem leaves open are set to one."
        )


def theory_cost(
    alpha: float, B: float, C: float, sigma: float, accuracy: float, n_alternatives: int
) -> TheoryCost:
    r"""Work out the options that the theorem asks for.

    The error of T averaged steps is bounded by
    :math:`\sigma^4 k^3 (BC)^2 (1 + \log T) / (\alpha^2 T)`. The bias of a gradient may be
    :math:`\rho^2 / (2 \lambda \mathrm{diam}\, T)`, which sets the distance in total variation that
    the sampler must reach; for that Bubeck, Eldan and Lehec (2018, Theorem 1) ask for
    :math:`m = R^6 \max(k, RL, R\beta)^{12} / \epsilon^{12}` steps of size :math:`R^2/m`.
    """
    numbers = {"alpha": alpha, "B": B, "C": C, "sigma": sigma, "accuracy": accuracy}
    for name, value in numbers.items():
        if not 0 < value < np.inf:
            raise OptionError(f"{name}={value!r} must be a positive number.")
    if alpha > 1 or n_alternatives < 2:
        raise OptionError(
            f"alpha={alpha!r} must be a probability, and n_alternatives={n_alternatives!r} must be "
            "at least 2."
        )
    k, reach = n_alternatives, B * C / sigma
    wanted = sigma**4 * k**3 * (B * C) ** 2 / (alpha**2 * accuracy**2)
    n_steps = max(wanted, 1.0)
    for _ in range(100):
        n_steps = wanted * (1.0 + np.log(max(n_steps, 1.0)))
    rho2, strength = k * (1.0 + reach) ** 2, alpha / k
    bias = rho2 / (2.0 * strength * 2.0 * np.sqrt(k) * (B / sigma) * n_steps)
    distance = min(0.5, bias / np.sqrt(rho2))
    inner = np.sqrt(k) + np.sqrt(2.0 * np.log(2.0 / alpha))
    log_mass = np.log(alpha / 2.0) - 0.5 * (reach**2 + 2.0 * reach * inner)
    radius = np.sqrt(k) + reach + np.sqrt(2.0 * (np.log(16.0 / distance) - log_mass))
    slope = radius + reach
    m = radius**6 * max(k, radius * slope, radius) ** 12 / distance**12
    return TheoryCost(
        n_steps=int(np.ceil(n_steps)),
        n_rows=2.0 * n_steps**2 / 0.01,
        sampler_steps=int(m),
        gamma=float(radius**2 / m),
        radius=float(radius * sigma),
        projections=float(n_steps * m),
    )
