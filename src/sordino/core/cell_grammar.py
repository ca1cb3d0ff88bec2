"""The grammar of a cell's text for each declared type, as regular expressions that Python and RE2 share.

There is one grammar for every reader, so that a cell means the same in every source. It knows no engine and no file.
"""

from __future__ import annotations

import re

# ignored around a cell
BLANKS = " \t\r\n"
WHOLE = r"[+-]?[0-9]{1,18}(?:\.0{0,400})?"
DECIMAL = r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?"
# its first ten characters are the day
DAY = (
    "[0-9]{4}(?:-[0-9]{2}-[0-9]{2}|/[0-9]{2}/[0-9]{2})"
    "(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?: ?(?:Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)
TRUE = ("true", "t", "yes", "y", "on", "1", "1.0")
FALSE = ("false", "f", "no", "n", "off", "0", "0.0")


def is_unicode(text: str) -> bool:
    """Return whether a text is valid Unicode, without a lone surrogate (half of a character), which no engine can store."""
    return re.search("[\ud800-\udfff]", text) is None
