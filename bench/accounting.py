"""How long tight accounting, smooth sensitivities and selections take, each beside a baseline of the same run.

Run `python bench/accounting.py [--json]`. Baselines: the plain sum of the same charges in exact fractions, a sort of the
same numbers, and numpy's own Gumbel noise with its largest entry.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from timing import compare

from sordino.core.accounting.composition import best
from sordino.core.accounting.events import (
    ApproxEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    approximate_rho,
)
from sordino.core.accounting.pld import pld_epsilon
from sordino.core.loss import Event
from sordino.core.noise.rng import Rng
from sordino.core.noise.softmax import fill_urn, flip_coins
from sordino.lab.sensitivity.smooth import smooth_sensitivity

CHARGES = 10_000
PEOPLE = 1_000_000
REPEATS = 5


def run() -> dict[str, Any]:
    """Measure every row: the milliseconds of both sides, and their ratio."""
    rows: dict[str, Any] = {}
    for name, distinct in (("100 kinds", 100), ("all different", CHARGES)):
        events = mix_events(distinct)
        total = partial(_add_rho, events)
        rows[f"pld, {CHARGES:,} charges, {name}"] = _row(partial(pld_epsilon, events, 1e-6), total)
        rows[f"best, {CHARGES:,} charges, {name}"] = _row(partial(best, events, 1e-6), total)
    normal = np.random.default_rng(1).normal(5, 10, PEOPLE)
    for name, values in (("spread", normal), ("constant", np.full(PEOPLE, 5.0))):
        for relation in ("add_remove", "replace"):
            median = partial(smooth_sensitivity, "median", values, lower=0, upper=10, neighbors=relation, beta=1e-5)
            rows[f"smooth median of {PEOPLE:,}, {name}, {relation}"] = _row(median, partial(np.sort, values))
    rng = Rng.seeded(9)
    generator = np.random.default_rng(9)
    spread = generator.integers(0, 10**6, PEOPLE)
    for name, gaps in (("spread", spread), ("ties", spread // 10**5)):
        noisy_best = partial(_select_by_gumbel, gaps, generator)
        rows[f"urn of {PEOPLE:,}, {name}"] = _row(partial(_draw_from_urn, gaps, rng), noisy_best)
        coins = partial(flip_coins, gaps, rate=Fraction(1, 100), rng=rng)
        rows[f"coins of {PEOPLE:,}, {name}"] = _row(coins, noisy_best)
    return rows


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    figures = run()
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{'':48}{'ms':>10}{'baseline ms':>14}{'ratio':>10}")
    for name, row in figures.items():
        print(f"{name:48}{row['milliseconds']:>10}{row['baseline_milliseconds']:>14}{row['ratio']:>10}")


def mix_events(distinct: int) -> list[Event]:
    """Return charges of five kinds in turn, drawn from so many different ones."""
    draw = random.Random(5)
    pool: list[Event] = []
    for _ in range(distinct):
        epsilon = Fraction(draw.randrange(1000, 300_000), 10**6)
        shift = draw.randrange(1, 40)
        kinds: list[Event] = [
            LaplaceEvent(epsilon),
            DiscreteLaplaceEvent(epsilon, shift),
            DiscreteGaussianEvent(Fraction(math.ceil((shift / epsilon) ** 2)), shift, 1),
            ApproxEvent(epsilon, "1e-12"),
            GaussianEvent(epsilon**2 / 2),
        ]
        pool.append(draw.choice(kinds))
    return [pool[i % distinct] for i in range(CHARGES)]


def _row(ours: Callable[[], object], baseline: Callable[[], object]) -> dict[str, float]:
    first, second = compare(ours, baseline, REPEATS)
    return {"milliseconds": first, "baseline_milliseconds": second, "ratio": round(first / max(second, 0.01), 2)}


def _add_rho(events: list[Event]) -> Fraction:
    """Add up rho, as a cap on rho and delta does."""
    pairs = [approximate_rho(event) for event in events]
    return sum((pair[0] for pair in pairs if pair is not None), Fraction(0))


def _draw_from_urn(gaps: Any, rng: Rng) -> object:
    return fill_urn(gaps, rate=Fraction(1, 100)).sample(rng)


def _select_by_gumbel(gaps: Any, generator: np.random.Generator) -> int:
    return int(np.argmax(generator.gumbel(size=gaps.size) - gaps / 100))


if __name__ == "__main__":
    main()
