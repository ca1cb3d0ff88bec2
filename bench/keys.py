"""How many private keys show at one loss: each selection on a Zipf table, by its exact probabilities.

python bench/keys.py [--keys 100000] [--rows 1000000] [--json]

No data and no noise: the expected number of keys is the sum of the stated probabilities to show over the table's keys.
`threshold` is the Laplace threshold alone, as it was; `with count` selections release the noisy count as well.
"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.curator.key_selection import choose_key_selection
from sordino.loss import ApproxDP
from sordino.mechanisms.threshold import LaplaceThreshold, gaussian_threshold_for_pair
from sordino.neighbors import Neighbors, PrivacyUnit

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
                    neighbors, loss, share=Fraction(1), counts=counts, min_units=1
                )
            found[f"epsilon {float(epsilon):g}, {groups} keys a unit"] = {
                name: round(sum(one.appears(int(n)) * int(c) for n, c in zip(sizes, many, strict=True) if n), 1)
                for name, one in selections.items()
            }
    return found


def main() -> None:
    """Print the figures."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--keys", type=int, default=100_000)
    reader.add_argument("--rows", type=int, default=1_000_000)
    reader.add_argument("--json", action="store_true")
    options = reader.parse_args()
    found = run(options.keys, options.rows)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, shown in found.items():
        print(f"{name:32} {shown}")


if __name__ == "__main__":
    main()
