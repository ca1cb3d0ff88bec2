"""No row moves what a mechanism is given by more than it was made for, at any stage of any question, from any source.

Questions are drawn at random, of every kind; each runs on two neighbors with its mechanisms' outputs fixed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from answers.plain_questions import Questions
from answers.plain_shapes import EVERY_KIND, draw_question
from answers.town_tables import FORMATS
from privacy.transcripts import Transcript, ask_fixed, compare_transcripts, open_neighbors
from sordino.core.mechanisms.additive_noise import Gaussian, Laplace

LOSSES: tuple[dict[str, Any], ...] = ({"epsilon": 1}, {"epsilon": 2, "delta": "1e-2"}, {"epsilon": 1, "delta": "1e-6"})
ATTACK = pytest.mark.attack(
    "compare two neighbors stage by stage, with all earlier answers fixed",
    source="Bichsel et al. 2018; Wilson et al. 2020: testers that found queries of unbounded sensitivity",
)


def attack(
    name: str, place: Path, patch: pytest.MonkeyPatch, *, seed: int, each: int, kinds: Sequence[str] = EVERY_KIND
) -> Counter[str]:
    """Ask `each` questions of these kinds on a pair of neighbors; return how many there were, by what came of them."""
    pair = open_neighbors(name, place, seed)
    drawn = Questions(random.Random(f"{name} {seed}"))
    kinds = [kind for kind in kinds if kind != "lists" or FORMATS[name].lists] * each
    outcomes: Counter[str] = Counter()
    for kind in kinds:
        question = draw_question(drawn, kind)
        private = any(key.values is None for key in question.keys)
        loss = LOSSES[2] if private else drawn.rng.choice(LOSSES)
        here = ask_fixed(pair.here, question, loss, patch)
        there = ask_fixed(pair.there, question, loss, patch)
        # Quantiles and private keys are not fixed: what follows from them may differ.
        whole = not private and not any(output.kind in ("quantile", "mode") for output in question.outputs)
        found = compare_transcripts(here, there, whole=whole)
        assert not found, (kind, question.text, loss, found)
        outcomes[here.raised if here.raised is not None else kind] += 1
        if whole and here.release is not None:
            outcomes["at the bound"] += any(a.is_at_the_bound(b) for a, b in zip(here.given, there.given, strict=True))
            outcomes["vectors"] += len(here.given)
    return outcomes


@ATTACK
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("csv", EVERY_KIND[::4]),
        ("frame", EVERY_KIND[1::2]),
        pytest.param("csv", EVERY_KIND[2::4], marks=pytest.mark.deep),
    ],
    ids=["csv", "frame", "rest of csv"],
)
def test_no_question_tells_neighbors_apart(
    name: str, kinds: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of four kinds of question in one of two formats; the deep test asks all of them in all formats."""
    outcomes = attack(name, tmp_path, monkeypatch, seed=5, each=1, kinds=kinds)
    assert not [words for words in outcomes if ": " in words]
    assert outcomes["vectors"] >= 2


@ATTACK
@pytest.mark.deep
@pytest.mark.parametrize("seed", [0])
@pytest.mark.parametrize("name", FORMATS)
def test_hundreds_of_questions_tell_no_neighbors_apart(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = attack(name, tmp_path, monkeypatch, seed=100 + seed, each=4)
    assert not [words for words in outcomes if ": " in words]
    # Whether one of so few reaches its bound is chance; that vectors are compared is not.
    assert outcomes["vectors"] >= 10


def test_a_row_too_many_and_another_shape_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: on two tables that are no neighbors, and on answers that look otherwise."""
    first = open_neighbors("arrow", tmp_path, 1, rows=60)
    (tmp_path / "other").mkdir()
    second = open_neighbors("arrow", tmp_path / "other", 2, rows=90)
    drawn = Questions(random.Random(3))
    question = next(q for q in iter(lambda: drawn.question("aggregates"), None) if q.text.startswith("SELECT COUNT(*)"))
    here, there = (ask_fixed(side.here, question, LOSSES[0], monkeypatch) for side in (first, second))
    assert any("moved by" in words for words in compare_transcripts(here, there, whole=True))
    refused = Transcript(raised="EngineFailed: no")
    assert compare_transcripts(here, refused, whole=False)[0].startswith("another shape")


def test_the_mechanisms_are_those_that_draw() -> None:
    """What is replaced is what answers come from: a seeded answer has noise."""
    table = sd.dummy(sd.Domain({"x": sd.Integer(0, 9)}), rows=50, rng=sd.Rng.seeded(1))
    curator = sd.protect(
        table,
        domain=sd.Domain({"x": sd.Integer(0, 9)}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10),
        ledger=None,
        rng=sd.Rng.seeded(2),
    )
    laplace, gaussian = Laplace.release, Gaussian.release
    assert curator.ask(sd.sum("x"), epsilon="0.1").value != 1000
    assert (Laplace.release, Gaussian.release) == (laplace, gaussian)
