"""Names that books and other libraries have for the relations and statistics here: one table, shared by errors and readers.

It may not know what any of them does. `docs/glossary.md` explains the words.
"""

from __future__ import annotations

import re

_RELATIONS = {
    "unbounded": "add_remove",
    "addremove": "add_remove",
    "addorremove": "add_remove",
    "symmetric": "add_remove",
    "symmetricdifference": "add_remove",
    "bounded": "replace",
    "hamming": "replace",
    "swap": "replace",
    "substitute": "replace",
    "substitution": "replace",
    "replaceone": "replace",
    "changeone": "replace",
}
_STATISTICS = {
    "variance": "var",
    "stdev": "std",
    "stddev": "std",
    "standarddeviation": "std",
    "average": "mean",
    "avg": "mean",
    "minimum": "min",
    "maximum": "max",
    "total": "sum",
    "size": "count",
    "len": "count",
}
_PERCENTILE = re.compile(r"(?:percentile|pctl?|p)(\d{1,2}(?:\.\d+)?|100)")


def suggest_relation(word: object) -> str | None:
    """Return the relation that a word of the field means, None where it is none.

    >>> suggest_relation("unbounded"), suggest_relation("bounded DP"), suggest_relation("add/remove"), suggest_relation("x")
    ('add_remove', 'replace', 'add_remove', None)
    """
    return _RELATIONS.get(strip_word(word).removesuffix("dp"))


def explain_relations(word: object) -> str:
    """Return the rule that a relation breaks, with the relation that was meant where the word is known.

    >>> print(explain_relations("unbounded"))
    must be "add_remove" or "replace", not 'unbounded': that is called "add_remove" here
    """
    meant = suggest_relation(word)
    hint = "" if meant is None else f': that is called "{meant}" here'
    return f'must be "add_remove" or "replace", not {word!r}{hint}'


def suggest_statistic(word: object) -> str | None:
    """Return the statistic that a word of the field means, None where it is none.

    >>> suggest_statistic("percentile_90"), suggest_statistic("Variance"), suggest_statistic("mode")
    ('quantile:0.9', 'var', None)
    """
    plain = strip_word(word)
    percent = _PERCENTILE.fullmatch(plain)
    return f"quantile:{float(percent[1]) / 100:.12g}" if percent else _STATISTICS.get(plain)


def strip_word(word: object) -> str:
    """Return a word in lower case without the marks that join its parts; nothing for what is no text.

    >>> strip_word("Geometric-Mean"), strip_word("count_distinct")
    ('geometricmean', 'countdistinct')
    """
    return re.sub(r"[\s_/:,-]+", "", word[:40].lower()) if isinstance(word, str) else ""
