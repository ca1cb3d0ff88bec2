"""Functions of a row as SQL writes them: arithmetic, text and casts. One line a function; it knows no column.

Where dialects differ, the meaning is DuckDB's: `//` and TRUNC round towards 0, `%` has the sign of what is divided.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Apply, Arithmetic, Constant, Match, Node, TextFunction
from sordino.ask.queries.expressions.sql_trees import trees
from sordino.core.errors import QuestionRefused

Read = Callable[[Any], Expr]

# the largest power that a constant may be
_LARGEST_POWER = 64
_LONGEST_PADDED = 1_000
_WHOLE = {"INT", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT", "INT128", "UINT", "UBIGINT", "MEDIUMINT"}
# what DuckDB computes as a double
_DOUBLES = {"Div", "SafeDivide", "Sqrt", "Cbrt", "Ln", "Log", "Exp", "Pow"}
_REALS = {"DOUBLE", "FLOAT", "DECIMAL", "BIGDECIMAL", "REAL"}
_TEXTS = {"TEXT", "VARCHAR", "CHAR", "NVARCHAR", "NCHAR"}


def read_function(item: Any, read: Read) -> Expr | None:
    """Translate a function of a row; None for an unsupported one. `read` translates its operands."""
    name = type(item).__name__
    if name in _NUMBERS:
        return Expr(Apply(_NUMBERS[name], read(item.this).node))
    if name in _TEXT:
        return Expr(TextFunction(_TEXT[name], read(item.this).node))
    if name in _PATTERNS:
        return _match(item, _PATTERNS[name], read)
    return _OTHERS[name](item, read) if name in _OTHERS else None


def _two(function: str) -> Callable[[Any, Read], Expr]:
    return lambda item, read: Expr(Apply(function, read(item.this).node, read(item.expression).node))


def _round(item: Any, read: Read) -> Expr:
    digits = item.args.get("decimals")
    return Expr(Apply("round", read(item.this).node, Constant(Fraction(0)) if digits is None else read(digits).node))


def _whole_division(item: Any, read: Read) -> Expr:
    quotient = fold(Expr(Apply("divide", read(item.this).node, read(item.expression).node))).node
    if isinstance(quotient, Constant) and isinstance(quotient.value, Fraction):
        return Expr(Constant(Fraction(int(quotient.value))))
    return Expr(Apply("truncate", quotient))


def _power(item: Any, read: Read) -> Expr:
    of = read(item.this)
    exponent = _constant(read(item.expression), "POWER")
    base = of.node.value if isinstance(of.node, Constant) else None
    if isinstance(base, Fraction) and exponent.denominator == 1 and 0 <= exponent <= _LARGEST_POWER:
        return Expr(Constant(base ** int(exponent)))
    return of.power(exponent)


def _logarithm(item: Any, read: Read) -> Expr:
    """LOG(x) is to base 10 and LOG(b, x) to base b, 2 or 10."""
    if item.expression is None:
        return Expr(Apply("log10", read(item.this).node))
    base = _constant(read(item.this), "LOG")
    if base not in (2, 10):
        raise QuestionRefused("LOG has base 2 or 10, and LN has base e: for another base, divide by its LN")
    return Expr(Apply(f"log{int(base)}", read(item.expression).node))


def _null_if(item: Any, read: Read) -> Expr:
    """NULLIF(x, v): missing where x is v."""
    of = read(item.this)
    return when(of != read(item.expression), of).otherwise(None)


def _substring(item: Any, read: Read) -> Expr:
    places = [item.args.get("start"), item.args.get("length")]
    numbers = tuple(_constant(read(g), "SUBSTR") for g in places if g is not None)
    return Expr(TextFunction("substr", read(item.this).node, numbers))


def _side(side: str) -> Callable[[Any, Read], Expr]:
    return lambda item, read: Expr(
        TextFunction(side, read(item.this).node, (_constant(read(item.expression), side.upper()),))
    )


def _replace(item: Any, read: Read) -> Expr:
    old, new = (
        _words(read(part), "REPLACE") for part in (item.expression, item.args.get("replacement") or item.expression)
    )
    return Expr(TextFunction("replace", read(item.this).node, (old, new)))


def _join_texts(item: Any, read: Read) -> Expr:
    """CONCAT(a, b) leaves out what is missing, where the dialect's does; a || b is missing where either is."""
    function = "join" if item.args.get("coalesce") else "concat"
    first, *rest = item.expressions or [item.this, item.expression]
    text = read(first)
    for part in rest:
        text = Expr(TextFunction(function, text.node, (), read(part).node))
    return text


