"""How a cell is written as text: the grammar of each declared type, in words that Python and RE2 share.

One grammar for every reader, so that a cell means the same wherever it lies. It knows no engine and no file.
"""

from __future__ import annotations

import re

BLANKS = " \t\r\n"  # around a cell they mean nothing
WHOLE = r"[+-]?[0-9]{1,18}(?:\.0{0,400})?"
DECIMAL = r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?"
DAY = (  # its first ten characters are the day
    "[0-9]{4}(?:-[0-9]{2}-[0-9]{2}|/[0-9]{2}/[0-9]{2})"
    "(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?: ?(?:Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)
TRUE = ("true", "t", "yes", "y", "on", "1", "1.0")
FALSE = ("false", "f", "no", "n", "off", "0", "0.0")


def is_unicode(text: str) -> bool:
    """Return whether a text is whole: without half of a character (a lone surrogate), which no engine holds."""
    return re.search("[\ud800-\udfff]", text) is None
