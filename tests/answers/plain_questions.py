"""Questions in the package's SQL, each beside plain SQL that was written for it by hand, piece by piece.

Plain SQL gives the groups that have rows. What is declared adds those that have none: `Question.keys` lists them in order.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from answers.plain_pieces import CONDITIONS, KEYS, NUMBERS, START, YES_NO, Key
from answers.town_tables import TOWNS


@dataclass(frozen=True)
class Output:
    """An answer: its text, the plain text, its kind, and the level of a quantile, whose plain text lists all values."""

    text: str
    plain: str
    kind: str  # count, sum, mean, spread, quantile, mode, formula
    level: float = 0.5
    type: str = ""  # that of its column, where only one is right


@dataclass(frozen=True)
class Question:
    """A question, its plain SQL, and what the answer must look like."""

    kind: str
    text: str
    groups: str  # plain SQL: the keys, the answers, and the number of units of each group that has rows
    names: tuple[str, ...]
    keys: tuple[Key, ...] = ()
    outputs: tuple[Output, ...] = ()
    listed: tuple[tuple[Any, ...], ...] | None = None  # the combinations that are asked for, in order
    having: str = ""
    order: str = ""
    limit: str = ""
    asked: Any = None  # a question in Python, in the place of the text
    dialect: str | None = None  # whose words the text is in
    rate: float = 1.0  # of a sample; below 1 the plain SQL states each person's part


def text(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"


def names(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


ALIASES = ("n", "Mean Age", "höhe", "a b", "select", "it's", "N°", "total", 'the "sum"', "x1")
KINDS = (
    "aggregates",
    "groups",
    "filters",
    "private keys",
    "listed keys",
    "public joins",
    "private joins",
    "per unit",
    "formulas",
)


@dataclass
class Questions:
    """Random questions of every kind."""

    rng: random.Random
    without: tuple[str, ...] = ()  # numbers, conditions or keys that an engine's plain SQL has no word for
    _made: dict[str, Callable[[], Question]] = field(init=False)

    def __post_init__(self) -> None:
        self._made = {
            "aggregates": lambda: self._simple("aggregates", keys=0),
            "groups": lambda: self._simple("groups", keys=self.rng.choice([1, 1, 2])),
            "filters": self._filters,
            "private keys": self._private,
            "listed keys": self._listed,
            "public joins": self._public,
            "private joins": self._people_and_visits,
            "per unit": self._per_unit,
            "formulas": self._formulas,
            "choices": self._choice,
        }

    def question(self, kind: str) -> Question:
        """Return a random question of a kind."""
        return self._made[kind]()

    # ---- pieces

    def condition(self) -> str:
        """Return a random condition, which both say in the same words."""
        one, other = self.rng.sample([c for c in CONDITIONS if c not in self.without], 2)
        return self.rng.choice([one, one, f"({one}) AND ({other})", f"({one}) OR ({other})", f"NOT ({one})"])

    def output(self) -> Output:
        """Return a random answer."""
        rng = self.rng
        x, plain, whole = rng.choice([n for n in NUMBERS if n[0] not in self.without])
        condition = self.condition()
        while "SELECT" in condition:
            condition = self.condition()
        names_of = ['"Person Id"', "job", "town", "level", "age", "member", "joined"]
        name = rng.choice(names_of)
        level = rng.choice([0.1, 0.25, 0.5, 0.9])
        narrow = "balance" not in x
        choices = [
            Output("COUNT(*)", "COUNT(*)", "count"),
            Output(f"COUNT({name})", f"COUNT({name})", "count"),
            Output(f"COUNT(DISTINCT {name})", f"COUNT(DISTINCT {name})", "count"),
            Output(f"COUNT({x})", f"COUNT({plain})", "count"),
            Output(f"COUNT_IF({condition})", f"COUNT(CASE WHEN {condition} THEN 1 END)", "count"),
            Output(f"SUM({x})", f"SUM({plain})", "sum"),
            Output(f"SUM({x}) FILTER (WHERE {condition})", f"SUM(CASE WHEN {condition} THEN {plain} END)", "sum"),
            Output(f"COUNT(*) FILTER (WHERE {condition})", f"COUNT(CASE WHEN {condition} THEN 1 END)", "count"),
            Output(f"AVG({x})", f"AVG({plain})", "mean"),
            Output(f"AVG({x})", f"AVG({plain})", "mean"),
            Output(f"MEDIAN({x})", f"array_agg({plain})", "quantile", type="int64" if whole == "int" else ""),
            Output(f"QUANTILE_CONT({x}, {level})", f"array_agg({plain})", "quantile", level),
            Output("AVG(joined)", f"AVG(joined - {START})", "mean", type="date32[day]"),
            Output("MEDIAN(joined)", f"array_agg(joined - {START})", "quantile", type="date32[day]"),
        ]
        if narrow:
            choices += [
                Output(f"STDDEV({x})", f"STDDEV_SAMP({plain})", "spread"),
                Output(f"VAR_POP({x})", f"VAR_POP({plain})", "spread"),
                Output("COVAR_POP(age, level)", "COVAR_POP(age, level)", "spread"),
                Output("CORR(age, score)", "CORR(age, score)", "spread"),
            ]
        return rng.choice(choices)

    def outputs(self, count: int) -> tuple[Output, ...]:
        """Return answers, none of them twice."""
        return tuple({o.text: o for o in (self.output() for _ in range(count))}.values())

    def aliases(self, count: int) -> list[str]:
        """Return names of columns."""
        return self.rng.sample(ALIASES, count)

    def after(self, keys: Sequence[Key], outputs: Sequence[Output], made: Sequence[str]) -> tuple[str, str, str]:
        """Return HAVING, ORDER BY and LIMIT over the names of an answer; only whole counts have no ties that noise breaks."""
        rng = self.rng
        several = [n for n, o in zip(made[len(keys) :], outputs, strict=True) if o.kind == "count"]
        counts = several if len(outputs) == 1 else []
        having = order = limit = ""
        if several and keys and rng.random() < 0.4:
            having = f"{names(several[0])} {rng.choice(['> 3.5', '<= 7.5', '> 0.5', 'BETWEEN 1.5 AND 30.5', '> 900'])}"
        if keys and rng.random() < 0.5:
            terms = [f"{names(n)}{rng.choice(['', ' DESC', ' ASC'])}" for n in [*counts, *made[: len(keys)]]]
            order = ", ".join(rng.sample(terms, rng.randint(1, len(terms))))
        if keys and rng.random() < 0.3:
            limit = f"{rng.randint(1, 6)}" + rng.choice(["", " OFFSET 2"])
        return having, order, limit

    # ---- kinds

    def _simple(self, kind: str, keys: int, source: str = "people", pool: Sequence[Key] = KEYS) -> Question:
        """Aggregates of one table, written in one of several ways."""
        rng = self.rng
        chosen = tuple(rng.sample([k for k in pool if k.text not in self.without], keys))
        outputs = self.outputs(rng.choice([1, 1, 2]))
        made = self.aliases(len(chosen) + len(outputs))
        condition = self.condition() if rng.random() < 0.6 else ""
        where = f" WHERE {condition}" if condition else ""
        after = self.after(chosen, outputs, made)
        columns = list(zip([k.text for k in chosen] + [o.text for o in outputs], made, strict=True))
        style = rng.choice(["plain", "with", "inner", "plain"])
        if style == "inner" and chosen:
            inner = ", ".join(f"{k.text} AS {names('k ' + n)}" for k, n in zip(chosen, made, strict=False))
            asked = f"(SELECT *, {inner} FROM {source}{where}) AS inside"
            columns[: len(chosen)] = [(names("k " + n), n) for n in made[: len(chosen)]]
            body = f"SELECT {select(columns)} FROM {asked}"
        elif style == "with":
            body = f"WITH chosen AS (SELECT * FROM {source}{where}) SELECT {select(columns)} FROM chosen"
        else:
            body = f"SELECT {select(columns)} FROM {source}{where}"
        return self._finish(
            kind, body, chosen, outputs, made, after, f"{source}{where}", written=[c for c, _ in columns]
        )

    def _finish(
        self, kind: str, body: str, keys: tuple[Key, ...], outputs: tuple[Output, ...], made: Sequence[str],
        after: tuple[str, str, str], plain_from: str, *, written: Sequence[str], listed: Any = None, unit: str = '"Person Id"',
    ) -> Question:  # fmt: skip
        rng, asked = self.rng, body
        having, order, limit = after
        if keys:
            places = [str(i + 1) for i in range(len(keys))]
            spelled = [list(written[: len(keys)]), places, [names(n) for n in made[: len(keys)]], ["ALL"]]
            asked += " GROUP BY " + ", ".join(rng.choice(spelled))
        asked += (
            f" HAVING {having}" * bool(having) + f" ORDER BY {order}" * bool(order) + f" LIMIT {limit}" * bool(limit)
        )
        values = [k.plain for k in keys] + [o.plain for o in outputs] + [f"COUNT(DISTINCT {unit})"]
        groups = f"SELECT {', '.join(values)} FROM {plain_from}"
        if keys:
            groups += " GROUP BY " + ", ".join(k.plain if not k.plain.isdigit() else k.text for k in keys)
        return Question(kind, asked, groups, tuple(made), keys, outputs, listed, having, order, limit)

    def _filters(self) -> Question:
        """One count under several conditions."""
        rng = self.rng
        condition = " AND ".join(f"({self.condition()})" for _ in range(rng.choice([1, 2, 3])))
        counted = rng.choice(["*", "age", 'DISTINCT "Person Id"'])
        made, output = self.aliases(1), Output(f"COUNT({counted})", f"COUNT({counted})", "count")
        body = f"SELECT {select([(output.text, made[0])])} FROM people WHERE {condition}"
        return self._finish(
            "filters", body, (), (output,), made, ("", "", ""), f"people WHERE {condition}", written=[output.text]
        )

    def _private(self) -> Question:
        """Keys that a threshold shows: those of two units or more, in the order of their texts."""
        town = Key("town", "town", None)
        beside = self.rng.choice([(), (), tuple(self.rng.sample(KEYS[1:5], 1))])
        return self._simple_of("private keys", (*beside, town))

    def _simple_of(self, kind: str, keys: tuple[Key, ...]) -> Question:
        rng = self.rng
        outputs = self.outputs(rng.choice([1, 1, 2]))
        made = self.aliases(len(keys) + len(outputs))
        condition = self.condition() if rng.random() < 0.5 else ""
        while "town =" in condition or "town IN" in condition:
            condition = self.condition()  # would list the keys
        where = f" WHERE {condition}" if condition else ""
        columns = list(zip([k.text for k in keys] + [o.text for o in outputs], made, strict=True))
        body = f"SELECT {select(columns)} FROM people{where}"
        after = self.after(keys, outputs, made)
        return self._finish(kind, body, keys, outputs, made, after, f"people{where}", written=[c for c, _ in columns])

    def _listed(self) -> Question:
        """Keys of an identifier that the question lists."""
        rng = self.rng
        towns = rng.sample([*TOWNS, "nowhere", "Bergen"], rng.randint(2, 6))
        outputs, town = self.outputs(1), Key("town", "town", tuple(towns))
        made = self.aliases(1 + len(outputs))
        condition = f"town IN ({', '.join(text(t) for t in towns)})"
        if rng.random() < 0.4:
            condition += f" AND age > {rng.randint(10, 50)}"
        columns = list(zip(["town", *(o.text for o in outputs)], made, strict=True))
        body = f"SELECT {select(columns)} FROM people WHERE {condition}"
        return self._finish(
            "listed keys", body, (town,), outputs, made, self.after((town,), outputs, made),
            f"people WHERE {condition}", written=[c for c, _ in columns],
        )  # fmt: skip

    def _public(self) -> Question:
        """A join with a public table, of which a town may have two rows."""
        rng = self.rng
        kind = Key('s."Kind"', 's."Kind"', ("small", "big", None))
        keys = rng.choice([(), (kind,), (kind, Key("p.member", "p.member", (*YES_NO, None), "bool"))])
        outputs = tuple(
            rng.sample(
                [
                    Output("COUNT(*)", "COUNT(*)", "count"),
                    Output("SUM(s.tax)", "SUM(s.tax)", "sum"),
                    Output("AVG(p.age)", "AVG(p.age)", "mean"),
                    Output('COUNT(DISTINCT p."Person Id")', 'COUNT(DISTINCT p."Person Id")', "count"),
                    Output("SUM(COALESCE(s.tax, 1) * p.level)", "SUM(COALESCE(s.tax, 1) * p.level)", "sum"),
                ],
                rng.choice([1, 2]),
            )
        )
        made = self.aliases(len(keys) + len(outputs))
        how = rng.choice(["JOIN", "LEFT JOIN", "INNER JOIN"])
        on = rng.choice(["ON p.town = s.town", "ON s.town = p.town", "USING (town)"])
        where = rng.choice(["", " WHERE p.age > 30", " WHERE s.tax > 0", " WHERE s.tax IS NULL OR p.level = 2"])
        joined = f"people AS p {how} shops AS s {on}{where}"
        columns = list(zip([k.text for k in keys] + [o.text for o in outputs], made, strict=True))
        body = f"SELECT {select(columns)} FROM {joined}"
        after = self.after(keys, outputs, made)
        return self._finish(
            "public joins",
            body,
            keys,
            outputs,
            made,
            after,
            joined,
            written=[c for c, _ in columns],
            unit='p."Person Id"',
        )

    def _people_and_visits(self) -> Question:
        """A join of both private tables by their people."""
        rng = self.rng
        pool = [
            Key("v.kind", "v.kind", ("er", "gp", "x-ray")),
            Key("p.member", "p.member", (*YES_NO, None), "bool"),
            Key("MONTH(v.day)", "CAST(EXTRACT(MONTH FROM v.day) AS INT)", tuple(range(1, 13)), "int64"),
        ]
        keys = tuple(rng.sample(pool, rng.choice([0, 1, 1])))
        outputs = tuple(
            rng.sample(
                [
                    Output("COUNT(*)", "COUNT(*)", "count"),
                    Output("SUM(v.cost)", "SUM(v.cost)", "sum"),
                    Output("AVG(v.cost - p.age)", "AVG(v.cost - p.age)", "mean"),
                    Output('COUNT(DISTINCT p."Person Id")', 'COUNT(DISTINCT p."Person Id")', "count"),
                    Output("MEDIAN(v.cost)", "array_agg(v.cost)", "quantile"),
                ],
                rng.choice([1, 2]),
            )
        )
        made = self.aliases(len(keys) + len(outputs))
        where = rng.choice(["", " WHERE p.age > 30", " WHERE v.cost > 10 AND p.level < 4", " WHERE v.kind <> 'er'"])
        joined = f'people AS p JOIN visits AS v ON p."Person Id" = v.member_id{where}'
        columns = list(zip([k.text for k in keys] + [o.text for o in outputs], made, strict=True))
        body = f"SELECT {select(columns)} FROM {joined}"
        after = self.after(keys, outputs, made)
        return self._finish(
            "private joins",
            body,
            keys,
            outputs,
            made,
            after,
            joined,
            written=[c for c, _ in columns],
            unit='p."Person Id"',
        )

    def _per_unit(self) -> Question:
        """One value a person, in a sub-query that is grouped by the people."""
        rng = self.rng
        n = rng.randint(1, 4)
        total = "CASE WHEN SUM(cost) < -60 THEN -60 WHEN SUM(cost) > 300 THEN 300 ELSE SUM(cost) END"
        inside = {
            "rows": ("LEAST(COUNT(*), 9)", "COUNT(*)", "int"),
            "total": ("CLIP(SUM(cost), -60, 300)", total, "int"),
            "least": ("MIN(cost)", "MIN(cost)", "int"),
            "most": ("MAX(day)", "MAX(day)", "date"),
            "any gp": ("BOOL_OR(kind = 'gp')", "BOOL_OR(kind = 'gp')", "bool"),
            "kinds": ("COUNT(DISTINCT kind)", "COUNT(DISTINCT kind)", "int"),
        }  # fmt: skip
        chosen = rng.sample(list(inside), 3)
        where = rng.choice(["", " WHERE cost > 0", " WHERE kind = 'gp'", " WHERE day < DATE '2024-07-01'"])
        asked = ", ".join(f"{inside[c][0]} AS {names(c)}" for c in chosen)
        plain = ", ".join(f"{inside[c][1]} AS {names(c)}" for c in chosen)
        outer = {
            "rows": f" WHERE rows <= {n}", "total": " WHERE total > 20", "least": " WHERE least >= 0",
            "most": " WHERE most > DATE '2024-09-01'", "any gp": ' WHERE "any gp"', "kinds": " WHERE kinds = 1",
        }  # fmt: skip
        rest = rng.choice(["", outer[rng.choice(chosen)]])
        whole = [c for c in chosen if inside[c][2] == "int"]
        outputs: tuple[Output, ...] = (Output("COUNT(*)", "COUNT(*)", "count"),)
        if whole and rng.random() < 0.7:
            name, what = rng.choice(whole), rng.choice(["AVG", "SUM"])
            outputs = (Output(f"{what}({name})", f"{what}({name})", {"AVG": "mean", "SUM": "sum"}[what]),)
        made = self.aliases(len(outputs))
        grouped = f"FROM visits{where} GROUP BY member_id"
        chosen_columns = select([(o.text, n) for o, n in zip(outputs, made, strict=True)])
        body = f"SELECT {chosen_columns} FROM (SELECT member_id, {asked} {grouped}) AS t{rest}"
        return self._finish(
            "per unit", body, (), outputs, made, ("", "", ""), f"(SELECT member_id, {plain} {grouped}) AS t{rest}",
            written=[o.text for o in outputs], unit="member_id",
        )  # fmt: skip

    def _choice(self) -> Question:
        """The most common of declared values: any of those that as many rows have."""
        key = self.rng.choice([k for k in KEYS if k.text not in self.without and "timestamp" not in k.type])
        condition = self.condition()
        made, output = self.aliases(1), Output(f"MODE({key.text})", f"array_agg({key.plain})", "mode", type=key.type)
        body = f"SELECT {select([(output.text, made[0])])} FROM people WHERE {condition}"
        return self._finish(
            "choices", body, (), (output,), made, ("", "", ""), f"people WHERE {condition}", written=[output.text]
        )

    def _formulas(self) -> Question:
        """Arithmetic on what is released."""
        rng = self.rng
        formula = rng.choice(
            [
                ("SUM(age) / COUNT(*)", "CAST(SUM(age) AS DOUBLE PRECISION) / COUNT(*)"),
                ("100.0 * COUNT(age) / COUNT(*)", "100.0 * COUNT(age) / COUNT(*)"),
                ("AVG(age) - AVG(level)", "AVG(age) - AVG(level)"),
                ("SUM(level) - 2 * SUM(age)", "SUM(level) - 2 * SUM(age)"),
                ('ROUND(SUM("Größe") * 10)', 'ROUND(SUM("Größe") * 10)'),
            ]
        )
        keys = tuple(rng.sample([k for k in KEYS[:5] if k.text not in self.without], rng.choice([0, 1])))
        output = Output(*formula, "formula")
        made = self.aliases(len(keys) + 1)
        columns = list(zip([k.text for k in keys] + [output.text], made, strict=True))
        body = f"SELECT {select(columns)} FROM people"
        return self._finish(
            "formulas", body, keys, (output,), made, ("", "", ""), "people", written=[c for c, _ in columns]
        )


def select(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{written} AS {names(name)}" for written, name in columns)


def combinations(question: Question) -> list[tuple[Any, ...]] | None:
    """Return every combination of keys in order; None where a key is private."""
    values = [k.values for k in question.keys]
    return None if None in values else list(itertools.product(*(v for v in values if v is not None)))
