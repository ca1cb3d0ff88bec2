"""Draws of the intervals of synthetic models: answers to counts, and ranges of a released histogram."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from interval_check import Draws

import sordino as sd
from sordino import col, synth
from sordino.ask.queries.build import Selection

ROWS = 10_000


def model_draws(size: int) -> Iterator[Draws]:
    """Yield what each place of the models' grid draws."""
    yield from _ranges(size)
    yield from _answers(size)


def _protect(table: pa.Table, domain: sd.Domain, seed: int, loss: dict[str, str]) -> Any:
    return sd.protect(
        table, domain=domain, neighbors="add_remove", privacy_unit="row",
        budget=sd.ZCDP(10**9) if "rho" in loss else sd.ApproxDP(10**9, "0.99"), ledger=None, rng=sd.Rng.seeded(seed),
    )  # fmt: skip


def _ranges(size: int) -> Iterator[Draws]:
    """Ranges of a histogram of one column, each in bins that no other range shares."""
    losses: list[dict[str, str]] = [{"epsilon": e} for e in ("0.3", "1", "2.9", "5")] + [
        {"rho": r} for r in ("0.1", "2.4")
    ]
    for loss, bins in itertools.product(losses, (1, 5)):
        count = max(60, size // 4 // bins)
        highest = count * bins
        table = pa.table({"x": np.repeat(np.arange(highest), 3)})
        found = synth.Histogram("x", width=1).fit(
            _protect(table, sd.Domain({"x": sd.Integer(0, highest - 1)}), 11, loss), **loss
        )
        ranges = [found.range(i * bins, (i + 1) * bins) for i in range(count)]

        def ends(confidence: float, ranges: Any = ranges) -> tuple[Any, Any]:
            pairs = np.array([r.interval(confidence) for r in ranges])
            return pairs[:, 0], pairs[:, 1]

        place = f"{bins} bins; {', '.join(f'{n} {v}' for n, v in loss.items())}"
        yield Draws("range of a histogram", place, 3.0 * bins, [r.value for r in ranges], ends, least=0)


def _answers(size: int) -> Iterator[Draws]:
    """Counts over one, two and three columns of a model, of random ranges: on average over questions."""
    rng = np.random.default_rng(7)
    a, b, d = rng.integers(0, 4, ROWS), rng.integers(0, 6, ROWS), rng.integers(0, 10, ROWS)
    keys = {
        "a": a,
        "b": np.where(rng.random(ROWS) < 0.5, a, b),
        "c": np.where(rng.random(ROWS) < 0.7, (a + b) % 4, 0),
        "d": d,
    }
    domain = sd.Domain({n: sd.Integer(0, int(v.max())) for n, v in keys.items()})
    fits, questions = (3, 25) if size < 1000 else (12, 60)
    for epsilon in ("0.1", "1", "10"):
        models = [
            synth.fit(_protect(pa.table(keys), domain, i, {}), epsilon=epsilon, delta="1e-9", rng=sd.Rng.seeded(i))
            for i in range(fits)
        ]
        for columns in (1, 2, 3):
            truths, answers = [], []
            for model, _ in itertools.product(models, range(questions)):
                asked, held = Selection(), np.ones(ROWS, dtype=bool)
                for name in rng.choice(list(keys), columns, replace=False):
                    low, high = sorted(int(v) for v in rng.integers(0, keys[name].max() + 1, 2))
                    asked, held = (
                        asked.where(col(name).is_between(low, high)),
                        held & (keys[name] >= low) & (keys[name] <= high),
                    )
                truths.append(float(held.sum()))
                answers.append(model.answer(asked.agg(sd.count())))
            place = f"{columns} columns; epsilon {epsilon}"
            yield _on_average("count by a model", place, truths, answers, fits, most=ROWS)
        yield from _numbers(models, keys, f"epsilon {epsilon}", questions)


def _on_average(kind: str, place: str, truths: Any, answers: Any, fits: int, *, most: float) -> Draws:
    def ends(confidence: float) -> tuple[Any, Any]:
        pairs = np.array([r.interval(confidence) for r in answers], dtype=float)
        return pairs[:, 0], pairs[:, 1]

    return Draws(
        kind, place, np.array(truths), [r.value for r in answers], ends, promise="on average", least=0, most=most,
        family=np.repeat(np.arange(fits), len(answers) // fits),
    )  # fmt: skip


def _numbers(models: Any, keys: Any, place: str, questions: int) -> Iterator[Draws]:
    """Sums and means of a column, among the rows that another's range chooses."""
    rng, d = np.random.default_rng(8), keys["d"]
    for what, aggregate, truth, most in (
        ("sum", sd.sum("d"), np.sum, 9.0 * ROWS),
        ("mean", sd.mean("d"), np.mean, 9.0),
    ):
        truths, answers = [], []
        for model, _ in itertools.product(models, range(questions)):
            name = str(rng.choice(["a", "b", "c"]))
            low, high = sorted(int(v) for v in rng.integers(0, keys[name].max() + 1, 2))
            truths.append(float(truth(d[(keys[name] >= low) & (keys[name] <= high)])))
            answers.append(model.answer(Selection().where(col(name).is_between(low, high)).agg(aggregate)))
        yield _on_average(f"{what} by a model", place, truths, answers, len(models), most=most)
