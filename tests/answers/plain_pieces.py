"""The pieces that questions are made of: keys, numbers and conditions, each as the package reads it and in plain SQL."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from answers.town_tables import JOBS


@dataclass(frozen=True)
class Key:
    """A key: its text, the plain text, every value in order (None: private), its type, and whether text sorts by place."""

    text: str
    plain: str
    values: tuple[Any, ...] | None
    type: str = "string"
    by_place: bool = False


DAY = datetime.date
START = "DATE '2020-01-01'"  # days are compared as their distance from it
MONTHS = tuple(DAY(2019 + (11 + i) // 12, 1 + (11 + i) % 12, 1) for i in range(15))
QUARTERS = tuple(datetime.datetime(2024, m, 1) for m in (1, 4, 7, 10))
YES_NO: tuple[Any, ...] = (False, True)
KEYS = (
    Key("job", "job", (*JOBS, None)),
    Key('"order"', '"order"', ("x", "y", "")),
    Key("member", "member", (*YES_NO, None), "bool"),
    Key("level", "level", (1, 2, 3, 4, 5), "int64"),
    Key("age > 40", "age > 40", YES_NO, "bool"),
    Key("job LIKE 'N%'", "job LIKE 'N%'", (*YES_NO, None), "bool"),
    Key("UPPER(job)", "UPPER(job)", (*dict.fromkeys(job.upper() for job in JOBS), None)),
    Key("LEFT(job, 1)", "SUBSTR(job, 1, 1)", (*dict.fromkeys(job[0] for job in JOBS), None)),
    Key(
        "BIN(age, 25)",
        "CASE WHEN age < 25 THEN '[0, 25)' WHEN age < 50 THEN '[25, 50)' WHEN age < 75 THEN '[50, 75)'"
        " WHEN age < 100 THEN '[75, 100)' WHEN age <= 125 THEN '[100, 125]' END",
        ("[0, 25)", "[25, 50)", "[50, 75)", "[75, 100)", "[100, 125]"),
        by_place=True,
    ),
    Key(
        "BIN(age, [0, 18, 65, 125])",
        "CASE WHEN age < 18 THEN '[0, 18)' WHEN age < 65 THEN '[18, 65)' WHEN age <= 125 THEN '[65, 125]' END",
        ("[0, 18)", "[18, 65)", "[65, 125]"),
        by_place=True,
    ),
    Key(
        "CASE WHEN age < 18 THEN 'minor' WHEN age < 65 THEN 'adult' ELSE 'old' END",
        "CASE WHEN age < 18 THEN 'minor' WHEN age < 65 THEN 'adult' ELSE 'old' END",
        ("minor", "adult", "old"),
    ),
    Key(
        "CASE WHEN level < 3 THEN 'low' WHEN age < 65 THEN 'high' END",
        "CASE WHEN level < 3 THEN 'low' WHEN age < 65 THEN 'high' END",
        ("low", "high", None),
    ),
    Key(
        "CASE WHEN level < 3 THEN CASE WHEN age > 40 THEN 'b' END ELSE 'a' END",
        "CASE WHEN level < 3 THEN CASE WHEN age > 40 THEN 'b' END ELSE 'a' END",
        ("b", "a", None),
    ),
    Key("CAST(FLOOR(age / 10) AS INT)", "CAST(FLOOR(age / 10.0) AS INT)", tuple(range(13)), "int64"),
    Key("level % 2", "level % 2", (0, 1), "int64"),
    Key("MONTH(joined)", "CAST(EXTRACT(MONTH FROM joined) AS INT)", (*range(1, 13), None), "int64"),
    Key("DAYOFWEEK(joined)", "CAST(EXTRACT(DOW FROM joined) AS INT)", (*range(7), None), "int64"),
    Key("YEAR(joined)", "CAST(EXTRACT(YEAR FROM joined) AS INT)", (2019, 2020, 2021, None), "int64"),
    Key("HOUR(seen)", "CAST(EXTRACT(HOUR FROM seen) AS INT)", tuple(range(24)), "int64"),
    Key("DATE_TRUNC('month', joined)", "CAST(DATE_TRUNC('month', joined) AS DATE)", (*MONTHS, None), "date32[day]"),
    Key("DATE_TRUNC('quarter', seen)", "DATE_TRUNC('quarter', seen)", QUARTERS, "timestamp[us, tz=Europe/Berlin]"),
)  # fmt: skip
NUMBERS: tuple[tuple[str, str, str], ...] = (  # text, plain text, and whether it is whole
    ("age", "age", "int"),
    ('"Größe"', '"Größe"', "real"),
    ('"it\'s paid"', '"it\'s paid"', "real"),
    ("level", "level", "int"),
    ("balance", "balance", "int"),
    ("score", "score", "real"),
    ("CLIP(age, 18, 90)", "CASE WHEN age < 18 THEN 18 WHEN age > 90 THEN 90 ELSE age END", "int"),
    ("LEAST(age, 65)", "CASE WHEN age > 65 THEN 65 ELSE age END", "int"),
    ("GREATEST(score, 0)", "CASE WHEN score < 0 THEN 0 ELSE score END", "real"),
    ("age * 2 - level", "age * 2 - level", "int"),
    ("ABS(age - 40)", "ABS(age - 40)", "int"),
    ("-age", "-age", "int"),
    ("SIGN(age - 40)", "CASE WHEN age > 40 THEN 1 WHEN age < 40 THEN -1 WHEN age = 40 THEN 0 END", "int"),
    ('ROUND("Größe", 1)', 'ROUND("Größe", 1)', "real"),
    ("ROUND(age, -1)", "ROUND(CAST(age AS DECIMAL(9, 1)), -1)", "real"),
    ('FLOOR("it\'s paid" / 100)', 'FLOOR("it\'s paid" / 100)', "real"),
    ("CEIL(score)", "CEIL(score)", "real"),
    ("TRUNC(score)", "CASE WHEN score < 0 THEN CEIL(score) ELSE FLOOR(score) END", "real"),
    ("age / 7", "CAST(age AS DOUBLE PRECISION) / 7", "real"),
    ("age / NULLIF(level - 1, 0)", "CAST(age AS DOUBLE PRECISION) / NULLIF(level - 1, 0)", "real"),
    ("age // 7", "CAST(TRUNC(age / 7.0) AS INT)", "int"),
    ("(age - 40) % 7", "(age - 40) % 7", "int"),
    ("POWER(age, 2)", "age * age", "int"),
    ("SQRT(age)", "SQRT(CAST(age AS DOUBLE PRECISION))", "real"),
    ("LN(age + 1)", "LN(CAST(age + 1 AS DOUBLE PRECISION))", "real"),
    ("EXP(age / 50)", "EXP(CAST(age AS DOUBLE PRECISION) / 50)", "real"),
    ("CASE WHEN member THEN age ELSE level END", "CASE WHEN member THEN age ELSE level END", "int"),
    ("CASE WHEN job = 'nurse' THEN 1 END", "CASE WHEN job = 'nurse' THEN 1 END", "int"),
    ("COALESCE(age, 30)", "COALESCE(age, 30)", "int"),
    ("NULLIF(level, 3)", "NULLIF(level, 3)", "int"),
    ("IF(age < 18, 0, 2)", "CASE WHEN age < 18 THEN 0 ELSE 2 END", "int"),
    ("LENGTH(job)", "LENGTH(job)", "int"),
    ("DAY(joined)", "CAST(EXTRACT(DAY FROM joined) AS INT)", "int"),
    ("MINUTE(seen)", "CAST(EXTRACT(MINUTE FROM seen) AS INT)", "int"),
    ("DATE '2021-02-03' - joined", "DATE '2021-02-03' - joined", "int"),
    ("DATEDIFF('day', joined, DATE '2021-03-01')", "DATE '2021-03-01' - joined", "int"),
)
CONDITIONS = (
    "age > 40", "age <= 17", "age BETWEEN 18 AND 65", "NOT member", "member IS NULL", "member", "age IS NOT NULL",
    "job IN ('nurse', 'O''Hare \"cook\"')", "job <> 'nurse'", "job = 'Żółw, 龜'", "job = 'two\nlines'", "job LIKE '%u%'",
    "job IS NULL", "job IS DISTINCT FROM 'nurse'", '"order" = \'y\'', '"Größe" < 0', '"Größe" >= 1.25', "score = 0.25",
    "score <> 4", '"it\'s paid" > 2500.5', "joined < DATE '2020-06-01'", "joined >= '2020-02-29'", "level IN (1, 2, 5)",
    "seen > TIMESTAMP '2024-06-01 10:30:00'", "seen BETWEEN TIMESTAMP '2024-03-01 00:00:00' AND TIMESTAMP '2024-10-27 02:30:00'",
    "town = 'Zoë'", "town = 'Ash'", "town = ' Ash'", "town LIKE '%s%'", "town IN ('two\nlines', 'St. John''s', '42')",
    "\"Person Id\" LIKE 'p1%'", "town IS NULL", "balance < 0", "age * 2 > level + 100", "age = level OR age > 90", "age > 200",
    "COALESCE(age, 0) < 30", "town <> 'NULL'",
    "\"Person Id\" IN (SELECT member_id FROM visits WHERE cost > 50)", "\"Person Id\" IN (SELECT member_id FROM visits)",
    "EXISTS (SELECT 1 FROM visits WHERE visits.member_id = people.\"Person Id\" AND kind = 'gp')",
    "NOT EXISTS (SELECT 1 FROM visits AS v WHERE v.member_id = people.\"Person Id\" AND v.cost < 0)",
)  # fmt: skip
