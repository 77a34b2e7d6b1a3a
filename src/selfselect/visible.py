"""Text of the user, as it is shown: nothing in it turns, hides or colours what stands after it."""

from __future__ import annotations

import re

__all__ = ["on_one_line", "visible"]

HIDDEN = re.compile(
    # Control characters but tabs and line breaks; marks, embeddings, overrides and isolates of
    # direction; separators of lines; halves of pairs, which cannot be written.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Write characters that would act rather than be seen as Python writes them, ``\u202e``.

    For what is shown only: labels that are keys stay as they are.
    """
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def on_one_line(text: str) -> str:
    """Do the same with spaces for tabs and line breaks, where text has one line to stand on."""
    return visible(text.replace("\t", " ").replace("\n", " "))
