"""Nodes of expressions over the columns of a row: frozen trees, their words, and their canonical form. Knows no data."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.core.errors import QuestionRefused
from sordino.core.loss import format_number

Value = Fraction | str | bool | datetime.date


@dataclass(frozen=True, slots=True)
class Name:
    """A declared column."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the question states."""

    value: Value


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """left op right; op is +, - or *."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Absolute:
    """abs(of)."""

    of: Node


@dataclass(frozen=True, slots=True)
class Clip:
    """`of` clipped to [lower, upper]; None leaves a side open. A date is clipped to dates."""

    of: Node
    lower: Fraction | datetime.date | None
    upper: Fraction | datetime.date | None


@dataclass(frozen=True, slots=True)
class Bin:
    """The bin of `of` among [e0, e1), ..., [e(n-1), en]; outside is missing. `width` cuts the declared bounds.

    Edges are all numbers, or all dates. A width is of days for a date, and of seconds for a datetime.
    """

    of: Node
    edges: tuple[Fraction | datetime.date, ...] | None
    width: Fraction | None


@dataclass(frozen=True, slots=True)
class Compare:
    """left op right; op is one of = != < <= > >=."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Connective:
    """left and/or right."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Not:
    """not of."""

    of: Node


@dataclass(frozen=True, slots=True)
class IsIn:
    """`of` is one of the values."""

    of: Node
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`of` is missing."""

    of: Node


@dataclass(frozen=True, slots=True)
class Exists:
    """The row's unit has rows in private table `table` that meet `matching`, a condition on that table's columns.

    `on` are the column of each side that a question compares, the privacy units where None. `steps` make the rows of the table's.
    `beside` is a condition on both rows, in which the columns of the table's are named as `there` has it; it compares the units.
    """

    table: str
    matching: Node | None
    on: tuple[str, str] | None = None
    steps: tuple[Any, ...] = ()
    beside: Node | None = None

    def there(self, column: str) -> str:
        """Return the name of a column of the table's rows beside those of the row itself."""
        return f"{self.table} (there).{column}"


@dataclass(frozen=True, slots=True)
class DatePart:
    """A part of the date or datetime `of`, as a whole number; a datetime's by its zone's clock.

    `part` is year, quarter, month, day, dow (0 is Sunday), isodow (1 is Monday), doy, week, isoyear, hour, minute, second,
    epoch, date (the day itself), or a count such as "months since 0" or "hours since 1970", of which DATEDIFF is made.
    """

    part: str
    of: Node


@dataclass(frozen=True, slots=True)
class DateTrunc:
    """A date or datetime truncated to `count` of a unit: second, minute, hour, day, week, month, quarter, year."""

    unit: str
    of: Node
    count: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A date or datetime as text, by a format such as %Y-%m."""

    format: str
    of: Node


@dataclass(frozen=True, slots=True)
class Shift:
    """A date or datetime moved by months, days and seconds; negative ones move it back."""

    of: Node
    months: Fraction
    days: Fraction
    seconds: Fraction


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of one number, or of two: round, floor, ceil, truncate, divide, remainder, modulo, sign, sqrt, ln, exp.

    to_whole rounds as a cast does: halves away from 0 where the number is held as decimals, to the even number where it is a
    double. half_even rounds halves to the even number whatever it is.

    `right` is the number of digits of round, and what divide, remainder and modulo divide by. log2 and log10 as well.
    """

    function: str
    of: Node
    right: Node | None = None


@dataclass(frozen=True, slots=True)
class TextFunction:
    """A function of text over declared values: upper, lower, trim, ltrim, rtrim, substr, left, right, replace, concat.

    `right` is the second text of concat. length and number (a cast) make numbers of text.
    """

    function: str
    of: Node
    arguments: tuple[Fraction | str, ...] = ()
    right: Node | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """The text `of` matches a pattern; kind is like, ilike, regex, prefix, suffix or part."""

    kind: str
    of: Node
    pattern: str


@dataclass(frozen=True, slots=True)
class When:
    """`left` where `of` is true, else `right`; missing where that is None. A longer choice has another in `right`."""

    of: Node
    left: Node
    right: Node | None


@dataclass(frozen=True, slots=True)
class Released:
    """What an earlier private question of the same statement releases: unknown when this one is planned, public when it runs.

    `kind` is "number", whole steps of `unit` within [lower, upper], None where that side has no bound; "lookup", such a number
    for each value of `of`; or "values", which a row's value is compared with for equality. Each may be missing. `words` are the
    sub-query as it was written.
    """

    name: str
    kind: str
    words: str
    unit: Fraction = Fraction(1)
    lower: Fraction | None = None
    upper: Fraction | None = None
    of: Node | None = None


@dataclass(frozen=True, slots=True)
class Windowed:
    """A value of the row among its unit's rows, as people write it: `with_columns` makes a column of it.

    `kind` is that of a value of a sequence, `partition` what the rows agree in, `order` what they are ordered by, each with
    whether the largest comes first. `running` ones are of the rows up to this one.
    """

    kind: str
    of: Node | None
    partition: tuple[Node, ...] = ()
    order: tuple[tuple[Node, bool], ...] = ()
    offset: int = 1
    running: bool = False


