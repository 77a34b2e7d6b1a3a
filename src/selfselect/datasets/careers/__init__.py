"""Careers of young men: yearly choices and wages (Keane and Wolpin 1997)."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd

__all__ = ["careers"]

CHOICES = {1: "school", 2: "home", 3: "white collar", 4: "blue collar", 5: "military"}


def careers() -> pd.DataFrame:
    """Load the careers of 1,373 young US men, one row per person and year (12,359 rows).

    Columns: ``id``, ``age``, ``schooling`` (years), ``choice`` (school, home, white collar, blue
    collar, military) and ``wage`` (yearly; observed only in a working choice, and not always).

    A model of wages by occupation on this data sees only those who work: those at school or at
    home chose an alternative whose outcome nobody recorded, and leaving them out is a selection
    the model does not correct.

    Source: Keane and Wolpin, "The Career Decisions of Young Men", Journal of Political Economy 105
    (1997), from the NLSY79, as published by OpenSourceEconomics (MIT licence).

    Examples
    --------
    >>> from selfselect.datasets import careers
    >>> len(careers())
    12359
    """
    with files(__package__).joinpath("careers.csv").open("rb") as file:
        table = pd.read_csv(file)
    return table.assign(choice=table["choice"].map(CHOICES))
