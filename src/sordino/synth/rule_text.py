"""Rules from text: one line a rule, as project files, the command line and servers state them, and CSV files of lists.

It knows no data.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sordino.ask.project.load import Project
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Compare
from sordino.core.domain import Domain, List
from sordino.core.errors import DeclarationError, SordinoError
from sordino.synth.condition_text import parse_condition
from sordino.synth.encoded_column import model_column, model_columns
from sordino.synth.rule_completion import check_rules
from sordino.synth.rules import Rule, allowed, at_most, below, blank, determines, equal, never

_BLANK = re.compile(r"(?is)^blank\s+(?P<column>\S+)\s+when\s+(?P<when>.+)$")
_LIST = re.compile(r"(?is)^(?P<kind>determines|allowed)\s+(?P<file>.+)$")
_NEVER = re.compile(r"(?is)^never\s+(?P<condition>.+)$")
_COMPARISON = {"=": equal, "<=": at_most, "<": below}
_FORMS = (
    '"above + basement = living", "start <= end", "blank income when age < 15", "never age < 15 and married", '
    '"determines FILE.csv" or "allowed FILE.csv"'
)


def read_rule(text: str, columns: Sequence[str], *, beside: Path | None = None) -> Rule:
    """Return the rule that a line of text states; files are relative to the directory `beside`, None allows no file.

    >>> read_rule("blank income when age < 15", ["age", "income"]).describe()
    'blank income when age < 15'
    >>> read_rule("above + basement = living", ["above", "basement", "living"]).describe()
    'above + basement = living'
    """
    if match := _NEVER.match(text.strip()):
        return never(parse_condition(match["condition"], columns))
    if match := _BLANK.match(text.strip()):
        return blank(match["column"].strip('"'), when=parse_condition(match["when"], columns))
    if match := _LIST.match(text.strip()):
        if beside is None:
            raise DeclarationError(f"{text}: a list of values is read from a file beside the project file only")
        read = read_determines if match["kind"].lower() == "determines" else read_allowed
        return read(beside / match["file"].strip())
    condition = parse_condition(text, columns).node
    if not isinstance(condition, Compare) or condition.op == "!=":
        raise DeclarationError(f"{text}: is no rule; a rule is one line such as {_FORMS}")
    sides = Expr(condition.left), Expr(condition.right)
    if condition.op in (">", ">="):
        return _COMPARISON["<" if condition.op == ">" else "<="](sides[1], sides[0])
    return _COMPARISON[condition.op](*sides)


def names_file(text: str) -> bool:
    """Return whether a rule is a list of values in a file.

    >>> names_file("determines cities.csv"), names_file("start <= end")
    (True, False)
    """
    return _LIST.match(text.strip()) is not None


def declared_rules(
    project: Project, table: str | None = None, *, columns: Sequence[str] | None = None
) -> tuple[Rule, ...]:
    """Return the rules that a project file declares of a table: those that are about the modelled `columns` alone, if named.

    Raises DeclarationError, UnknownName or QuestionRefused for a line that is no rule of the table.
    """
    declared = project.table(table)
    beside = None if project.path is None else project.path.parent
    rules = [read_rule(text, tuple(declared.domain), beside=beside) for text in declared.rules]
    for rule in rules:
        for name in rule.names:
            if name not in declared.domain:
                raise DeclarationError(f"{rule.describe()}: {name!r} is not a column of {declared.name}")
    return tuple(rule for rule in rules if columns is None or set(rule.names) <= set(columns))


def find_rule_problems(project: Project) -> list[tuple[tuple[str | int, ...], str]]:
    """Return what is wrong with the rules that a project file declares: the path of each key, and the problem in words.

    A rule is looked at by itself, then those that can be are looked at together: rules of which no declared values keep to
    all contradict each other. Nothing is read but the declaration and the lists beside the project file.
    """
    beside = None if project.path is None else project.path.parent
    problems: list[tuple[tuple[str | int, ...], str]] = []
    for table in project.tables.values():
        columns = model_columns(table.domain) if table.rules else []
        rules = []
        for place, text in enumerate(table.rules):
            try:
                rule = read_rule(text, tuple(table.domain), beside=beside)
                _require_modelled(rule, table.domain)
                check_rules([rule], columns, table.domain)
            except SordinoError as error:
                problems.append((("tables", table.name, "rules", place), str(error)))
            else:
                rules.append(rule)
        try:
            check_rules(rules, columns, table.domain)
        except SordinoError as error:
            problems.append((("tables", table.name, "rules"), str(error)))
    return problems


def _require_modelled(rule: Rule, domain: Domain) -> None:
    """Raise UnknownName or QuestionRefused, with the reason, for a column that no synthetic table has."""
    for name in rule.names:
        if isinstance(domain[name], List):
            raise DeclarationError(
                f"{rule.describe()}: {name!r} is a list, and a synthetic table has no column of lists"
            )
        model_column(name, domain)


def read_determines(path: str | Path) -> Rule:
    """Return the rule in a CSV file of two columns: what the first holds decides the second; empty is missing."""
    (of, column), pairs = _read_list(path, "determines")
    if len({a for a, _ in pairs}) != len(pairs):
        raise DeclarationError(f"{path}: each value of {of!r} is mapped once")
    return determines(of, column, dict(pairs))


def read_allowed(path: str | Path) -> Rule:
    """Return the rule in a CSV file of two columns or more: each line is a combination that a row may hold."""
    names, rows = _read_list(path, "allowed")
    return allowed({name: [row[i] for row in rows] for i, name in enumerate(names)})


def _read_list(path: str | Path, kind: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names and the rows of a CSV file of labels; raises DeclarationError for a file of another shape."""
    several = "two columns" if kind == "determines" else "two columns or more"
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise DeclarationError(f"{path} cannot be read: {kind} takes a CSV file of {several} in UTF-8") from None
    width = len(lines[0]) if lines else 0
    if len(lines) < 2 or width < 2 or (kind == "determines" and width != 2) or any(len(row) != width for row in lines):
        why = ": what the first holds decides the second" if kind == "determines" else ", a combination a line"
        raise DeclarationError(f"{path} must hold {several} with their names in the first line{why}")
    names, *rows = ([cell.strip() for cell in row] for row in lines)
    return names, [tuple(_label(cell) for cell in row) for row in rows]


def _label(text: str) -> Any:
    """Return a label as the declaration has it: nothing for missing, whole numbers and truth values as such."""
    if not text:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    plain = text.removeprefix("-")
    return int(text) if plain.isascii() and plain.isdigit() and (plain == "0" or plain[0] != "0") else text
