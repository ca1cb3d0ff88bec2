"""Where each key of a TOML text stands: its line and column, and how its path is written. It knows TOML's grammar alone."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator

# Where a value stands in a document.
Path = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'(?:.|\n)*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''',
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def positions(text: str) -> dict[Path, tuple[int, int]]:
    """Return the line and column, both from 1, of every key and list element of a valid TOML text.

    A key's path is that of its value; a table made of several headers stands where it is first named.

    >>> positions('[a]\\nb = {c = 1, d.e = [2]}')[("a", "b", "d", "e")]
    (2, 15)
    """
    scan = _Scan(text.replace("\r\n", "\n"))
    scan.document()
    starts = [0, *(m.end() for m in re.finditer("\n", scan.text))]
    places: dict[Path, tuple[int, int]] = {}
    for path, offset in scan.offsets.items():
        line = bisect.bisect_right(starts, offset)
        places[path] = (line, offset - starts[line - 1] + 1)
    return places


def dotted_key(path: Path) -> str:
    """Return a path as a TOML key: bare where it can be, list elements in brackets.

    >>> dotted_key(("tables", "adult", "columns", "marital status", "values", 2))
    'tables.adult.columns."marital status".values[2]'
    """
    parts = (f"[{p}]" if isinstance(p, int) else f".{write_key(p)}" for p in path)
    return "".join(parts).removeprefix(".")


class _Scan:
    """One pass over a TOML text that is known to be valid: where each path starts, as an offset."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.offsets: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        while self._space():
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _space(self) -> bool:
        """Skip spaces, line ends and comments; return whether text is left."""
        self.at = self._match(_SPACE).end()
        return self.at < len(self.text)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"not TOML at offset {self.at}")
        return match

    def _keys(self) -> Iterator[tuple[str, int]]:
        while True:
            match = self._match(_KEY)
            self.at = match.end()
            yield _unquote(match.group()), match.start()
            dot = _DOT.match(self.text, self.at)
            if dot is None:
                return
            self.at = dot.end()

    def _header(self) -> Path:
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        self._space()
        path: Path = ()
        for key, start in self._keys():
            path = (*path, key)
            self.offsets.setdefault(path, start)
            if path in self._arrays and not (array and self.text[self.at] == "]"):
                path = (*path, self._arrays[path])
        if array:
            self._arrays[path] = self._arrays.get(path, -1) + 1
            path = (*path, self._arrays[path])
            self.offsets.setdefault(path, self.at)
        self.at = self.text.index("]", self.at) + (2 if array else 1)
        return path

    def _pair(self, table: Path) -> None:
        path = table
        for key, start in self._keys():
            path = (*path, key)
            self.offsets.setdefault(path, start)
        self._space()
        # Past the equals sign.
        self.at += 1
        self._space()
        self._value(path)

    def _value(self, path: Path) -> None:
        opening = self.text[self.at]
        if opening in "\"'":
            self.at = self._match(_STRING).end()
        elif opening in "[{":
            self.at += 1
            index = 0
            while self._space() and self.text[self.at] not in "]}":
                if self.text[self.at] == ",":
                    self.at += 1
                elif opening == "{":
                    self._pair(path)
                else:
                    self.offsets.setdefault((*path, index), self.at)
                    self._value((*path, index))
                    index += 1
            self.at += 1
        else:
            self.at = self._match(_SCALAR).end()


def _unquote(key: str) -> str:
    if key[0] == "'":
        return key[1:-1]
    if key[0] != '"':
        return key
    import tomllib

    return str(next(iter(tomllib.loads(f"{key} = 0"))))


def write_key(name: str) -> str:
    """Return a key as TOML writes it: bare where it can be."""
    return name if _BARE.fullmatch(name) else quote_text(name)


def quote_text(value: str) -> str:
    """Return a text as TOML quotes it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
