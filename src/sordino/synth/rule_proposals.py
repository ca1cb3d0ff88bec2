"""Rules that a table may have, by the names and types of its columns and by a codebook: drafts for a person to judge.

Nothing is read from the data. `count_violations` asks the table, privately and for a price, how many rows break each of them.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from sordino.ask.queries.build import Selection, count
from sordino.core.domain import Boolean, Category, Column, Date, DateTime, Domain, Identifier, Integer, List, Real
from sordino.core.errors import DeclarationError, SordinoError
from sordino.core.loss import LossArguments, show_arguments
from sordino.synth.encoded_column import model_columns
from sordino.synth.rule_completion import check_rules
from sordino.synth.rule_text import read_rule
from sordino.synth.rules import Rule, require_rules

if TYPE_CHECKING:
    from sordino.core.release import Release

# Words in names: of what is the lesser and the greater, of a whole, and of its two parts.
_ORDERS = (
    ("start", "end"), ("begin", "end"), ("from", "to"), ("min", "max"), ("minimum", "maximum"), ("lower", "upper"),
    ("low", "high"), ("first", "last"), ("birth", "death"), ("born", "died"), ("admission", "discharge"),
    ("admitted", "discharged"), ("arrival", "departure"), ("hired", "left"), ("built", "renovated"), ("paid", "billed"),
    ("net", "gross"),
)  # fmt: skip
_WHOLES = frozenset({"total", "sum", "overall", "all", "gross", "combined"})
_PARTS = {
    "living": ("above", "basement"),
    "total": ("male", "female"),
    "payment": ("principal", "interest"),
    "gross": ("net", "tax"),
}
_MOST_PARTS = 6
# Columns that children mostly have nothing in, and the age up to which a draft says so.
_ADULT = frozenset(
    {"income", "earnings", "wage", "wages", "salary", "pay", "occupation", "job", "employer", "industry", "hours"}
)
_AGE = 15
_YEARS = re.compile(r"(?i)(?:less than|under|younger than|below)\s+(?:age\s+)?(\d{1,3})\b")
_NOT_ASKED = re.compile(r"(?i)\b(?:blank|missing|empty|n/?a|not applicable|not asked|only)\b")
_SUM = re.compile(r"(?i)\b(?:sum|total)\s+of\s+(.+?)(?:[.;]|$)")
_AT_MOST = re.compile(r"(?i)\b(?:at most|no more than|not more than|never above|not after|on or before)\s+(\w+)")
_AT_LEAST = re.compile(r"(?i)\b(?:at least|no less than|not less than|never below|not before|on or after)\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule as a project file states it, what suggests it, and the rule itself."""

    text: str
    reason: str
    rule: Rule


def propose_rules(domain: Domain, *, codebook: Mapping[str, str] | None = None) -> tuple[Proposal, ...]:
    """Return rules that the declared columns may obey, the likeliest first; `codebook` describes columns in words.

    Each can hold with those before it. They are drafts: names suggest, and a person who knows the table judges.

    >>> columns = {name: Integer(0, 5000) for name in ("sqft_above", "sqft_basement", "sqft_living")}
    >>> [p.text for p in propose_rules(Domain(columns))]
    ['sqft_above + sqft_basement = sqft_living']
    """
    drafts = [*_from_codebook(domain, codebook or {}), *_sums(domain), *_orders(domain), *_children(domain)]
    columns = model_columns(domain)
    proposals: list[Proposal] = []
    for text, reason in drafts:
        if any(text == p.text for p in proposals):
            continue
        try:
            rule = read_rule(text, tuple(domain))
            check_rules([*(p.rule for p in proposals), rule], columns, domain)
        except SordinoError:
            continue
        proposals.append(Proposal(text, reason, rule))
    return tuple(proposals)


@show_arguments(LossArguments)
def count_violations(source: Any, rules: Sequence[Rule], **loss: Unpack[LossArguments]) -> Release:
    """Return how many rows of a table break each rule: one Release, charged once, with a column rule_1, rule_2, ... each."""
    stated = require_rules(rules)
    if not stated:
        raise DeclarationError("there is no rule to test")
    counts = {f"rule_{place}": count(where=rule.violation()) for place, rule in enumerate(stated, start=1)}
    release: Release = source.ask(Selection().agg(**counts), **loss)
    return release


