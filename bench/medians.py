"""Medians: the exponential mechanism beside the teaching tools, smooth sensitivity and propose-test-release.

Run `python bench/medians.py [--runs 40]`. Each figure is the median distance to the true median, in the column's unit;
a test that fails in most runs shows as "fails". All have epsilon 1 or 0.1; smooth Laplace and the test also delta 1e-6.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import pyarrow as pa

import sordino as sd

ROWS = 2000
Question = Callable[[int], Any]
METHODS: dict[str, tuple[Question, dict[str, Any]]] = {
    "exponential": (lambda _: sd.median("x"), {}),
    "smooth Cauchy": (lambda _: sd.smooth("median", "x"), {}),
    "smooth Laplace": (lambda _: sd.smooth("median", "x"), {"delta": 1e-6}),
    "propose, test": (lambda top: sd.propose_test_release("median", "x", bound=top / 200), {"delta": 1e-6}),
}


def columns() -> dict[str, tuple[np.ndarray[Any, Any], int]]:
    """Return columns of whole numbers, each with its declared upper bound."""
    made = np.random.default_rng(14)
    return {
        "ages, 0-125": (made.normal(45, 15, ROWS).clip(17, 90), 125),
        "incomes, 0-1,000,000": (made.lognormal(10.4, 0.9, ROWS), 1_000_000),
        "waiting days, 0-3,650": (made.exponential(60, ROWS), 3_650),
        "two clusters, 0-10,000": (
            np.where(made.random(ROWS) < 0.5, 1, 3) * 1000 + made.normal(0, 200, ROWS),
            10_000,
        ),
    }


def main() -> None:
    """Print the table."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--runs", type=int, default=40)
    runs = reader.parse_args().runs
    print(f"{'column':24}{'epsilon':>8}" + "".join(f"{name:>16}" for name in METHODS))
    for name, (values, top) in columns().items():
        cells = np.rint(values).astype(np.int64).clip(0, top)
        table = sd.protect(
            pa.table({"x": cells}),
            domain=sd.Domain({"x": sd.Integer(0, top)}),
            neighbors="add_remove",
            privacy_unit="row",
            budget=sd.ApproxDP(10**6, 0.1),
            ledger=None,
            rng=sd.Rng.seeded(14),
        )
        for epsilon in (1, 0.1):
            shown = []
            for question, loss in METHODS.values():
                found = [table.ask(question(top), epsilon=epsilon, **loss).value for _ in range(runs)]
                errors = [np.inf if v is None else abs(v - np.median(cells)) for v in found]
                middle = float(np.median(errors))
                shown.append("fails" if middle == np.inf else f"{middle:,.3g}")
            print(f"{name:24}{epsilon:>8}" + "".join(f"{s:>16}" for s in shown))


if __name__ == "__main__":
    main()
