"""Outcomes of several alternatives between which a multinomial logit chooses, by two steps."""

from selfselect.multinomial.door import multinomial_switching
from selfselect.multinomial.result import MultinomialResult

__all__ = ["MultinomialResult", "multinomial_switching"]
