"""The text of a question: parsing it into one SELECT, and finding where a part of it stands. Knows no column.

A text that states its privacy itself (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ...) is refused with the question that says the
same: its loss as arguments, its bounds as CLIP.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.nodes import sql_name
from sordino.core.errors import QuestionRefused, arg, nearest

if TYPE_CHECKING:
    from sqlglot import exp

# the lines before a text, and the characters before it in its first line
Start = tuple[int, int]
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
    clause = _CLAUSE.search(text)
    anonymous = _ANONYMOUS.search(text)
    named = f"WITH {clause.group(1)}" if clause else anonymous.group(0) if anonymous else None
    if named is None:
        return
    options = (clause.group("options") or "") if clause else ""
    plain = _CLAUSE.sub("", text)
    plain = _NAMED.sub(r"(CLIP(\1, \2, \3))", _CLAMPED.sub(r"(CLIP(\1, \2, \3))", _ANONYMOUS.sub(r"\1", plain)))
    plain = " ".join(plain.split())
    loss = ", ".join(f"{arg(f'{name.lower()}=')}{value}" for name, value in _LOSS.findall(options))
    loss = loss or f"{arg('epsilon=')}..."
    groups = _GROUPS.search(options)
    also = "" if groups is None else f"; max_groups = {groups.group(1)} goes into privacy_unit"
    instead = f'ask "{plain}"' if len(plain) <= 300 else "ask the same without it"
    raise QuestionRefused(
        f"{named.upper()} is not supported: the loss is stated beside the question, and the privacy unit and its caps in the "
        f"declaration; {instead} with {loss}{also}"
    )


_LONGEST = 100_000
_LONGEST_NAME = 300
DIALECTS = ("duckdb", "postgres", "bigquery", "spark", "tsql", "snowflake", "mysql", "sqlite", "redshift", "trino")
# literals and comments may hold any character
_TEXTS = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.DOTALL)
# our lists hold numbers alone
_BRACKETS = re.compile(r"\[\s*[A-Za-z_][\w .]*\]")
_TOP = re.compile(r"\bSELECT\s+(DISTINCT\s+)?TOP\b", re.IGNORECASE)
_OPENERS = {"SELECT", "WITH", "FROM", "(", ";"}
CLAUSES = {
    "with_": ("WITH", "ask about the table itself"),
    "distinct": ("DISTINCT", "group by the column instead"),
    "joins": ("JOIN", "join declared tables by their keys in the SELECT around it"),
    "laterals": (
        "LATERAL",
        "how often a question is asked may not follow from an answer: ask once, and join the answers",
    ),
    "having": ("HAVING", "filter with WHERE here, or ask for it at the end"),
    "group": ("GROUP BY", "group at the end, in the outer SELECT"),
    "order": ("ORDER BY", "order the answer at the end, in the outer SELECT"),
    "limit": ("LIMIT", "limit the answer at the end, in the outer SELECT"),
    "offset": ("OFFSET", "skip rows of the answer at the end, in the outer SELECT"),
    "qualify": ("QUALIFY", "it chooses rows of an answer, of groups and aggregates, not rows of persons"),
    "windows": ("WINDOW", "windows are computed from an answer, of groups and aggregates, not from rows of persons"),
    "sample": ("SAMPLE", "write FROM name TABLESAMPLE BERNOULLI (10 PERCENT)"),
    "pivots": ("PIVOT", "write PIVOT t ON c IN ('a', 'b') USING COUNT(*) GROUP BY k, or group by the column"),
    "into": ("INTO", "use -o FILE to keep an answer"),
    "fetch": ("FETCH", "write LIMIT"),
    "kind": ("SELECT AS", "name columns with AS"),
    "locks": ("FOR", "nothing can be locked"),
    "cluster": ("CLUSTER BY", "ask about all rows"),
    "sort": ("SORT BY", "write ORDER BY"),
    "distribute": ("DISTRIBUTE BY", "ask about all rows"),
    "connect": ("CONNECT BY", "ask about one table"),
    "match": ("MATCH_RECOGNIZE", "ask about all rows"),
    "prewhere": ("PREWHERE", "use WHERE"),
    "settings": ("SETTINGS", "leave it out"),
    "format": ("FORMAT", "use --format"),
    "hint": ("another hint", "MAX_ROWS(5), MAX_GROUPS(3) and MAX_ROWS_PER_GROUP(1) are read"),
    "operation_modifiers": ("a modifier", "leave it out"),
}
SUPPORTED = (
    "supported are SELECT of COUNT, SUM, AVG, VAR_*, STDDEV_*, CORR, COVAR_*, MEDIAN, QUANTILE_CONT and MODE of rows, and all "
    "that is computed from their answers; `sordino sql` lists it"
)


class Place:
    """Finds where a part of the text stands, for error messages.

    `start` is where the text begins in a longer one: the lines before it, and the characters before it in its first line.
    """

    def __init__(self, text: str, start: Start = (0, 0)) -> None:
        self._text = text
        self._start = start

    def of(self, node: Any) -> str:
        """Return the place of a tree's first word that the parser kept, with a colon; nothing where it kept none."""
        for inner in node.walk() if node is not None else ():
            if "start" in inner.meta:
                return self._format(int(inner.meta["start"]))
        return ""

    def name(self, node: Any) -> str:
        """Return a function's name as the text has it, where the parser kept its place."""
        if node is None or "start" not in node.meta or "end" not in node.meta:
            return ""
        return self._text[int(node.meta["start"]) : int(node.meta["end"]) + 1].split("(")[0].strip().upper()

    def word(self, words: str) -> str:
        """Return the place of the first of a word in the text."""
        first = words.upper().split()[:1]
        for token in _tokens(self._text):
            # A name of blanks alone has no word.
            if first and token.text.upper().split()[:1] == first:
                return self._format(token.start)
        return ""

    def refuse(self, item: Any, message: str) -> QuestionRefused:
        """Return the refusal of a part of the text, with its place."""
        return QuestionRefused(self.of(item) + message)

    def _format(self, start: int) -> str:
        lines, column = advance(self._start, self._text[:start])
        return f"line {lines + 1}, column {column + 1}: "


