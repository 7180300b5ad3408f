"""Sphinx's settings for the site: `make docs` builds it, offline."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "tools"))

import shortcut_guardrail
from api_pages import NAMES_ROLE

project = "Shortcut Guardrail"
author = "The Shortcut Guardrail maintainers"
project_copyright = author
release = shortcut_guardrail.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "evidence",
    "forge_links",
    "mathml",
    "api_pages",
    "accessible",
]
exclude_patterns = ["tools"]

# Sources are plain Markdown, which a forge shows too; headings have the anchors that a forge gives them.
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b57a4", "color-brand-content": "#0b57a4"},
    "dark_css_variables": {"color-brand-primary": "#7ab7f5", "color-brand-content": "#7ab7f5"},
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
# Blocks without a language are commands and what they print.
highlight_language = "text"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# Docstrings put code between single backticks; names of the library become links.
default_role = NAMES_ROLE
# Classes of other projects: their documentation is not at hand offline.
nitpick_ignore_regex = [(r"py:.*", r"(?!shortcut_guardrail).*")]
# What signatures name and no caller needs to know.
nitpick_ignore = [
    ("py:class", f"shortcut_guardrail.{name}")
    for name in (
        "attribution.occlusion.MaskingEffects",
        "attribution.saliency.Saliency",
        "text.duplicates.Repeats",
        "audit.conditions.Metric",
        "audit.measurements.Shard",
        "audit.measurements.Measured",
        "data.sources.TextSource",
        "decisions.drawing.Key",
        "decisions.drawing.ReferenceText",
        "decisions.questions.ForJudges",
        "models.encoding.Batch",
        "models.encoding.EncodedTexts",
        "models.packing.PackedSequences",
        "report.html.Result",
        "saving.record.GuardrailRecord",
        "text.finder.WordFinder",
    )
]
