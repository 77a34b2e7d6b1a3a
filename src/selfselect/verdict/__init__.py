"""The verdict: one question under several models, and how much of the answer is the data."""

from selfselect.verdict.questions import check_question
from selfselect.verdict.verdict import Verdict

__all__ = ["Verdict", "check_question"]
