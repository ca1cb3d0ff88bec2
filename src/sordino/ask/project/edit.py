"""Edits of sordino.toml that keep what people wrote, and the record of comparisons with the data."""

from __future__ import annotations

import datetime
import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

from sordino.ask.project.load import DeclaredTable
from sordino.ask.project.positions import positions
from sordino.core.errors import DeclarationError, SourceError, UnknownName, nearest
from sordino.core.ledger.high_water_mark import marks_directory
from sordino.core.ledger.records import canonical, hash_of
from sordino.core.neighbors import Relation
from sordino.core.source import Source

# ---- A chosen cap, and why, put into the text of a project file: every other byte stays as it is
#
# It knows the text of sordino.toml; not how an epsilon is chosen, nor any ledger. It writes no file.

_DIGITS = 6
_WHY = "# why: "  # how a comment of ours begins


def round_cap_down(epsilon: float) -> str:
    """Return an epsilon as a TOML number of 6 significant digits, never above it.

    >>> round_cap_down(0.431720119567), round_cap_down(2.0), round_cap_down(1234567.9)
    ('0.43172', '2.0', '1234560.0')
    """
    cut = Context(prec=_DIGITS, rounding=ROUND_FLOOR).create_decimal(Decimal(epsilon))
    if not cut.is_finite() or cut <= 0:
        raise DeclarationError(f"a cap must be above 0 and finite, not {epsilon:g}")
    return _literal(cut)


def budget_in(
    text: str, *, name: str | None, relation: Relation | None, kind: frozenset[str] = frozenset({"epsilon"})
) -> str:
    """Return the budget of a project file that amounts of a `kind`, proved under `relation`, can be the cap of.

    None is the only budget there is. Raises UnknownName for one that is not declared; DeclarationError where several are
    and none is named, where its cap is of another kind, and where its tables hide people under another relation.

    >>> budget_in('[budgets.people]\\ncap = {epsilon = 2.0}', name=None, relation="add_remove")
    'people'
    """
    document = _parse(text)
    budgets = _table(document.get("budgets"))
    if name is None and len(budgets) != 1:
        raise DeclarationError(f"say which budget with --budget ({', '.join(budgets) or 'none is declared'})")
    found = next(iter(budgets)) if name is None else name
    if found not in budgets:
        raise UnknownName(f"budget {found!r} is not declared in the project file; {nearest(found, budgets)}")
    raw = budgets[found]
    cap = _table(raw).get("cap")
    if not isinstance(cap, Mapping) or set(cap) != kind:
        words = ", ".join(f"{key} = ..." for key in sorted(kind, key=lambda key: key == "delta"))
        raise DeclarationError(f"the cap of budget {found!r} is not {{{words}}}: its kind is not changed here")
    for table, declared in _table(document.get("tables")).items():
        stated = _table(declared).get("neighbors")
        if _table(declared).get("budget") == found and relation and stated in {"add_remove", "replace"} - {relation}:
            raise DeclarationError(
                f"this epsilon is for {relation}, and table {table!r} of budget {found!r} states {stated}: it says "
                "nothing there; name another budget"
            )
    return found


def with_cap(text: str, *, budget: str, cap: Mapping[str, Decimal], reason: str) -> str:
    """Return the text of a project file with the amounts of a cap and its reason; the rest as it was.

    The reason also stands above the cap as a comment, where it fits one line; an earlier comment of ours is replaced.

    >>> third = {"epsilon": Decimal("0.333333")}
    >>> print(with_cap('[budgets.a] # ours\\ncap = {epsilon = 2.0}  # all\\n', budget="a", cap=third, reason="so"))
    [budgets.a] # ours
    # why: so
    cap = {epsilon = 0.333333}  # all
    reason = "so"
    <BLANKLINE>
    """
    numbers = {key: _literal(amount) for key, amount in cap.items()}
    wanted = _parse(text)
    held = wanted["budgets"][budget]
    if "rho" in numbers and "slack" in held.get("cap", {}):  # the kind of a cap stays
        numbers["slack"] = _literal(Decimal(str(held["cap"]["slack"])))
    held.update(cap={key: float(number) for key, number in numbers.items()}, reason=reason)
    line = positions(text).get(("budgets", budget, "cap"), (0, 0))[0]
    for below in (line, None):  # a new reason stands below the cap; where that is another table, where tomlkit puts it
        made = _write_cap(text, budget, numbers, reason, below=below)
        if made is not None and _parse(made) == wanted:
            said = _write_comment(made, budget, reason)
            try:
                return said if tomllib.loads(said) == wanted else made
            except ValueError:  # the line above the cap is inside something, where no comment can stand
                return made
    stated = ", ".join(f"{key} = {number}" for key, number in numbers.items())
    raise DeclarationError(f"the project file is written in a way that is not changed here: set {stated}")


