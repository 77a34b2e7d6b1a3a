"""Text of the user, as it is shown: nothing in it turns, hides or colours what stands after it."""

from __future__ import annotations

import re

HIDDEN = re.compile(
    # Control characters but tabs and line breaks; marks, embeddings, overrides and isolates of
    # direction; separators of lines; halves of pairs, which cannot be written.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]"
)

FROM_THE_RIGHT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
"""Letters of scripts that run from right to left, Hebrew and Arabic among them."""

WORDS = re.compile(f"[{FROM_THE_RIGHT}]+(?: [{FROM_THE_RIGHT}]+)*")


def visible(text: str) -> str:
    r"""Write characters that would act rather than be seen as Python writes them, ``\u202e``.

    For what is shown only: labels that are keys stay as they are.
    """
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def on_one_line(text: str) -> str:
    """Do the same with spaces for tabs and line breaks, where text has one line to stand on."""
    return visible(text.replace("\t", " ").replace("\n", " "))


def left_to_right(text: str) -> str:
    """Do as `visible` does, and end words that run from right to left by a mark of direction.

    For pages that a browser orders: numbers and signs after such a word would else stand before
    it. Text to be typed or copied is not for this.
    """
    return WORDS.sub("\\g<0>\u200e", visible(text))
