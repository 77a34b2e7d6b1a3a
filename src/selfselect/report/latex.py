"""Pages as LaTeX, with booktabs rules."""

from __future__ import annotations

from selfselect.report.page import Block, Page
from selfselect.visible import visible

__all__ = ["escape_latex", "render"]

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Escape what LaTeX would read as commands."""
    return "".join(_SPECIAL.get(character, character) for character in visible(text))


def render(page: Page) -> str:
    """Render a page's tables, its notices above and its notes below them."""
    lines = [
        r"\begin{table}",
        rf"\caption{{{escape_latex(page.title)}}}",
        *(rf"\par\textbf{{{escape_latex(notice)}}}" for notice in page.notices),
    ]
    if page.blocks:
        width = max(len(block.header) for block in page.blocks)
        lines += [rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}", r"\toprule"]
        for place, block in enumerate(page.blocks):
            lines += [r"\midrule"] * (place > 0) + _block(block, width)
        lines += [r"\bottomrule", r"\end{tabular}"]
    sentences = [*(f"{name}: {value}." for name, value in page.facts), *page.notes]
    lines += [rf"\par\small {escape_latex(sentence)}" for sentence in sentences]
    lines.append(r"\end{table}")
    return "\n".join(lines)


def _block(block: Block, width: int) -> list[str]:
    def line(row: tuple[str, ...]) -> str:
        return " & ".join(escape_latex(cell) for cell in row) + r" \\"

    title = rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{escape_latex(block.title)}}}}} \\"
    head = [title] if block.title else []
    return [*head, line(block.header), r"\midrule", *(line(row) for row in block.rows)]
