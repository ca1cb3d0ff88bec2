"""Ninety-nine seeded answers are as they were: their values, intervals, prices, notes and words, whatever the code's shape.

`python tests/answers/test_seeded_answers.py` writes them anew, where an answer was meant to change.
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from answers.plain_questions import Questions
from answers.plain_shapes import EVERY_KIND, draw_question
from answers.town_tables import open_tables

KEPT = Path(__file__).resolve().parent.parent / "data" / "seeded_answers.json"
COUNT = 99
LOSSES: tuple[dict[str, Any], ...] = ({"epsilon": 1}, {"epsilon": "0.1"}, {"epsilon": 2, "delta": "1e-6"})


def ask_all(place: Path, count: int = COUNT) -> list[dict[str, Any]]:
    """Return the answers to the first questions, in which each kind comes in turn, with seeded noise, as JSON data."""
    connection, _ = open_tables("parquet", place, seed=99)
    drawn = Questions(random.Random(99))
    answers = []
    for number, kind in enumerate(islice(cycle(EVERY_KIND), count)):
        question = draw_question(drawn, kind)
        private = any(key.values is None for key in question.keys)
        loss = LOSSES[2] if private else LOSSES[number % 3]
        if question.asked is None:
            release = connection.ask(sd.sql(question.text, dialect=question.dialect), **loss)
        else:
            release = connection.table("people").ask(question.asked, **loss)
        assert isinstance(release, sd.Release)
        answer = release.to_dict()
        # The moment of an answer is all that a seed does not decide.
        answer.pop("time", None)
        answers.append({"question": question.text or repr(question.asked), "answer": answer})
    return answers


def same(one: Any, other: Any) -> bool:
    """Return whether two pieces of JSON are alike, numbers to twelve digits: other processors round otherwise."""
    if isinstance(one, float) or isinstance(other, float):
        return (
            isinstance(one, (int, float))
            and isinstance(other, (int, float))
            and math.isclose(one, other, rel_tol=1e-12)
        )
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("count", [len(EVERY_KIND), pytest.param(COUNT, marks=pytest.mark.deep)])
def test_answers_are_as_they_were(tmp_path: Path, count: int) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert len(kept) == COUNT
    kept = kept[:count]
    answers = json.loads(json.dumps(ask_all(tmp_path, count)))
    changed = [was["question"] for was, now in zip(kept, answers, strict=True) if not same(was, now)]
    assert changed == []


def test_a_changed_value_is_found() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert same(kept, kept)
    assert not same(kept, [{**kept[0], "answer": {**kept[0]["answer"], "schema": -1}}, *kept[1:]])
    assert not same([0.1], [0.1 + 1e-9])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps(answer, ensure_ascii=False) for answer in ask_all(Path(folder))]
    KEPT.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    print(f"wrote {COUNT} answers to {KEPT}", file=sys.stderr)
