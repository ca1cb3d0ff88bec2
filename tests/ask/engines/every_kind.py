"""Random questions of every kind that the language has, about a table t and another, u, of the same people.

Engines that hold the same rows are asked the same questions, with the same seed, and must say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

import sordino as sd
from ask.curator.extremes import Questions
from sordino import col
from sordino.ask.queries.build import Selection, sum_distinct
from sordino.ask.queries.expressions.expr import Expr

S = Selection()
DAYS, MOMENTS, WORDS, KIN = "day", "seen", "word", "kin"  # kin: one text a unit, see ONE_KIN
ONE_KIN = "CASE WHEN length(id) < 2 THEN ' a' WHEN length(id) < 5 THEN 'a' ELSE 'a ' END"
FIXED: dict[str, Any] = {  # columns that each table has beside the random ones
    "n": sd.Integer(0, 125),
    "id": sd.Identifier(),
    DAYS: sd.Date("1999-12-30", "2001-02-03", missing="keep"),
    MOMENTS: sd.DateTime("1999-12-30", "2001-02-03", zone="Europe/Berlin", resolution="second"),
    WORDS: sd.Identifier(),
    KIN: sd.Identifier(),
}
PLAIN = pa.table({"word": ["a", "77", "m", "it's"], "size": ["s", "l", "s", "l"], "weight": [1, 2, 3, None]})
PUBLIC = sd.public(
    PLAIN,
    key="word",
    columns=sd.Domain(
        {"word": sd.Identifier(), "size": sd.Category(["s", "l"], missing="keep"), "weight": sd.Integer(0, 2)}
    ),
)


class EveryKind(Questions):
    """Random questions by kind; `kinds` names them all."""

    @property
    def kinds(self) -> Mapping[str, Callable[[], Any]]:
        """How a question of each kind is made."""
        return {
            "aggregates": self.question,
            "SQL": lambda: sd.sql(self.sql().replace("FROM data", "FROM t")),
            "keys by a threshold": lambda: self._private_keys("threshold"),
            "keys by weights": lambda: self._private_keys("weighted"),
            "robust": self._robust,
            "units": lambda: self._where().agg(sd.count_distinct("id"), sd.count_distinct(WORDS)),
            "values of a unit": self._per_unit,
            "joined people": self._join,
            "units elsewhere": self._exists,
            "most common": lambda: sd.most_common(self._small_key(), k=self.rng.choice([1, 2, 3])),
            "quantiles": self._quantiles,
            "times": self._times,
            "formulas": self._formulas,
            "listed keys": self._listed,
            "public table": self._public,
            "functions": self._functions,
            "different values": self._different,
            "questions inside": self._inside,
        }

    def _different(self) -> Any:
        x = self.number(self.rng.randrange(2)).clip(-5, 50)
        by = self.rng.choice([self._where(), self._where().group_by(self._small_key().alias("by"))])
        return by.agg(sum_distinct(x).alias("total"), sd.count_distinct("n"))

    def _inside(self) -> Any:
        value = self.rng.choice(["AVG(n)", "MEDIAN(n) + 0.5", "COUNT(*) / 10"])
        inside = [
            f"n > (SELECT {value} FROM t)",
            "n % 10 IN (SELECT n % 10 FROM t GROUP BY 1 HAVING COUNT(*) > 3)",
        ]
        return sd.sql(f"SELECT COUNT(*) AS c, SUM(n) AS s FROM t WHERE {self.rng.choice(inside)}")

    def _where(self) -> Selection:
        return S if self.rng.random() < 0.4 else S.where(self.condition(self.rng.randrange(2)))

    def _small_key(self) -> Expr:
        """Return a key with few declared values."""
        return self.rng.choice([col("n").bin(width=25), col(DAYS).month(), col(DAYS).day_of_week()])

    def _value(self) -> Any:
        x = self.number(self.rng.randrange(2)).clip(-5, 50)
        return self.rng.choice([sd.count(), sd.sum(x), sd.mean(x), sd.count(x), sd.median(x), sd.variance(x)])

    def _private_keys(self, how: str) -> Any:
        """Of several keys of a unit, weights choose by a hash, and the engine's order decides whose noise is drawn first."""
        if how == "weighted":
            return S.group_by(KIN, keys=how).agg(sd.count(), sd.sum(self.number(1).clip(-5, 50)).alias("out"))
        grouped = self._where().group_by(WORDS, keys=how)
        if self.rng.random() < 0.3:
            grouped = self._where().group_by(self._small_key().alias("small"), WORDS, keys=how)
        return grouped.keys() if self.rng.random() < 0.2 else grouped.agg(self._value().alias("out"))

    def _robust(self) -> Any:
        statistic = self.rng.choice(["median", "mean", "var", "quantile:0.9"])
        x = self.number(1)
        return sd.sample_and_aggregate(statistic, x, chunks=1, default=0, where=self.condition(0))

    def _per_unit(self) -> Any:
        rng = self.rng
        x = self.number(0)
        inside = [
            sd.count().clip(0, 9).alias("rows"),
            sd.sum(x.clip(-3, 40)).clip(-9, 99).alias("total"),
            sd.min("n").alias("least"),
            sd.first("n", by=DAYS).alias("first"),
            sd.any(self.condition(0)).alias("some"),
            sd.mean("n").alias("average"),
        ]
        made = self._where().per_unit(*rng.sample(inside, 3), sd.max("n").alias("most"))
        made = made if rng.random() < 0.5 else made.where(col("most") > rng.choice([0, 77]))
        return rng.choice([made, made.group_by(col("most").bin(width=25))]).agg(sd.count(), sd.mean("most"))

    def _join(self) -> Any:
        joined = S.join("u", how=self.rng.choice(["inner", "left"]))
        by = self.rng.choice([joined, joined.group_by(col("u.n").bin(width=50))])
        return by.agg(sd.count(), sd.sum(col("u.n") - col("t.n")), sd.count_distinct("u.word"))

    def _exists(self) -> Any:
        there = sd.exists("u", self.rng.choice([None, col("n") > self.constant(), col(WORDS) == "77"]))
        return self._where().where(self.rng.choice([there, ~there])).agg(sd.count(), sd.sum("n"))

    def _quantiles(self) -> Any:
        x = self.number(self.rng.randrange(3)).clip(-50, 100)
        asked = [sd.quantile(x, q).alias(f"q{q}") for q in self.rng.sample([0, 0.1, 0.5, 0.75, 1], 3)]
        return self.rng.choice([self._where(), self._where().group_by(self._small_key().alias("by"))]).agg(asked)

    def _times(self) -> Any:
        rng, seen, day = self.rng, col(MOMENTS), col(DAYS)
        keys = [
            seen.hour(),
            day.month(),
            day.week(),
            day.truncate("month"),
            seen.truncate("quarter"),
            day.strftime("%Y-%m"),
        ]
        keys += [seen.iso_day_of_week(), (day.shift(months=1) - day).days().clip(27, 32)]
        lengths = [sd.mean((seen - day).hours().clip(-99, 99)), sd.mean(day), sd.median(seen), sd.count(seen)]
        asked = S.where(rng.choice([seen > "2000-02-29 12:00", day <= "2000-02-29", seen.date() == day, day.is_null()]))
        return rng.choice([asked, asked.group_by(rng.choice(keys).alias("by"))]).agg(rng.choice(lengths).alias("out"))

    def _formulas(self) -> Any:
        x = self.number(1).clip(0, 50)
        made = [
            (sd.sum(x) / sd.count()).alias("ratio"),
            (100 * sd.count(x) / sd.count()).alias("share"),
            (sd.mean(x) - sd.mean("n")).alias("gap"),
        ]
        return self._where().agg(self.rng.choice(made), sd.count())

    def _listed(self) -> Any:
        words = self.rng.sample(
            ["a", "77", "", " ", "it's", "\\", "\u00e9", "x" * 5000, "a\0b", *(f"v{i}" for i in range(30))], 25
        )
        return self._where().group_by(WORDS, keys=words).agg(self._value().alias("out"))

    def _public(self) -> Any:
        joined = self._where().join("plain", on=WORDS, how=self.rng.choice(["inner", "left"]))
        key = self.rng.choice(["plain.size", "plain.weight"])
        return joined.group_by(key).agg(sd.count(), sd.sum("plain.weight"))

    def _functions(self) -> Any:
        x, n = self.number(1).clip(0, 200), col("n")
        numbers = [
            x.sqrt(),
            (x + 1).ln(),
            (x + 1).log2(),
            (x / 50).exp(),
            x / (n + 1),
            n // 7,
            n % 7,
            x.round(-1),
            n**2,
        ]
        words = [
            col(WORDS).like("%7%"),
            col(WORDS).starts_with("-9"),
            col(WORDS).contains("'"),
            col(WORDS).ends_with("e"),
        ]
        asked = S.where(self.rng.choice(words)) if self.rng.random() < 0.5 else self._where()
        return asked.agg(sd.sum(self.rng.choice(numbers)).alias("out"), sd.count())
