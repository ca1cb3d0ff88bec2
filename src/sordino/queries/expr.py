"""Expressions over the columns of a row: the tree as plain data, and `col(...)` to write it. Knows no data."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sordino.errors import QuestionRefused
from sordino.loss import Number, exact, shown

__all__ = [
    "MIRROR",
    "Absolute",
    "Arithmetic",
    "Bin",
    "Clip",
    "Compare",
    "Connective",
    "Constant",
    "Expr",
    "IsIn",
    "IsNull",
    "Name",
    "Node",
    "Not",
    "Value",
    "as_node",
    "as_value",
    "col",
    "depth",
    "describe",
    "plain",
]

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
    """`of` clipped to [lower, upper]; None leaves a side open."""

    of: Node
    lower: Fraction | None
    upper: Fraction | None


@dataclass(frozen=True, slots=True)
class Bin:
    """The bin of `of` among [e0, e1), ..., [e(n-1), en]; outside is missing. `width` cuts the declared bounds."""

    of: Node
    edges: tuple[Fraction, ...] | None
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


Node = Name | Constant | Arithmetic | Absolute | Clip | Bin | Compare | Connective | Not | IsIn | IsNull

MIRROR = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_DEPTH, _CHAINED = 75, 0.25  # so up to 300 conditions in a row
_WEIGHTS = {"Connective": 5, "Not": 4, "Compare": 2, "IsIn": 2, "IsNull": 2, "Clip": 2}
_MOST_NODES = 20_000  # a tree with shared branches can be short to write and endless to walk


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """Write an expression: arithmetic `+ - *`, comparisons, `&`, `|`, `~`, and the methods below.

    Its truth is refused, so that `0 < col("x") < 9` cannot lose its half.

    >>> str((col("age") > 30) & ~col("occ").is_in(["Sales"]))
    "age > 30 and not occ in ('Sales')"
    """

    node: Node

    def clip(self, lower: Number | None, upper: Number | None) -> Expr:
        """Return the expression clipped to [lower, upper]; None leaves a side open."""
        low = None if lower is None else exact(lower, name="clip's lower bound")
        high = None if upper is None else exact(upper, name="clip's upper bound")
        if low is not None and high is not None and low > high:
            raise QuestionRefused(f"clip's bounds cross: {shown(low)} is above {shown(high)}; swap them")
        return Expr(Clip(self.node, low, high))

    def abs(self) -> Expr:
        """Return the absolute value."""
        return Expr(Absolute(self.node))

    def bin(self, edges: Sequence[Number] | None = None, *, width: Number | None = None) -> Expr:
        """Return the bin the value falls in, by ascending `edges`, or by `width` from the lower bound; for group_by."""
        if (edges is None) == (width is None):
            raise QuestionRefused("bin takes either edges, such as [0, 18, 65, 125], or width=, such as width=10")
        if width is not None:
            step = exact(width, name="bin's width")
            if step <= 0:
                raise QuestionRefused(f"bin's width must be above 0, not {shown(step)}")
            return Expr(Bin(self.node, None, step))
        cuts = tuple(exact(e, name="bin's edge") for e in edges or ())
        if len(cuts) < 2 or any(a >= b for a, b in itertools.pairwise(cuts)):
            raise QuestionRefused("bin's edges must ascend and be two or more, such as [0, 18, 65, 125]")
        return Expr(Bin(self.node, cuts, None))

    def is_in(self, values: Iterable[Any]) -> Expr:
        """Return whether the value is one of `values`."""
        if isinstance(values, (str, Expr)):
            raise QuestionRefused('is_in takes a list of values, such as is_in(["Sales", "Tech-support"])')
        chosen = tuple(as_value(v) for v in values)
        if not chosen:
            raise QuestionRefused("is_in needs at least one value")
        return Expr(IsIn(self.node, chosen))

    def is_between(self, lower: Any, upper: Any) -> Expr:
        """Return whether lower <= value <= upper."""
        least = Compare(">=", self.node, as_node(lower))
        return Expr(Connective("and", least, Compare("<=", self.node, as_node(upper))))

    def is_null(self) -> Expr:
        """Return whether the value is missing."""
        return Expr(IsNull(self.node))

    def __add__(self, other: Any) -> Expr:
        return Expr(Arithmetic("+", self.node, as_node(other)))

    def __radd__(self, other: Any) -> Expr:
        return Expr(Arithmetic("+", as_node(other), self.node))

    def __sub__(self, other: Any) -> Expr:
        return Expr(Arithmetic("-", self.node, as_node(other)))

    def __rsub__(self, other: Any) -> Expr:
        return Expr(Arithmetic("-", as_node(other), self.node))

    def __mul__(self, other: Any) -> Expr:
        return Expr(Arithmetic("*", self.node, as_node(other)))

    def __rmul__(self, other: Any) -> Expr:
        return Expr(Arithmetic("*", as_node(other), self.node))

    def __neg__(self) -> Expr:
        return Expr(Arithmetic("*", Constant(Fraction(-1)), self.node))

    def __abs__(self) -> Expr:
        return self.abs()

    def __truediv__(self, other: Any) -> Expr:
        raise QuestionRefused("division is not supported: multiply by a constant, such as col('x') * 0.5")

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # a comparison builds a tree, as in every frame
        return _compare("=", self.node, as_node(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # likewise
        return _compare("!=", self.node, as_node(other))

    def __lt__(self, other: Any) -> Expr:
        return _compare("<", self.node, as_node(other))

    def __le__(self, other: Any) -> Expr:
        return _compare("<=", self.node, as_node(other))

    def __gt__(self, other: Any) -> Expr:
        return _compare(">", self.node, as_node(other))

    def __ge__(self, other: Any) -> Expr:
        return _compare(">=", self.node, as_node(other))

    def __and__(self, other: Any) -> Expr:
        return Expr(Connective("and", self.node, as_node(other)))

    def __rand__(self, other: Any) -> Expr:
        return Expr(Connective("and", as_node(other), self.node))

    def __or__(self, other: Any) -> Expr:
        return Expr(Connective("or", self.node, as_node(other)))

    def __ror__(self, other: Any) -> Expr:
        return Expr(Connective("or", as_node(other), self.node))

    def __invert__(self) -> Expr:
        return Expr(Not(self.node))

    def __hash__(self) -> int:
        return hash(self.node)

    def __bool__(self) -> bool:
        raise QuestionRefused(
            "an expression has no truth of its own: write & | ~ instead of and, or, not, "
            "and is_between(a, b) instead of a <= x <= b"
        )

    def __iter__(self) -> Any:
        raise TypeError("an expression cannot be iterated over")

    def __str__(self) -> str:
        return describe(self.node)

    def __repr__(self) -> str:
        return f"<Expr {describe(self.node)}>"


def _compare(op: str, left: Node, right: Node) -> Expr:
    """Return left op right, a constant on the right where there is one: `30 < x` and `x > 30` are one question."""
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, MIRROR[op]
    return Expr(Compare(op, left, right))


def col(name: str) -> Expr:
    """Name a declared column in a question.

    >>> col("age").clip(0, 90) * 2
    <Expr clip(age, 0, 90) * 2>
    """
    if not isinstance(name, str) or not name:
        raise QuestionRefused("col takes the name of a declared column")
    return Expr(Name(name))


def as_value(value: Any) -> Value:
    """Return a constant in the form that trees hold: numbers as fractions."""
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    if isinstance(value, (int, float, Decimal, Fraction)) or hasattr(value, "__float__"):
        return exact(value, name="a constant")
    raise QuestionRefused(f"a constant must be a number, text, true or false, or a day, not a {type(value).__name__}")


def as_node(value: Any) -> Node:
    """Return the tree of an Expr, or of a constant."""
    return value.node if isinstance(value, Expr) else Constant(as_value(value))


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
    for field in node.__dataclass_fields__:
        item = getattr(node, field)
        if isinstance(item, Fraction):
            parts.append(shown(item))
        elif isinstance(item, tuple):
            parts.append([shown(i) for i in item])
        elif item is None or isinstance(item, str):
            parts.append(item)
        else:
            parts.append(plain(item))
    return parts


def depth(node: Node) -> None:
    """Raise QuestionRefused for a tree that is too deep or too large; no recursion, so that none is too deep for this.

    What is let through can be rendered: SQL is read and written by recursion, at a cost that differs by kind of node.
    """
    count, nodes = 0, [(node, 0.0)]
    while nodes:
        at, above = nodes.pop()
        count += 1
        level = above + _WEIGHTS.get(type(at).__name__, 1)
        if level > _MOST_DEPTH:
            raise QuestionRefused("the expression is nested too deep: use is_in, or simplify it")
        if count > _MOST_NODES:
            raise QuestionRefused(f"the expression has more than {_MOST_NODES} parts: simplify it")
        for field in ("of", "left", "right"):
            child = getattr(at, field, None)
            if child is not None:
                chained = isinstance(at, Connective) and isinstance(child, Connective) and child.op == at.op
                nodes.append((child, above + _CHAINED if chained else level))


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fraction):
        return shown(value)
    return value.isoformat() if isinstance(value, datetime.date) else value


_BINDING = {"or": 1, "and": 2, "+": 5, "-": 5, "*": 6}


def _words(node: Node, outer: int) -> str:
    """Return the words of a node, in parentheses where it binds more loosely than what is around it."""
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Constant):
        return _quoted(node.value)
    if isinstance(node, Absolute):
        return f"abs({_words(node.of, 0)})"
    if isinstance(node, Clip):
        sides = ["none" if b is None else shown(b) for b in (node.lower, node.upper)]
        return f"clip({_words(node.of, 0)}, {sides[0]}, {sides[1]})"
    if isinstance(node, Bin):
        if node.edges is None:
            return f"bin({_words(node.of, 0)}, width {shown(node.width or Fraction(0))})"
        return f"bin({_words(node.of, 0)}, [{', '.join(shown(e) for e in node.edges)}])"
    if isinstance(node, IsIn):
        words, bind = f"{_words(node.of, 5)} in ({', '.join(_quoted(v) for v in node.values)})", 4
    elif isinstance(node, IsNull):
        words, bind = f"{_words(node.of, 5)} is missing", 4
    elif isinstance(node, Not):
        words, bind = f"not {_words(node.of, 4)}", 3
    elif isinstance(node, Compare):
        words, bind = f"{_words(node.left, 5)} {node.op} {_words(node.right, 5)}", 4
    else:
        bind = _BINDING[node.op]
        right = bind + 1 if node.op in ("-", "*", "+") else bind
        words = f"{_words(node.left, bind)} {node.op} {_words(node.right, right)}"
    return f"({words})" if bind < outer else words


def _quoted(value: Value) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else _value(value)