def _join_between(item: Any, read: Read) -> Expr:
    """CONCAT_WS(s, a, b): those that are there, with s between them."""
    between, *parts = item.expressions
    separator = _words(read(between), "CONCAT_WS")
    text: Node = Constant("")
    for part in parts:
        text = TextFunction("join", text, (), TextFunction("concat", Constant(separator), (), read(part).node))
    # Each begins with the separator.
    return Expr(TextFunction("substr", text, (Fraction(len(separator) + 1),)))


def _position(item: Any, read: Read) -> Expr:
    """STRPOS(x, 'a'), INSTR(x, 'a') and POSITION('a' IN x): where a text first stands in another, from 1, else 0."""
    if any(item.args.get(part) is not None for part in ("position", "occurrence")):
        raise QuestionRefused("a text's place is found from its begin, and the first alone: STRPOS(x, 'a')")
    return Expr(TextFunction("strpos", read(item.this).node, (_words(read(item.args["substr"]), "STRPOS"),)))


def _pad(item: Any, read: Read) -> Expr:
    """LPAD(x, n, 'c') and RPAD(x, n, 'c')."""
    side = "lpad" if item.args.get("is_left") else "rpad"
    fill = item.args.get("fill_pattern")
    length = _constant(read(item.expression), side.upper())
    if not 0 <= length <= _LONGEST_PADDED:
        raise QuestionRefused(f"{side.upper()} takes a length of up to {_LONGEST_PADDED} characters")
    words = " " if fill is None else _words(read(fill), side.upper())
    return Expr(TextFunction(side, read(item.this).node, (length, words)))


def _split_part(item: Any, read: Read) -> Expr:
    between = _words(read(item.args["delimiter"]), "SPLIT_PART")
    return Expr(
        TextFunction(
            "split_part", read(item.this).node, (between, _constant(read(item.args["part_index"]), "SPLIT_PART"))
        )
    )


def _escape(item: Any, read: Read) -> Expr | None:
    """x LIKE 'a$_%' ESCAPE '$': what stands behind the escape is the character itself."""
    kinds = trees()
    like = item.this
    if not isinstance(like, (kinds.Like, kinds.ILike)):
        return None
    letter = _words(read(item.expression), "ESCAPE")
    pattern = _words(read(like.expression), "LIKE")
    if len(letter) != 1:
        raise QuestionRefused("ESCAPE takes one character")
    flags = "(?is)" if isinstance(like, kinds.ILike) else "(?s)"
    regex = ""
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if character == letter:
            place += 1
            if place == len(pattern):
                raise QuestionRefused("a LIKE pattern may not end with its escape character")
            regex += re.escape(pattern[place])
        else:
            regex += {"%": ".*", "_": "."}.get(character) or re.escape(character)
        place += 1
    match = Expr(Match("regex", read(like.this).node, f"{flags}^(?:{regex})\\Z"))
    return ~match if like.args.get("negate") else match


def _similar(item: Any, read: Read) -> Expr:
    """x SIMILAR TO 'pattern': a regular expression of the whole text, as in DuckDB."""
    pattern = _words(read(item.expression), "SIMILAR TO")
    return Expr(Match("regex", read(item.this).node, f"^(?:{pattern})\\Z"))


