"""HTML pages of released things, from the templates beside this file: a page loads nothing from the network."""

from __future__ import annotations

from pathlib import Path

from sordino.core.templates import open_templates


def render(template: str, **values: object) -> str:
    """Return a page from one of the templates beside this file."""
    return open_templates(Path(__file__).with_name("templates")).get_template(template).render(values)
