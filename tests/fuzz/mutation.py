"""Broken inputs made from sound ones: bytes flipped, cut and spliced, hostile words put in, trees of JSON bent.

Each input follows from a seed, so that what fails can be fed again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

WORDS = (
    "\0",
    "\ud800",
    "\udfff",
    "\u202e",
    "\ufeff",
    "é\u0301",
    "𝕊",
    "'",
    '"',
    "`",
    "$$",
    "--",
    "/*",
    ";",
    "\\",
    "\r\n",
    "\n\n",
    "\t",
    ",",
    ",,",
    "(",
    ")",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    "%s%n",
    "{0.__class__}",
    "NULL",
    "null",
    "nan",
    "inf",
    "-inf",
    "1e309",
    "1e-400",
    "-0.0",
    "1e999999999",
    "9" * 400,
    "0." + "3" * 400,
    "9223372036854775808",
    "-9223372036854775809",
    "1/0",
    "0x1p-1074",
    "0001-01-01",
    "9999-12-31",
    "2023-02-29",
    "true",
    "a" * 5_000,
    "(" * 3_000,
    "[" * 3_000,
    "NOT " * 2_000,
    "- " * 2_000,
    "1+" * 2_000,
    "((((((((((1))))))))))",
    "../../../etc/passwd",
    "__proto__",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**400,
    0.5,
    -0.0,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    "",
    "0",
    "1/3",
    "1/0",
    "1e999999999",
    "nan",
    "\0",
    "\ud800",
    "a" * 5_000,
    [],
    {},
    [[]],
    [None],
    {"": None},
)


def mutate_text(corpus: Sequence[str], words: Sequence[str], draw: random.Random) -> str:
    """Return a text of the corpus with one to four changes; `words` are its language's own."""
    text = draw.choice(corpus)
    if draw.random() < 0.4:  # the language's own words alone: what is broken later than at its grammar
        for _ in range(draw.choice([1, 2, 3])):
            found, new = draw.choice([word for word in words if word in text] or words), draw.choice(words)
            text = text.replace(found, new, draw.choice([1, 1, -1]))
        return text
    for _ in range(draw.choice([1, 1, 2, 4])):
        text = _change(text, draw.choice(corpus), words, draw)
    return text


def _change(text: str, other: str, words: Sequence[str], draw: random.Random) -> str:
    at, size = draw.randrange(len(text) + 1), draw.choice([1, 1, 2, 5, 20, 100])
    act = draw.randrange(8)
    if act == 0:  # cut out
        return text[:at] + text[at + size :]
    if act == 1:  # say twice, or often
        return text[:at] + text[at : at + size] * draw.choice([2, 2, 3, 300]) + text[at + size :]
    if act == 2:  # splice
        there = draw.randrange(len(other) + 1)
        return text[:at] + other[there:]
    if act == 3:  # one character
        return text[:at] + chr(draw.choice([draw.randrange(128), draw.randrange(0x3000)])) + text[at + 1 :]
    if act == 4:  # a hostile word
        return text[:at] + draw.choice(WORDS) + text[at + draw.choice([0, size]) :]
    if act == 5:  # the language's own word in another's place
        found, new = draw.choice(words), draw.choice(words)
        return text.replace(found, new, 1) if found in text else text[:at] + f" {new} " + text[at:]
    if act == 6:  # a part of another one
        there = draw.randrange(len(other) + 1)
        return text[:at] + other[there : there + size] + text[at:]
    pieces = text.split(" ")  # a word left out, or two exchanged
    one, two = draw.randrange(len(pieces)), draw.randrange(len(pieces))
    pieces[one], pieces[two] = pieces[two], pieces[one]
    return " ".join(pieces[draw.choice([0, 0, 1]) :])


def mutate_bytes(corpus: Sequence[bytes], draw: random.Random) -> bytes:
    """Return bytes of the corpus, changed as `mutate_text` changes text."""
    texts = [one.decode("latin-1") for one in corpus]
    changed = mutate_text(texts, ["\0", "\0\0\0\1", "\xff\xff\xff\xff", "\x7f\xff\xff\xff"], draw)
    return changed.encode("utf-8", "replace") if any(ord(c) > 255 for c in changed) else changed.encode("latin-1")


def bend_tree(tree: Any, draw: random.Random) -> Any:
    """Return a copy of JSON data with one to three nodes replaced, removed, renamed, nested or said twice."""
    for _ in range(draw.choice([1, 1, 2, 3])):
        tree = _bend(tree, draw)
    return tree


def _bend(node: Any, draw: random.Random) -> Any:
    if isinstance(node, dict) and node and draw.random() < 0.85:
        name = draw.choice(list(node))
        if draw.random() < 0.75:
            return {**node, name: _bend(node[name], draw)}
        act, rest = draw.randrange(4), {key: value for key, value in node.items() if key != name}
        changes: list[Any] = [
            {},
            {name + "x": node[name]},
            {name: draw.choice(list(node.values()))},
            {draw.choice(WORDS): 1},
        ]
        return rest | changes[act]
    if isinstance(node, list) and node and draw.random() < 0.85:
        at = draw.randrange(len(node))
        act = draw.randrange(6)
        parts = [_bend(node[at], draw), node[at], node[at], node[at]]
        return [*node[:at], *(parts[: (1, 1, 1, 0, 3, 1)[act]]), *node[at + 1 :]]
    if draw.random() < 0.1:
        for _ in range(draw.choice([1, 5, 300])):
            node = [node] if draw.random() < 0.5 else {"is": node}
        return node
    if isinstance(node, str) and draw.random() < 0.5:
        return _change(node, node, WORDS, draw)
    if isinstance(node, (int, float)) and draw.random() < 0.3:
        return -node
    return draw.choice(VALUES)


def shrink(text: Any, fails: Any, *, most: int = 300) -> Any:
    """Return a shorter text or bytes that still fails: parts are left out, the longest first."""
    size, tries = max(1, len(text) // 2), 0
    while size and tries < most:
        at = 0
        while at < len(text) and tries < most:
            shorter, tries = text[:at] + text[at + size :], tries + 1
            if fails(shorter):
                text = shorter
            else:
                at += size
        size //= 2
    return text