def advance(start: Start, text: str) -> Start:
    """Return where a text ends that begins at `start`.

    >>> advance((2, 5), "ab"), advance((2, 5), "a\\nbcd")
    ((2, 7), (3, 3))
    """
    lines = text.count("\n")
    return (start[0] + lines, len(text) - text.rfind("\n") - 1) if lines else (start[0], start[1] + len(text))


def only_known(place: Place, select: Any, supported: set[str], where: str = "") -> None:
    """Raise QuestionRefused for an unsupported clause of a SELECT, by its name and place."""
    for name, value in select.args.items():
        if value and name not in supported:
            word, instead = CLAUSES.get(name, (name.strip("_").upper(), SUPPORTED))
            at = place.word(word) or (place.word(",") if word == "JOIN" else "")
            raise QuestionRefused(f"{at}{word} is not supported{where}: {instead}")


def parse_select(
    text: str, columns: Iterable[str] = (), *, dialect: str | None = None, start: Start = (0, 0)
) -> exp.Select:
    """Return the one SELECT of a text; what the parser says of it is reported with its place. Nobody may change the tree.

    Without a `dialect` the text is DuckDB's, or that of whoever quotes names with backticks or [brackets], or writes
    TOP. Of the declared `columns`, one that stands there without the double quotes that it needs is pointed out.
    Places are those of a longer text, in which this one begins at `start`.
    """
    chosen = dialect_of(text) if dialect is None else known_dialect(dialect)
    return _parse(text, tuple(columns), chosen, start)


def split_statements(text: str, *, dialect: str | None = None) -> list[tuple[str, Start]]:
    """Return the statements of a text, each with the place at which it begins; the text is cut into words once.

    >>> split_statements("SELECT ';' AS a; SELECT 2; -- the end")
    [("SELECT ';' AS a", (0, 0)), (' SELECT 2', (0, 16))]
    """
    if ";" not in text:
        return [(text, (0, 0))]
    tokens = _tokens(text, dialect_of(text) if dialect is None else dialect)
    statements: list[tuple[str, Start]] = []
    place: Start = (0, 0)
    begin = 0
    empty = True
    for token in tokens:
        if token.token_type.name != "SEMICOLON":
            empty = False
            continue
        if not empty:
            statements.append((text[begin : token.start], place))
        place = advance(place, text[begin : token.start + 1])
        begin = token.start + 1
        empty = True
    if not empty:
        statements.append((text[begin:], place))
    return statements or [(text, (0, 0))]


