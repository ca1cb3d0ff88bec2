"""At an epsilon of a million a release says what plain SQL says: values, keys, rows and columns in order, names and types.

Questions are drawn at random, of every kind; the tables are as people have them, in each format. A disagreement is printed
with both texts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import sordino as sd
from answers.plain_answers import compare, cut, full_answer, inspect, inspect_sample, possible_keys
from answers.plain_questions import Question, Questions
from answers.plain_shapes import EVERY_KIND, draw_question
from answers.town_tables import FORMATS, Plain, open_tables

DEEP = 7  # questions of each kind and format: 525, and 3,000 in all; 38 are asked each time, three of each kind


@pytest.mark.each(3)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.deep)])
def test_releases_say_what_plain_sql_says(part: int, name: str, tmp_path: Path) -> None:
    """Half of the kinds of question in two formats, a quarter in each; test_seeded_answers.py asks all of them."""
    half = list(FORMATS).index(name) % 2
    check(name, tmp_path, rows=240, kinds=EVERY_KIND[half + 2 * part :: 4])


@pytest.mark.deep
@pytest.mark.parametrize("name", FORMATS)
def test_three_thousand_releases_say_what_plain_sql_says(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, rows=600, kinds=EVERY_KIND * DEEP)


def check(name: str, place: Path, *, rows: int, kinds: Sequence[str]) -> None:
    connection, plain = open_tables(name, place, seed=rows, rows=rows)
    drawn = Questions(random.Random(f"{name} {rows}"))
    kept = [kind for kind in kinds if kind != "lists" or FORMATS[name].lists]
    found = [compare(draw_question(drawn, kind), connection, plain.rows) for kind in kept]
    wrong = [f"{c.question.text}\n  {c.question.groups}\n  {c.found}" for c in found if c.found]
    assert not wrong, "\n".join(wrong[:5])
    # Noise is far below what is compared, but for a variance in small groups now and then.
    assert sum(c.cells for c in found) >= len(found)
    assert sum(c.near / c.cells for c in found if c.cells) >= 0.97 * sum(c.cells > 0 for c in found)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[sd.Connection, Plain, list[Question]]:
    connection, plain = open_tables("arrow", tmp_path_factory.mktemp("asked"), seed=4)
    drawn = Questions(random.Random(4))
    return connection, plain, [drawn.question("groups") for _ in range(12)]


@pytest.mark.deep
def test_rows_more_in_the_plain_tables_are_found(asked: tuple[sd.Connection, Plain, list[Question]]) -> None:
    connection, plain, questions = asked
    one = """INSERT INTO people SELECT * REPLACE ('more ' || "Person Id" AS "Person Id") FROM people WHERE age > 50"""
    plain.connection.execute("BEGIN")
    plain.connection.execute(one)
    found = [compare(question, connection, plain.rows).found for question in questions]
    plain.connection.execute("ROLLBACK")
    assert sum(map(bool, found)) >= 5  # others ask what these rows leave as it is
    assert not any(compare(question, connection, plain.rows).found for question in questions)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.deep)])
def test_other_names_orders_and_rows_are_found(every: int, asked: tuple[sd.Connection, Plain, list[Question]]) -> None:
    connection, plain, questions = asked
    for question in questions[::every]:
        release = connection.ask(sd.sql(question.text), epsilon=10**6)
        assert isinstance(release, sd.Release)
        possible = possible_keys(question, connection.plan(sd.sql(question.text), epsilon=1))
        rows = cut(question, full_answer(question, plain.rows, possible))
        assert not inspect(question, release, rows).found
        assert inspect(replace(question, names=question.names[::-1]), release, rows).found
        assert inspect(question, release, rows[:-1]).found or not rows
        assert inspect(question, release, rows[::-1]).found or len(rows) < 2
        keys = tuple(replace(key, type="uint8") for key in question.keys)
        assert inspect(replace(question, keys=keys), release, rows).found


@pytest.mark.deep
def test_another_rate_of_a_sample_and_a_sample_of_other_people_are_found(tmp_path: Path) -> None:
    connection, plain = open_tables("arrow", tmp_path, seed=6)
    drawn = Questions(random.Random(6))
    questions = [q for q in (draw_question(drawn, "samples") for _ in range(40)) if q.rate < 1 and not q.keys][:5]
    for question in questions:
        release = connection.ask(sd.sql(question.text), epsilon=10**6)
        assert isinstance(release, sd.Release)
        parts = plain.rows(question.groups)
        assert not inspect_sample(question, release, parts).found
        others = [(*(0 for _ in part[:-1]), part[-1]) for part in parts]
        assert inspect_sample(question, release, others).found
    counts = [q for q in questions if "COUNT(*)" in q.text]
    for question in counts:
        release = connection.ask(sd.sql(question.text), epsilon=10**6)
        assert isinstance(release, sd.Release)
        wrong = replace(question, rate=0.02 if question.rate > 0.5 else 0.98)
        assert inspect_sample(wrong, release, plain.rows(question.groups)).found
    assert counts