def _write_comment(text: str, budget: str, reason: str) -> str:
    """Return the text with the reason as a comment on the line above the cap, in place of an earlier one of ours."""
    line = positions(text).get(("budgets", budget, "cap"), (0, 0))[0]
    if not line:
        return text
    lines = text.split("\n")
    at = line - 1
    if at and lines[at - 1].lstrip().startswith(_WHY):
        del lines[at - 1]
        at -= 1
    if reason and reason.isprintable():
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines.insert(at, f"{indent}{_WHY}{reason}" + "\r" * lines[at - 1 if at else at].endswith("\r"))
    return "\n".join(lines)


def _write_cap(text: str, budget: str, numbers: Mapping[str, str], reason: str, *, below: int | None) -> str | None:
    """Return the text with the cap and the reason, a new reason below the line `below`; None where that is no TOML."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        if below is not None and "reason" not in _parse(text)["budgets"][budget]:
            lines = text.split("\n")
            end = "\r" if lines[below - 1].endswith("\r") else ""
            lines.insert(below, f"reason = {tomlkit.item(reason).as_string()}{end}")
            text = "\n".join(lines)
        document = tomlkit.parse(text)
        held: Any = document["budgets"]
        for key, number in numbers.items():
            if _parse(text)["budgets"][budget]["cap"].get(key) != float(number):
                held[budget]["cap"][key] = tomlkit.float_(number)
        if held[budget].get("reason") != reason:
            held[budget]["reason"] = reason
        made = tomlkit.dumps(document)
        tomllib.loads(made)
    except (TOMLKitError, KeyError, TypeError, ValueError):
        return None
    return made


def _literal(number: Decimal) -> str:
    """Return a number as TOML writes it, with a point."""
    text = f"{number.normalize():f}"
    return text if "." in text else f"{text}.0"


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        raise DeclarationError("the project file is not TOML; `sordino check` says where") from None


def _table(raw: object) -> Mapping[str, Any]:
    return raw if isinstance(raw, Mapping) else {}


# ---- Which tables were compared with their data once: an act of the curator, remembered on this machine beside the
# ledgers' marks
#
# What is remembered is that it was done and when, never what was found. It holds for the source and the declaration as they
# were then: another path, relation, column, bound or unit is another table. Whether the rows have changed since is not known.


def compared_on(table: DeclaredTable) -> str | None:
    """Return the day on which a declared table was compared with its data, None where it never was."""
    place = _place(table)
    try:
        return None if place is None else str(json.loads(place.read_text(encoding="utf-8"))["compared"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def record_comparison(table: DeclaredTable) -> None:
    """Remember, durably, that a declared table was compared with its data today; raises SourceError where it cannot be."""
    place = _place(table)
    if place is None:
        return
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    written = False
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file, draft = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            json.dump({"table": table.name, "compared": day}, opened)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(draft, place)
        written = True
    except OSError:
        pass
    if not written:
        raise SourceError(
            f"that the data were compared cannot be recorded in {place.parent}; set SORDINO_STATE to a directory that can "
            "be written"
        )


def _place(table: DeclaredTable) -> Path | None:
    """Return the file that remembers a table; None for one that is held in memory, and so was never declared in a file."""
    source = table.source
    if not isinstance(source, Source):
        return None
    far = source.is_remote or source.engine
    where = [source.path if far else source.place, source.format, source.relation]
    return marks_directory().parent / "compared" / hash_of(canonical([table.name, where, table.declaration]))