Node = (
    Name
    | Constant
    | Released
    | Arithmetic
    | Absolute
    | Apply
    | Clip
    | Bin
    | Compare
    | Connective
    | Not
    | IsIn
    | IsNull
    | Exists
    | DatePart
    | DateTrunc
    | DateFormat
    | Shift
    | TextFunction
    | Match
    | When
    | Windowed
)

MIRROR = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# each condition of a chain counts a quarter of a level, so up to 300 stand in a row
_MOST_DEPTH = 75
_CHAINED = 0.25
_WEIGHTS = {
    "Connective": 5,
    "Not": 4,
    "Compare": 2,
    "IsIn": 2,
    "IsNull": 2,
    "Clip": 2,
    "DatePart": 20,
    "DateTrunc": 20,
    "DateFormat": 20,
    "Shift": 20,
    "When": 3,
    "Apply": 6,
}
_WORD = re.compile("[A-Za-z_][A-Za-z0-9_]*")
# a tree with shared branches can be short to write and endless to walk
_MOST_NODES = 20_000


def describe(node: Node) -> str:
    """Return the expression as a person would write it; equal trees and only they give equal text."""
    return _words(node, 0)


def plain(node: Node | None) -> Any:
    """Return the tree as JSON data, canonical: the identity of a question is made of it."""
    if node is None:
        return None
    if isinstance(node, Constant):
        return ["Constant", type(node.value).__name__, _value(node.value)]
    if isinstance(node, IsIn):
        return ["IsIn", plain(node.of), sorted([type(v).__name__, _value(v)] for v in node.values)]
    parts: list[Any] = [type(node).__name__]
    if isinstance(node, Windowed):
        order = [[plain(by), descending] for by, descending in node.order]
        return [*parts, node.kind, plain(node.of), [plain(p) for p in node.partition], order, node.offset, node.running]
    if isinstance(node, Exists) and (node.steps or node.beside is not None):
        on = None if node.on is None else list(node.on)
        beside = [] if node.beside is None else [plain(node.beside)]
        return [*parts, node.table, plain(node.matching), on, [step.plain() for step in node.steps], *beside]
    for field in node.__dataclass_fields__:
        item = getattr(node, field)
        if isinstance(item, Fraction):
            parts.append(format_number(item))
        elif isinstance(item, tuple):
            parts += [] if field == "steps" else [[_value(i) for i in item]]
        elif field == "beside":
            continue
        elif item is None or isinstance(item, (str, datetime.date)):
            parts.append(item if item is None else _value(item))
        else:
            parts.append(plain(item))
    return parts


def depth(node: Node) -> None:
    """Raise QuestionRefused for a tree that is too deep or too large; no recursion, so that none is too deep for this.

    What is let through can be rendered: SQL is read and written by recursion, at a cost that differs by kind of node.
    """
    count = 0
    nodes = [(node, 0.0)]
    while nodes:
        at, above = nodes.pop()
        count += 1
        level = above + _WEIGHTS.get(type(at).__name__, 1)
        if level > _MOST_DEPTH:
            rule = "the expression is nested too deep"
            raise QuestionRefused(f"{rule}: use is_in, or simplify it", sql=f"{rule}: use IN, or simplify it")
        if count > _MOST_NODES:
            raise QuestionRefused(f"the expression has more than {_MOST_NODES} parts: simplify it")
        for child in children(at):
            chained = isinstance(at, Connective) and isinstance(child, Connective) and child.op == at.op
            nodes.append((child, above + _CHAINED if chained else level))


def walk(node: Node | None) -> Iterator[Node]:
    """Yield an expression and all expressions in it, from the top; no recursion, so that none is too deep for this."""
    nodes = [] if node is None else [node]
    while nodes:
        at = nodes.pop()
        yield at
        nodes += reversed(children(at))


def has_exists(nodes: Iterable[Node]) -> bool:
    """Return whether any of some expressions asks about another private table."""
    return any(isinstance(at, Exists) for node in nodes for at in walk(node))


def has_released(node: Node | None) -> bool:
    """Return whether an expression reads what an earlier question releases."""
    return any(isinstance(at, Released) for at in walk(node))


def children(node: Node) -> list[Node]:
    """Return the expressions that an expression is made of."""
    return [child for field in ("of", "left", "right") if (child := getattr(node, field, None)) is not None]


def plain_value(value: Value | None) -> Any:
    """Return a constant as declarations write it: a whole number as int."""
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def conjuncts(node: Node | None) -> list[Node]:
    """Return the conditions that AND joins at the top of a condition; none for None."""
    if isinstance(node, Connective) and node.op == "and":
        return [*conjuncts(node.left), *conjuncts(node.right)]
    return [] if node is None else [node]


def conjoin(conditions: Iterable[Node | None]) -> Node | None:
    """Join conditions by AND from the left, those that are None left out; None if none is left."""
    both: Node | None = None
    for condition in conditions:
        if condition is not None:
            both = condition if both is None else Connective("and", both, condition)
    return both


