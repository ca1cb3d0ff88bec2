"""Jinja templates of HTML pages: every value is escaped, and a missing value is an error."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def open_templates(directory: Path) -> Environment:
    """Return the templates of a directory."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(loader=FileSystemLoader(directory), autoescape=True, undefined=StrictUndefined)
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False}
    templates.filters["image_uri"] = _image_uri
    return templates


def _image_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
