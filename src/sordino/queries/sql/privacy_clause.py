"""SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...): what others write about privacy in the text goes beside the question here.

Such a text is refused with the question that says the same: its loss as arguments, its bounds as CLIP.
"""

from __future__ import annotations

import re

from sordino.errors import QuestionRefused

__all__ = ["refuse_privacy_clause"]

_CLAUSE = re.compile(
    r"\bWITH\s+(DIFFERENTIAL_PRIVACY|ANONYMIZATION)\b\s*(?:OPTIONS\s*\((?P<options>(?:[^()]|\([^()]*\))*)\))?\s*",
    re.IGNORECASE,
)
_LOSS = re.compile(r"\b(epsilon|delta)\s*=\s*([0-9.eE+-]+)", re.IGNORECASE)
_GROUPS = re.compile(r"\b(?:max_groups_contributed|kappa)\s*=\s*([0-9]+)", re.IGNORECASE)
_ANONYMOUS = re.compile(r"\bANON_(COUNT|SUM|AVG|VAR_POP|STDDEV_POP|PERCENTILE_CONT|QUANTILES)\b", re.IGNORECASE)
_NUMBER = r"\s*(-?[0-9.]+)\s*"
_CLAMPED = re.compile(rf"\(\s*([^()]+?)\s+CLAMPED\s+BETWEEN{_NUMBER}AND{_NUMBER}\)", re.IGNORECASE)
_NAMED = re.compile(
    rf"\(\s*([^(),]+?)\s*,\s*contribution_bounds_per_(?:group|row)\s*=>\s*\({_NUMBER},{_NUMBER}\)\s*\)", re.IGNORECASE
)


def refuse_privacy_clause(text: str) -> None:
    """Raise QuestionRefused for a text that states its privacy itself, with the one that is asked here instead.

    >>> refuse_privacy_clause("SELECT WITH ANONYMIZATION OPTIONS (epsilon=1) ANON_SUM(x CLAMPED BETWEEN 0 AND 9) FROM t")
    Traceback (most recent call last):
        ...
    sordino.errors.QuestionRefused: WITH ANONYMIZATION is not supported: the loss is stated beside the question, and \
the privacy unit and its caps in the declaration; ask "SELECT SUM(CLIP(x, 0, 9)) FROM t" with epsilon=1
    """
    found, anonymous = _CLAUSE.search(text), _ANONYMOUS.search(text)
    named = f"WITH {found.group(1)}" if found else anonymous.group(0) if anonymous else None
    if named is None:
        return
    options = (found.group("options") or "") if found else ""
    plain = _CLAUSE.sub("", text)
    plain = _NAMED.sub(r"(CLIP(\1, \2, \3))", _CLAMPED.sub(r"(CLIP(\1, \2, \3))", _ANONYMOUS.sub(r"\1", plain)))
    plain = " ".join(plain.split())
    loss = ", ".join(f"{name.lower()}={value}" for name, value in _LOSS.findall(options)) or "epsilon=..."
    groups = _GROUPS.search(options)
    also = "" if groups is None else f"; max_groups = {groups.group(1)} goes into privacy_unit"
    shown = f'ask "{plain}"' if len(plain) <= 300 else "ask the same without it"
    raise QuestionRefused(
        f"{named.upper()} is not supported: the loss is stated beside the question, and the privacy unit and its caps in the "
        f"declaration; {shown} with {loss}{also}"
    )
