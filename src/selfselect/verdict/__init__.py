"""The verdict: one question under several models, and how much of the answer is the data."""

from selfselect.verdict.questions import check_question
from selfselect.verdict.verdict import (
    SavedVerdict,
    Verdict,
    make_verdict,
    restore_verdict,
    saved_verdict,
)

__all__ = [
    "SavedVerdict", "Verdict", "check_question", "make_verdict", "restore_verdict", "saved_verdict",
]  # fmt: skip
