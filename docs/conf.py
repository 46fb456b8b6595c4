"""Sphinx's settings: the site is `make docs`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
os.environ["LIVEGRAD_NATIVE"] = "off"  # signatures are read from Python's functions
sys.path[:0] = [str(HERE), str(HERE.parent)]

import gallery  # noqa: E402
import reference  # noqa: E402

import livegrad  # noqa: E402

project = "livegrad"
author = "the livegrad developers"
version = release = livegrad.__version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
add_module_names = False
toc_object_entries_show_parents = "hide"

highlight_language = "none"  # of what is marked as no language: commands, drawings

html_theme = "pydata_sphinx_theme"
html_title = "livegrad"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_nav_level": 1,
}
copyright = "the livegrad developers, Apache 2.0"


def setup(app: Any) -> None:
    app.connect("builder-inited", lambda app: reference.write(HERE / "reference"))
    app.connect("builder-inited", lambda app: gallery.write(HERE / "examples"))
