"""How the documentation site is built: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _site import docstrings, gallery, mathml, pages, reference

import selfselect

project = "selfselect"
copyright = "the selfselect maintainers"
author = "the selfselect maintainers"
release = version = selfselect.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
exclude_patterns = ["_build", "_pages", "_site"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# Made by scikit-learn, with references into its own documentation.
autodoc_default_options = {"exclude-members": "set_fit_request, set_score_request"}
autosummary_generate = False
html_theme = "pydata_sphinx_theme"
html_title = "selfselect"
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "navigation_with_keys": False,
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system is
html_math_renderer = "mathml"
html_static_path = ["_site/static"]
pages.FOLDER.mkdir(exist_ok=True)
html_extra_path = ["_pages"]
html_css_files = ["site.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_sidebars: dict[str, list[str]] = {"index": []}


def setup(app: Any) -> None:
    """Write the pages that are made, and show formulas without any script."""
    mathml.setup(app)
    docstrings.setup(app)
    app.connect("builder-inited", gallery.build)
    app.connect("builder-inited", reference.build)
    app.connect("builder-inited", pages.build)
