"""Templates of pages that are one file: everything is escaped, and nothing may be fetched."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Any

from selfselect.visible import FROM_THE_RIGHT, left_to_right, visible

__all__ = ["render_page", "typed"]


def render_page(
    template: str, *, style: tuple[str, ...], script: tuple[str, ...], **values: Any
) -> str:
    """Render a template with style and script inside.

    The page's security policy allows this script alone, by its hash, and no connection.

    Parameters
    ----------
    template, style, script : files of the package, such as ``report/full_page.html``.
    values : for the template; escaped where they are shown, unless they are `markupsafe.Markup`.
    """
    from markupsafe import Markup

    # What a browser hashes is the text between the tags, as it is.
    code = "\n" + "\n".join(map(_file, script))
    digest = base64.b64encode(hashlib.sha256(code.encode("utf-8")).digest()).decode("ascii")
    made: str = (
        _environment()
        .get_template(template)
        .render(
            style=Markup("\n".join(map(_file, style))),
            script=Markup(code),
            script_hash=f"sha256-{digest}",
            **values,
        )
    )
    return made


def _file(name: str) -> str:
    return files("selfselect").joinpath(name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Return what a template shows of a value; markup, which holds no text of a user, as it is."""
    return left_to_right(value) if type(value) is str else value


def typed(text: str) -> Any:
    """Return text to be typed as markup; what is quoted runs in the direction of its letters."""
    from markupsafe import Markup, escape

    parts = re.split(f"('[^']*[{FROM_THE_RIGHT}][^']*')", visible(text))
    quoted = Markup("<bdi>{}</bdi>")
    return Markup("").join(
        quoted.format(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


@cache
def _environment() -> Any:
    # Imported here: most processes write no page.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment
