"""A class through the real pages: its budgets, its tasks, what a guess shows, the noise of a seed, and who may do what."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from argon2 import PasswordHasher

import sordino as sd
from serving import Served, served
from sordino.core.errors import DeclarationError
from sordino.core.mechanisms.additive_noise import Laplace
from sordino.serve.server.accounts import Accounts
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.database import ServerDatabase
from sordino.serve.workbench.classroom import (
    TEACHER,
    Card,
    Classroom,
    classroom_app,
    open_classroom,
    write_cards,
)
from visiting import Person, person_of

COUNT = "SELECT COUNT(*) AS n FROM people"


def _quick(store: ServerDatabase) -> Accounts:
    return Accounts(store, hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@dataclasses.dataclass
class Lesson:
    """A class, the cards of its accounts, and its pages."""

    classroom: Classroom
    cards: dict[str, Card]
    pages: Served

    def enter(self, name: str) -> Person:
        """Sign in with what the card says."""
        form = {"name": name, "password": self.cards[name].password}
        answer = self.pages.send("POST", "/sign-in", who=None, headers={"origin": "http://test"}, data=form)
        assert answer.status_code == 303, answer.text
        return Person(self.pages, answer.headers["set-cookie"].split(";")[0])

    def ask(self, name: str, sql: str, epsilon: str) -> dict[str, Any]:
        """Ask as a notebook does, with the token of the card."""
        answer = self.pages.ask(sql, epsilon=epsilon, who=name)
        assert answer.status_code == 200, answer.text
        content: dict[str, Any] = answer.json()
        return content


@contextmanager
def lesson(directory: Path, **more: Any) -> Iterator[Lesson]:
    stated = {"students": 3, "epsilon": "1", "rows": 1000, **more}
    classroom, cards = open_classroom(directory, accounts=_quick, **stated)
    pages = Served(classroom.service)
    pages.app = classroom_app(classroom)
    pages.tokens.update({card.name: card.token for card in cards})
    try:
        yield Lesson(classroom, {card.name: card for card in cards}, pages)
    finally:
        classroom.service.close()


def test_each_student_has_a_budget_and_nobody_more(tmp_path: Path) -> None:
    with lesson(tmp_path) as room:
        assert list(room.cards) == [TEACHER, "student-1", "student-2", "student-3"]
        assert room.ask("student-1", COUNT, "0.75")["remaining"] == {"epsilon": 0.25}
        refused = room.pages.ask(COUNT, epsilon="0.5", who="student-1")
        assert refused.json()["exit_code"] == 4
        # what one spent is not another's
        assert room.ask("student-2", COUNT, "1")["remaining"] == {"epsilon": 0.0}
        assert room.classroom.service.ledger("people").cap.amounts() == {"epsilon": Fraction(3)}
        # the teacher asks nothing, and sees all budgets at the desk
        assert room.pages.ask(COUNT, epsilon="0.1", who=TEACHER).status_code == 403
        assert "student-2" in room.enter(TEACHER).get("/desk").text


def test_a_student_attacks_guesses_once_and_reads_what_stopped_it(tmp_path: Path) -> None:
    with lesson(tmp_path) as room:
        student = room.enter("student-1")
        assert ">Tasks<" in student.get("/").text
        before = unescape(student.get("/tasks").text)
        household = re.search(r"household = (\d+)", before)
        assert household is not None
        assert "You said" not in before
        assert "The class" not in before
        # both ways that the task names are questions of the language
        for condition in (f"household <> {household[1]}", f"household = {household[1]}"):
            room.ask("student-1", f"{COUNT} WHERE {condition}", "0.25")
        assert "You have spent 0.5 of 1" in unescape(student.get("/tasks").text)
        rows = pq.read_table(tmp_path / "census.parquet")["household"].to_pylist()
        is_in = int(household[1]) in rows
        answer = student.post("/tasks/guess", guess="in")
        assert (answer.status_code, answer.headers["location"]) == (303, "/tasks")
        after = unescape(student.get("/tasks").text)
        assert f"<strong>{'right' if is_in else 'wrong'}</strong>" in after
        assert f"{len(rows):,} and {len(rows) - is_in:,}" in after
        # e / (1 + e), and for three who pool what they have e^3 / (1 + e^3)
        assert "more often than 73% of the time" in after
        assert "have epsilon 3, and are right 95.3% of the time" in after
        assert student.post("/tasks/guess", guess="out").status_code == 403
        teacher = unescape(room.enter(TEACHER).get("/tasks").text)
        assert f"<dt>Right</dt><dd>{int(is_in)} " in teacher
        assert "Attack" not in teacher


def test_the_guess_is_a_form_of_a_student_of_this_page(tmp_path: Path) -> None:
    with lesson(tmp_path) as room:
        student = room.enter("student-2")
        assert student.post("/tasks/guess", token="0" * 64, guess="in").status_code == 403
        assert student.post("/tasks/guess", origin="https://evil.example", guess="in").status_code == 403
        for guess in ({"guess": "<script>"}, {"guess": ""}, {}):
            assert student.post("/tasks/guess", **guess).status_code == 400, guess
        assert room.enter(TEACHER).post("/tasks/guess", guess="in").status_code == 403
        by_token = room.pages.send("POST", "/tasks/guess", who="student-2", data={"guess": "in"})
        assert by_token.headers["location"] == "/sign-in"
        assert room.pages.send("GET", "/tasks", who=None).headers["location"] == "/sign-in"
        assert room.classroom.score().guesses == 0


def test_a_seed_gives_the_room_one_census_and_one_noise(tmp_path: Path) -> None:
    """Whoever asks the same in the same order reads the same numbers, in this room and in next year's; all are marked."""
    questions = [(COUNT, "0.1"), ("SELECT region, COUNT(*) AS n FROM people GROUP BY region", "0.1"), (COUNT, "0.1")]
    read: list[list[Any]] = []
    for year in ("a", "b"):
        (tmp_path / year).mkdir()
        with lesson(tmp_path / year, seed=11) as room:
            for name in ("student-1", "student-3"):
                answers = [room.ask(name, *question) for question in questions]
                assert all(answer["private"] is False for answer in answers)
                read.append([answer["rows"] for answer in answers])
            assert "seeded" in room.enter("student-2").get("/tasks").text
    assert read[0] == read[1] == read[2] == read[3]
    # asked again, a question is answered with other noise
    assert read[0][0] != read[0][2]
    (tmp_path / "c").mkdir()
    with lesson(tmp_path / "c", seed=12) as room:
        assert room.ask("student-1", *questions[0]) != read[0][0]


