"""The verdict: one question under several models, and how much of the answer is the data."""

from selfselect.verdict.verdict import Verdict, make_verdict

__all__ = ["Verdict", "make_verdict"]