def read_codebook(path: str | Path) -> dict[str, str]:
    """Return what a CSV file of two columns, a column's name and its description, says of each."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DeclarationError(f"{path} cannot be read: a codebook is a CSV file of names and descriptions") from None
    return {row[0].strip(): " ".join(row[1:]).strip() for row in rows if len(row) > 1}


def _words(name: str) -> tuple[str, ...]:
    """Return the words of a column's name, in lower case.

    >>> _words("sqftLiving_15")
    ('sqft', 'living', '15')
    """
    return tuple(w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name))


def _kind(column: Column | List) -> str:
    """Return what columns can be compared as."""
    if isinstance(column, (Integer, Real)):
        return "number"
    return type(column).__name__ if isinstance(column, (Date, DateTime)) else ""


def _orders(domain: Domain) -> Iterator[tuple[str, str]]:
    words = {name: _words(name) for name in domain}
    for lower, upper in itertools.permutations(domain, 2):
        if not _kind(domain[lower]) or _kind(domain[lower]) != _kind(domain[upper]):
            continue
        for less, more in _ORDERS:
            if less in words[lower] and tuple(more if w == less else w for w in words[lower]) == words[upper]:
                yield f"{lower} <= {upper}", f"the names say {less} and {more}"


def _sums(domain: Domain) -> Iterator[tuple[str, str]]:
    words = {name: _words(name) for name in domain if _kind(domain[name]) == "number"}
    for whole, parts in _PARTS.items():
        for name, of in words.items():
            stem = [w for w in of if w != whole]
            found = [next((n for n, w in words.items() if sorted(w) == sorted([*stem, p])), None) for p in parts]
            if whole in of and None not in found:
                yield f"{' + '.join(str(n) for n in found)} = {name}", f"{whole} is {' and '.join(parts)}"
    for name, of in words.items():
        stem = [w for w in of if w not in _WHOLES]
        if not stem or len(stem) == len(of):
            continue
        parts_of = [n for n, w in words.items() if n != name and set(stem) <= set(w) and not _WHOLES & set(w)]
        if 2 <= len(parts_of) <= _MOST_PARTS:
            yield f"{' + '.join(parts_of)} = {name}", "the names say a whole and its parts"


def _children(domain: Domain) -> Iterator[tuple[str, str]]:
    age = next((n for n in domain if "age" in _words(n) and isinstance(domain[n], (Integer, Real))), None)
    if age is None:
        return
    for name in domain:
        column = domain[name]
        words = set(_words(name))
        if isinstance(column, (Identifier, List)):
            continue
        if words & _ADULT and column.missing in ("keep", "drop"):
            yield f"blank {name} when {age} < {_AGE}", "children mostly have none: state the age from the questionnaire"
        if words & {"married", "spouse"} and isinstance(column, Boolean):
            yield f"never {age} < {_AGE} AND {name}", "children are not married: state the age from the law"
        if words & {"marital", "married"} and isinstance(column, Category):
            values = [v for v in column.values if isinstance(v, str) and v.lower().startswith("married")]
            listed = ", ".join("'" + v.replace("'", "''") + "'" for v in values)
            if values:
                yield (
                    f"never {age} < {_AGE} AND {name} IN ({listed})",
                    "children are not married: state the age from the law",
                )


def _from_codebook(domain: Domain, codebook: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    by_name = {name.lower(): name for name in domain}
    age = next((n for n in domain if "age" in _words(n) or n.lower() == "agep"), None)
    for key, text in codebook.items():
        name = by_name.get(key.lower())
        if name is None:
            continue
        reason = f"the codebook says so of {name}"
        years = _YEARS.search(text)
        if years and age and _NOT_ASKED.search(text) and name != age:
            yield f"blank {name} when {age} < {years[1]}", reason
        if found := _SUM.search(text):
            parts = [by_name[w.lower()] for w in re.findall(r"\w+", found[1]) if w.lower() in by_name]
            if len(parts) > 1:
                yield f"{' + '.join(parts)} = {name}", reason
        if (found := _AT_MOST.search(text)) and found[1].lower() in by_name:
            yield f"{name} <= {by_name[found[1].lower()]}", reason
        if (found := _AT_LEAST.search(text)) and found[1].lower() in by_name:
            yield f"{by_name[found[1].lower()]} <= {name}", reason