def test_without_a_seed_students_get_noise_of_their_own(tmp_path: Path) -> None:
    """Three students, twelve regions and ages each: equal by chance less often than 1 in 10^9."""
    by_age = "SELECT age, COUNT(*) AS n FROM people GROUP BY age"
    with lesson(tmp_path) as room:
        answers = [room.ask(name, by_age, "0.5") for name in ("student-1", "student-2")]
        assert all(answer["private"] is True for answer in answers)
        assert answers[0]["rows"] != answers[1]["rows"]
        assert "seeded" not in room.enter("student-2").get("/tasks").text


def test_a_seed_is_refused_on_any_table_with_a_ledger_that_lasts(tmp_path: Path) -> None:
    """The noise of a seed is for classrooms: a served project refuses its first question, and nothing is charged."""
    with served(tmp_path) as server:
        seeded = Served(CuratorService(server.service.project, server.service.store, seed=1), tokens=server.tokens)
        answer = seeded.ask()
        assert answer.status_code >= 400
        assert "seeded noise is not private" in answer.json()["detail"]
        assert server.service.ledger("people").charges() == []


def test_other_servers_have_no_tasks(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        person = person_of(server)
        assert ">Tasks<" not in person.get("/").text
        assert person.get("/tasks").status_code == 404


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"students": 0}, "students must be from 1 to 200"),
        ({"students": 201}, "students must be from 1 to 200"),
        ({"rows": 10}, "rows must be from 1,000"),
        ({"epsilon": "0"}, "epsilon must be above 0"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": "much"}, "epsilon"),
    ],
)
def test_what_is_no_class_is_refused_before_anything_is_written(
    stated: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(DeclarationError, match=re.escape(words)):
        open_classroom(tmp_path, **{"students": 2, "epsilon": "1", "rows": 1000, **stated})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_the_targets_are_tossed_fairly(tmp_path: Path) -> None:
    """Of 200 coins 60 to 140 say in: 5.6 standard deviations, missed less often than 1 in 10^7; each is as the table says."""
    with lesson(tmp_path, students=200, epsilon="ln3", rows=5000) as room:
        rows = set(pq.read_table(tmp_path / "census.parquet")["household"].to_pylist())
        targets = [room.classroom._targets[name] for name in room.cards if name != TEACHER]
        assert len({target.household for target in targets}) == 200
        assert all((target.household in rows) == target.is_in for target in targets)
        assert 60 <= sum(target.is_in for target in targets) <= 140
        assert room.classroom.score().allowed == pytest.approx(0.75)


def test_cards_say_all_that_a_student_types(tmp_path: Path) -> None:
    with lesson(tmp_path) as room:
        text = unescape(
            write_cards(list(room.cards.values()), address="http://192.168.1.7:8000", epsilon=room.classroom.epsilon)
        )
    for card in room.cards.values():
        assert card.name in text
        assert card.password in text
    assert f'sd.connect("http://192.168.1.7:8000", token="{room.cards["student-1"].token}")' in text
    assert room.cards[TEACHER].token not in text
    assert "You may spend epsilon 1." in text


def test_the_bound_is_what_one_count_attains(tmp_path: Path) -> None:
    """A guess by one count at the whole budget is right as often as nobody exceeds: 20,000 plays, five deviations."""
    rng = sd.Rng.seeded(3)
    mechanism = Laplace(l1=Fraction(1), epsilon=Fraction(1))
    truths = rng.words(20_000, np.uint8) & 1
    answers = mechanism.release(truths.astype(int).tolist(), rng)
    right = sum((answer > 0) == truth for answer, truth in zip(answers, truths, strict=True)) / 20_000
    with lesson(tmp_path, students=1) as room:
        assert right == pytest.approx(room.classroom.score().allowed, abs=5 * (0.731 * 0.269 / 20_000) ** 0.5)
