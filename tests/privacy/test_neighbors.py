"""Brute force through the real stack: no pair of neighbors on Parquet or CSV moves any answer by more than is declared.

Units have one to three rows that count and often many more, of odd cells; one is added, removed or exchanged.
"""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from privacy import units
from privacy.units import QUESTIONS, VECTORS, Asker, Exact, parts_of, within

WRITE = {"parquet": units.parquet, "csv": units.csv}


def curator_of(source: Path, kind: str, relation: str, unit: Any) -> Any:
    csv = sd.Csv(header=False, names=units.NAMES) if kind == "csv" else None
    return units.protect(source, relation=relation, unit=unit, csv=csv)


def attack(path: Path, kind: str, relation: str, most: int, seed: int, pairs: int, every: int = 1) -> None:
    """Compare each n-th question on `pairs` pairs of neighbors; each table is asked once, and is in two pairs or three."""
    questions, vectors = (dict(list(several.items())[::every]) for several in (QUESTIONS, VECTORS))
    rng = random.Random(seed)
    groups = rng.choice([None, 1, 2])
    unit = sd.PrivacyUnit("id", max_rows=most, max_groups=groups)
    sides = 1 if relation == "add_remove" else 2
    plans: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    asker = Asker()
    tables, neighbors = units.worlds(rng, relation, most, pairs)
    answers: list[dict[str, list[Exact]]] = []
    for n, table in enumerate(tables):
        curator = curator_of(WRITE[kind](table, rng, path / f"{n}.{kind}"), kind, relation, unit)
        if not plans:
            plans = {
                name: curator.plan(asked, epsilon=1, **({"delta": "1e-6"} if "private" in name else {}))
                for name, asked in questions.items()
            }
            bounds = {name: query.parts(curator.domain, curator.neighbors) for name, query in vectors.items()}
        found = {name: asker.plan(plan, curator) for name, plan in plans.items()}
        answers.append(found | {name: asker.vector(query, curator) for name, query in vectors.items()})
        curator.close()
    for first, second in neighbors:
        both = tables[first], tables[second]
        for name, plan in plans.items():
            one, other = answers[first][name], answers[second][name]
            for part, a, b in zip(parts_of(plan), one, other, strict=False):
                assert within(a, b, part.sensitivity, part.part.unit) is None, (name, part.describe(), both)
            if plan.procedure.allocation.threshold is not None:
                a, b = one[-1], other[-1]
                changed = [k for k in {*a, *b} if a.get(k, 0) != b.get(k, 0)]
                keys = plan.procedure.allocation.threshold.selector.keys
                assert len(changed) <= keys == sides * min(groups or most, most)
                assert all(abs(a.get(k, 0) - b.get(k, 0)) <= 1 for k in changed)
                assert all((a.get(k) or b.get(k)) == 1 for k in {*a} ^ {*b})
        for name, listed in bounds.items():
            for (bound, _), a, b in zip(listed, answers[first][name], answers[second][name], strict=True):
                assert within(a, b, bound, Fraction(1)) is None, (name, both)


@pytest.mark.attack(
    "learn the number of rows where it is private",
    source="seen in smartnoise-core: the number of rows taken for public",
)
@pytest.mark.parametrize(
    ("most", "relation", "kind", "every"),
    [(3, "replace", "parquet", 3), pytest.param(2, "replace", "csv", 1, marks=pytest.mark.deep)],
)
def test_no_unit_moves_an_answer_by_more_than_is_declared(
    tmp_path: Path, most: int, relation: str, kind: str, every: int
) -> None:
    attack(tmp_path, kind, relation, most, seed=most, pairs=1, every=every)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", WRITE)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_unit_moves_an_answer_on_many_pairs(tmp_path: Path, most: int, relation: str, kind: str, seed: int) -> None:
    attack(tmp_path, kind, relation, most, seed=100 + seed, pairs=4)
