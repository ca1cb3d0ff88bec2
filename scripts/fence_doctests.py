"""An extension of griffe, for the site: put the doctests of docstrings into fences, so that they show as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

_DOCTEST = re.compile(r"^( *)>>> .*(?:\n(?!\s*$).*)*", flags=re.MULTILINE)


class FenceDoctests(Extension):
    """Change each docstring as it is collected; the source stays as it is."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Fence the doctests of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```\n", obj.docstring.value)