def _trim(item: Any, read: Read) -> Expr:
    if item.expression is not None:
        raise QuestionRefused("TRIM removes blanks: TRIM(column)")
    side = str(item.args.get("position") or "").upper()
    return Expr(TextFunction({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim"), read(item.this).node))


def _match(item: Any, kind: str, read: Read) -> Expr:
    match = Expr(Match(kind, read(item.this).node, _words(read(item.expression), kind.upper())))
    return ~match if item.args.get("negate") else match


def _cast(item: Any, read: Read) -> Expr | None:
    """CAST to a number or to text; days are read elsewhere. Between numbers it rounds or changes nothing."""
    target = _target(item)
    if isinstance(item.this, trees().Literal):
        return None
    number = Expr(TextFunction("number", read(item.this).node))
    if target in _WHOLE | _REALS:
        return _round_cast(number, item, target, "to_whole")
    if target in _TEXTS:
        return Expr(TextFunction("concat", read(item.this).node, (), Constant("")))
    return None


def cast_released(item: Any, read: Read) -> Expr | None:
    """Return a cast of what was released to a number, which rounds it or changes nothing; None for another cast.

    As for rows, halves go away from 0 where DuckDB's type is a decimal and to the even number where it is a double. The
    type follows from the words alone: a sum of a column counts as decimals.
    """
    target = _target(item)
    halves = "half_even" if _is_double(item.this) else "round"
    return _round_cast(read(item.this), item, target, halves) if target in _WHOLE | _REALS else None


def _is_double(item: Any) -> bool:
    """Return whether DuckDB computes a number over aggregates as a double: one operand that is one makes it so."""
    kinds = trees()
    if isinstance(item, kinds.Literal):
        return not item.is_string and "e" in str(item.this).lower()
    if isinstance(item, kinds.Cast):
        return _target(item) in _REALS - {"DECIMAL", "BIGDECIMAL"}
    if isinstance(item, kinds.Count | kinds.CountIf | kinds.Column):
        return False
    if isinstance(item, kinds.AggFunc) and not isinstance(item, kinds.Sum):
        return True
    if type(item).__name__ in _DOUBLES:
        return True
    # conditions, digits and filters decide no type
    parts = list(item.iter_expressions())
    if isinstance(item, kinds.Case):
        parts = [*(branch.args["true"] for branch in item.args["ifs"]), item.args.get("default")]
    elif isinstance(item, kinds.If):
        parts = [item.args["true"], item.args.get("false")]
    elif isinstance(item, kinds.Round | kinds.Filter):
        parts = [item.this]
    return any(_is_double(part) for part in parts if part is not None)


def _target(item: Any) -> str:
    return str(item.to.this.value if hasattr(item.to.this, "value") else item.to.this).upper()


def _round_cast(of: Expr, item: Any, target: str, halves: str) -> Expr:
    places = [e.this for e in item.to.expressions]
    if target in _WHOLE:
        return Expr(Apply("truncate" if item.meta.get("cut") else halves, of.node))
    return of if target != "DECIMAL" or len(places) < 2 else of.round(int(places[1].this))


def fold(of: Expr) -> Expr:
    """Return arithmetic of constants as the constant that it is, exactly."""
    node = of.node
    if not isinstance(node, (Arithmetic, Apply)):
        return of
    left, right = (node.left, node.right) if isinstance(node, Arithmetic) else (node.of, node.right)
    if not (isinstance(left, Constant) and isinstance(right, Constant)):
        return of
    one = left.value
    other = right.value
    if not isinstance(one, Fraction) or not isinstance(other, Fraction):
        return of
    if isinstance(node, Arithmetic):
        return Expr(Constant(one + other if node.op == "+" else one - other if node.op == "-" else one * other))
    return Expr(Constant(one / other)) if node.function == "divide" and other else of


def _constant(value: Expr, word: str) -> Fraction:
    if isinstance(value.node, Constant) and isinstance(value.node.value, Fraction):
        return value.node.value
    raise QuestionRefused(f"{word} takes a number that the question states")


def _words(value: Expr, word: str) -> str:
    if isinstance(value.node, Constant) and isinstance(value.node.value, str):
        return value.node.value
    raise QuestionRefused(f"{word} takes a text that the question states, in single quotes")


_NUMBERS = {
    "Floor": "floor",
    "Ceil": "ceil",
    "Trunc": "truncate",
    "Sign": "sign",
    "Sqrt": "sqrt",
    "Ln": "ln",
    "Exp": "exp",
}
_TEXT = {"Upper": "upper", "Lower": "lower", "Length": "length", "Reverse": "reverse"}
_PATTERNS = {
    "Like": "like",
    "ILike": "ilike",
    "RegexpLike": "regex",
    "StartsWith": "prefix",
    "EndsWith": "suffix",
    "Contains": "part",
}
_OTHERS: dict[str, Callable[[Any, Read], Expr | None]] = {
    "Div": _two("divide"),
    "SafeDivide": _two("divide"),
    "IntDiv": _whole_division,
    "Mod": _two("remainder"),
    "Round": _round,
    "Pow": _power,
    "Log": _logarithm,
    "Nullif": _null_if,
    "Substring": _substring,
    "Left": _side("left"),
    "Right": _side("right"),
    "Replace": _replace,
    "Concat": _join_texts,
    "ConcatWs": _join_between,
    "DPipe": _join_texts,
    "StrPosition": _position,
    "Pad": _pad,
    "SplitPart": _split_part,
    "Escape": _escape,
    "SimilarTo": _similar,
    "Trim": _trim,
    "Cast": _cast,
    "TryCast": _cast,
}
FORMS = (*_NUMBERS, *_TEXT, *_PATTERNS, *_OTHERS)
