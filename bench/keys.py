"""How many private keys show at one loss: each selection on a Zipf table, by its exact probabilities, and in rounds by draws.

python bench/keys.py [--keys 100000] [--rows 1000000] [--json]

First no data and no noise: the expected number of keys is the sum of the stated probabilities to show over the table's keys.
`threshold` is the Laplace threshold alone, as it was; `with count` selections release the noisy count as well.
Then a drawn table whose units have up to 8 or 64 keys, all alike or mostly few: weighted selection, asked as a user would,
beside the thresholds, and Google's and Tumult's selections of the same counts (pip install python-dp tmlt.analytics, with the
Java that the latter needs; each is left out with a message where it is absent).
"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

import sordino as sd
from sordino.ask.curator.possible_keys import choose_key_selection
from sordino.core.loss import ApproxDP
from sordino.core.mechanisms.threshold import LaplaceThreshold, gaussian_threshold_for_pair
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.core.noise.laws import DiscreteLaplace

DELTA = Fraction(1, 10**6)


def run(keys: int = 100_000, rows: int = 1_000_000) -> dict[str, Any]:
    """Return the expected number of keys that show, by epsilon, groups of one unit and selection."""
    weights = 1 / np.arange(1, keys + 1)
    sizes, many = np.unique(np.floor(rows * weights / weights.sum()).astype(np.int64), return_counts=True)
    found: dict[str, Any] = {"keys": keys, "rows": rows, "delta": float(DELTA)}
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(3)):
        for groups in (1, 8):
            selections: dict[str, Any] = {
                "threshold": LaplaceThreshold(groups, epsilon, DELTA),
                "Gaussian": gaussian_threshold_for_pair(keys=groups, epsilon=epsilon, delta=DELTA),
            }
            for name, counts in (("chosen", False), ("chosen, with count", True)):
                neighbors = Neighbors("add_remove", PrivacyUnit("id", max_rows=groups))
                loss = ApproxDP(epsilon, DELTA)
                selections[name], _ = choose_key_selection(
                    neighbors, loss, share=Fraction(1), counts=counts, min_units=1, named="threshold"
                )
            found[f"epsilon {float(epsilon):g}, {groups} keys a unit"] = {
                name: round(sum(one.appears(int(n)) * int(c) for n, c in zip(sizes, many, strict=True) if n), 1)
                for name, one in selections.items()
            }
    return found


def draw_table(keys: int, rows: int, shape: str) -> pa.Table:
    """Return units with their Zipf keys, at most 64 each: 8 draws a unit, or a geometric number of them."""
    draws = np.random.default_rng(1)
    weights = 1 / np.arange(1, keys + 1)
    many = rows // 8
    sizes = np.full(many, 8) if shape == "alike" else np.minimum(draws.geometric(1 / 8, many), 64)
    unit = np.repeat(np.arange(many), sizes)
    pairs = np.unique(unit * keys + draws.choice(keys, size=len(unit), p=weights / weights.sum()))
    return pa.table({"id": pairs // keys, "word": (pairs % keys).astype(str)})


def run_drawn(keys: int = 100_000, rows: int = 1_000_000) -> dict[str, Any]:
    """Return how many keys of drawn tables show, by their shape, epsilon, the cap on groups and the selection."""
    found: dict[str, Any] = {}
    for shape, most in (("alike", 8), ("geometric", 8), ("geometric", 64)):
        table = draw_table(keys, rows, shape)
        counts = _capped_counts(table, most)
        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(3)):
            shown = {
                "Tumult": _tumult(counts, most, epsilon),
                "Google": google_keys(counts, most, epsilon),
                "threshold": _ask_keys(table, most, epsilon, "threshold"),
                "weighted": _ask_keys(table, most, epsilon, "weighted"),
            }
            found[f"{shape}, up to {most} keys, epsilon {float(epsilon):g}"] = shown
    return found


def _ask_keys(table: pa.Table, most: int, epsilon: Fraction, how: str) -> int:
    words = sd.protect(
        table,
        domain=sd.Domain({"id": sd.Integer(), "word": sd.Identifier()}),
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("id", max_rows=most),
        budget=sd.ApproxDP(100, "0.1"),
        ledger=None,
        rng=sd.Rng.seeded(1),
    )
    return len(words.ask(words.group_by("word", keys=how).keys(), epsilon=epsilon, delta=DELTA).rows)


def _capped_counts(table: pa.Table, most: int) -> np.ndarray[Any, Any]:
    """Return the units of each key, of which each keeps at most so many keys, drawn."""
    unit, word = table["id"].to_numpy(), table["word"].to_numpy().astype(np.int64)
    order = np.lexsort((np.random.default_rng(2).random(len(unit)), unit))
    unit, word = unit[order], word[order]
    place = np.arange(len(unit))
    first = np.maximum.accumulate(np.where(np.r_[True, unit[1:] != unit[:-1]], place, 0))
    return np.bincount(word[place - first < most])


def google_keys(counts: np.ndarray[Any, Any], most: int, epsilon: Fraction) -> float | str:
    """Return the expected number for the best of Google's strategies, by their own probabilities."""
    try:
        from pydp.algorithms import partition_selection as google
    except ImportError:
        return "absent: pip install python-dp"
    sizes, many = np.unique(counts[counts > 0], return_counts=True)
    best = 0.0
    for name in ("truncated_geometric", "laplace", "gaussian"):
        strategy = google.create_partition_strategy(name, float(epsilon), float(DELTA), most)
        best = max(best, sum(strategy.probability_of_keep(int(n)) * int(c) for n, c in zip(sizes, many, strict=True)))
    return round(best)


def _tumult(counts: np.ndarray[Any, Any], most: int, epsilon: Fraction) -> float | str:
    """Return the expected number for Tumult's geometric partition selection: its scale and threshold, and its law."""
    try:
        from tmlt.core.domains.spark_domains import SparkDataFrameDomain, SparkStringColumnDescriptor
        from tmlt.core.measurements.aggregations import create_partition_selection_measurement
    except ImportError:
        return "absent: pip install tmlt.analytics"
    domain = SparkDataFrameDomain({"word": SparkStringColumnDescriptor()})
    made = create_partition_selection_measurement(domain, _sympy(epsilon), _sympy(DELTA), d_in=most)
    law = DiscreteLaplace(Fraction(made.alpha.to_float(round_up=True)))
    return round(sum(law.upper_tail(made.threshold - 1 - int(n)) for n in counts[counts > 0]))


def _sympy(number: Fraction) -> Any:
    from sympy import Rational

    return Rational(number.numerator, number.denominator)


def main() -> None:
    """Print the figures."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--keys", type=int, default=100_000)
    reader.add_argument("--rows", type=int, default=1_000_000)
    reader.add_argument("--json", action="store_true")
    options = reader.parse_args()
    found = run(options.keys, options.rows) | run_drawn(options.keys, options.rows)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, shown in found.items():
        print(f"{name:32} {shown}")


if __name__ == "__main__":
    main()