def sql_name(name: str) -> str:
    """Return a column's name as SQL has it: in double quotes where it is not a plain word.

    >>> sql_name("age"), sql_name("Body Mass (g)"), sql_name("order")
    ('age', '"Body Mass (g)"', '"order"')
    """
    from sqlglot import Dialect

    keywords = {k.split()[0] for k in Dialect.get_or_raise("duckdb").tokenizer_class.KEYWORDS if k.strip()}
    if _WORD.fullmatch(name) and name.upper() not in keywords:
        return name
    return '"' + name.replace('"', '""') + '"'


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fraction):
        return format_number(value)
    return value.isoformat() if isinstance(value, datetime.date) else value


_MATCHES = {
    "like": "like",
    "ilike": "ilike",
    "regex": "matches",
    "prefix": "starts with",
    "suffix": "ends with",
    "part": "contains",
}
_BINDING = {"or": 1, "and": 2, "+": 5, "-": 5, "*": 6}


def _words(node: Node, outer: int) -> str:
    """Return the words of a node, in parentheses where it binds more loosely than what is around it."""
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Constant):
        return _quote(node.value)
    if isinstance(node, Released):
        return f"({node.words})" if node.of is None else f"({node.words} for {_words(node.of, 0)})"
    if isinstance(node, Absolute):
        return f"abs({_words(node.of, 0)})"
    if isinstance(node, Clip):
        sides = ["none" if b is None else _value(b) for b in (node.lower, node.upper)]
        return f"clip({_words(node.of, 0)}, {sides[0]}, {sides[1]})"
    if isinstance(node, (DatePart, DateTrunc, DateFormat, Shift)):
        return _time_words(node)
    if isinstance(node, TextFunction):
        arguments = [
            _words(node.of, 0),
            *map(_quote, node.arguments),
            *([] if node.right is None else [_words(node.right, 0)]),
        ]
        return f"{node.function}({', '.join(arguments)})"
    if isinstance(node, Apply) and node.function != "divide":
        arguments = [_words(part, 0) for part in (node.of, node.right) if part is not None]
        return f"{node.function}({', '.join(arguments)})"
    if isinstance(node, When):
        rest = "" if node.right is None else f" else {_words(node.right, 0)}"
        return f"(if {_words(node.of, 0)} then {_words(node.left, 0)}{rest})"
    if isinstance(node, Bin):
        if node.edges is None:
            return f"bin({_words(node.of, 0)}, width {format_number(node.width or Fraction(0))})"
        return f"bin({_words(node.of, 0)}, [{', '.join(map(_value, node.edges))}])"
    if isinstance(node, Exists):
        conditions = [_words(c, 0) for c in (node.matching, node.beside) if c is not None]
        which = f" where {' and '.join(conditions)}" if conditions else ""
        steps = "".join(f", {step.describe()}" for step in node.steps)
        return f"exists({node.table}{steps}{which})"
    if isinstance(node, Windowed):
        of = "" if node.of is None else _words(node.of, 0)
        return f"{node.kind}({of}) over ({', '.join(_words(part, 0) for part in node.partition)})"
    words, bind = _operator_words(node)
    return f"({words})" if bind < outer else words


def _operator_words(
    node: Arithmetic | Apply | IsIn | Match | IsNull | Not | Compare | Connective,
) -> tuple[str, int]:
    """Return the words of an operator and how tightly it binds."""
    if isinstance(node, IsIn):
        return f"{_words(node.of, 5)} in ({', '.join(_quote(v) for v in node.values)})", 4
    if isinstance(node, Match):
        return f"{_words(node.of, 5)} {_MATCHES[node.kind]} {_quote(node.pattern)}", 4
    if isinstance(node, IsNull):
        return f"{_words(node.of, 5)} is missing", 4
    if isinstance(node, Apply):
        return f"{_words(node.of, 6)} / {'' if node.right is None else _words(node.right, 7)}", 6
    if isinstance(node, Not):
        return f"not {_words(node.of, 4)}", 3
    if isinstance(node, Compare):
        return f"{_words(node.left, 5)} {node.op} {_words(node.right, 5)}", 4
    bind = _BINDING[node.op]
    right = bind + 1 if node.op in ("-", "*", "+") else bind
    return f"{_words(node.left, bind)} {node.op} {_words(node.right, right)}", bind


def _quote(value: Value) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else _value(value)


def _time_words(node: DatePart | DateTrunc | DateFormat | Shift) -> str:
    of = _words(node.of, 0)
    if isinstance(node, DatePart):
        return f"{node.part}({of})"
    if isinstance(node, DateTrunc):
        count = "" if node.count == 1 else f"{format_number(node.count)} "
        return f"truncate({of}, {count}{node.unit})"
    if isinstance(node, DateFormat):
        return f"format({of}, {_quote(node.format)})"
    if not (node.months or node.days or node.seconds):
        return f"moment({of})"
    amounts = {"months": node.months, "days": node.days, "seconds": node.seconds}
    return f"shift({of}, {', '.join(f'{format_number(n)} {word}' for word, n in amounts.items() if n)})"