def is_same_table(written: str, declared: str) -> bool:
    """Return whether a name in FROM may mean a declared table: the same name, or one of the two without its schema.

    >>> is_same_table("shop.Orders", "orders"), is_same_table("orders", "shop.orders"), is_same_table("a.x", "b.x")
    (True, True, False)
    """
    one, other = (name.lower().split(".") for name in (written, declared))
    shorter = min(len(one), len(other))
    return one[-shorter:] == other[-shorter:]


def known_dialect(name: str) -> str:
    """Return a dialect's name in lower case; raises QuestionRefused for an unsupported one."""
    if name.lower() not in DIALECTS:
        raise QuestionRefused(f"{name!r} is not a known dialect; {nearest(name, DIALECTS)}")
    return name.lower()


def dialect_of(text: str) -> str:
    """Return the dialect that a text's quotes show; DuckDB's if they show none."""
    bare = _TEXTS.sub("''", text)
    if "`" in bare:
        return "bigquery" if '"' not in bare else "spark"
    return "tsql" if _BRACKETS.search(bare) or _TOP.search(bare) else "duckdb"


@functools.lru_cache(maxsize=16)
def _parse(text: str, columns: tuple[str, ...], dialect: str, start: Start) -> exp.Select:
    import sqlglot
    from sqlglot import errors

    if len(text) > _LONGEST:
        raise QuestionRefused(f"a question may have {_LONGEST} characters, not {len(text)}")
    if "anon" in text.lower() or "differential_privacy" in text.lower():
        refuse_privacy_clause(text)
    tokens = _tokens(text, dialect)
    if any(len(t.text) > _LONGEST_NAME and t.token_type.name not in ("STRING", "NUMBER") for t in tokens):
        # errors quote names, so these are short
        raise QuestionRefused(f"a name may have {_LONGEST_NAME} characters")
    first = next((t.text.upper() for t in tokens), "SELECT")
    opening = Place(text, start).word(first) if tokens else ""
    if first not in _OPENERS:
        word = first.split()[0] if first[:1].isalpha() else repr(first)
        raise QuestionRefused(f"{opening}{word} is not supported: a question is one SELECT of aggregates")
    failed = ""
    statements: list[Any] = []
    try:
        # A text without words, or that cannot be cut into words, is the parser's to refuse.
        parser = sqlglot.Dialect.get_or_raise(dialect).parser()
        parsed = parser.parse(list(tokens), text) if tokens else sqlglot.parse(text, dialect=dialect)
        statements = [s for s in parsed if s is not None]
    except errors.ParseError as error:
        problem = error.errors[0] if error.errors else {}
        line = problem.get("line") or 1
        column = problem.get("col") or 0
        at = f"line {start[0] + line}, column {column + (start[1] if line == 1 else 0)}"
        failed = f"{at}: this SQL cannot be parsed, near {problem.get('highlight')!r}"
    except (errors.SqlglotError, RecursionError, ValueError):
        failed = "this SQL cannot be parsed: a quote is not closed, or it is nested too deep"
    if failed:
        bare = next((c for c in columns if _lacks_quotes(c, text)), None)
        hint = "" if bare is None else f"; write {sql_name(bare)}, in double quotes"
        raise QuestionRefused(f"{failed}{hint or f'; {SUPPORTED}'}")
    if len(statements) != 1:
        raise QuestionRefused(f"a question is one SELECT, not {len(statements)} statements: several are a batch")
    if not isinstance(statements[0], sqlglot.exp.Select):
        kind = type(statements[0]).__name__.upper()
        raise QuestionRefused(f"{opening}{kind} is not supported: a question is one SELECT of aggregates")
    if dialect == "duckdb":
        return statements[0]
    from sordino.ask.queries.sql.dialects import apply_dialect

    return apply_dialect(statements[0], dialect)


def _lacks_quotes(column: str, text: str) -> bool:
    """Return whether a name that needs double quotes stands in a text without them."""
    if sql_name(column) == column:
        return False
    return re.search(r'(?<!["\w])' + re.escape(column).replace(r"\ ", r"\s+"), text, re.IGNORECASE) is not None


# Cutting a text into words takes as long as a fourth of its reading, and the parser and each place that is looked up need them.
@functools.lru_cache(maxsize=4)
def _tokens(text: str, dialect: str = "duckdb") -> tuple[Any, ...]:
    """Return the words of a text; none where it cannot be cut into words."""
    from sqlglot import Dialect, errors

    try:
        return tuple(Dialect.get_or_raise(dialect).tokenize(text))
    except (errors.SqlglotError, ValueError):
        return ()
