"""Publish a synthetic table, as the textbooks do, of the census extract known as "Adult", which you bring.

python examples/synth_adult.py path/to/adult.data [picture.svg]      (or SORDINO_ADULT=path/to/adult.data)

The true counts beside the private ones are NOT PRIVATE: a publisher does not know which of them can be told.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import sordino as sd
from sordino import col
from sordino.datasets import adult_columns, adult_domain, load_adult
from sordino.reporting.synth import Histograms

RANGES = ((21, 33), (30, 31), (30, 71), (20, 65), (20, 30))


def main() -> None:
    """Model the extract at the path given in four ways, or do the like with what is generated."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SORDINO_ADULT", "")
    if not given or not Path(given).is_file():
        print("without the Adult extract (docs/adult.md says how to get it from the UCI Machine Learning Repository),")
        print(
            "to be named as in `python examples/synth_adult.py path/to/adult.data`, this models a generated census instead:"
        )
        runpy.run_path(str(Path(__file__).with_name("synth_census.py")), run_name="__main__")
        return
    print("NOT PRIVATE: true counts are shown beside the private ones")
    adult = sd.protect(
        given,
        domain=adult_domain(),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10),
        ledger=None,
        csv=sd.Csv(header=False, names=adult_columns(), null_values=("?",)),
    )
    rows = load_adult(given).select(["age", "occupation"]).to_pylist()
    flat = ranges(adult, rows)
    independent = sd.synth.Independent(["age", "occupation"]).fit(adult, epsilon=1)
    joint = sd.synth.Marginals([("age", "occupation")]).fit(adult, epsilon=1)
    jobs(adult, rows, independent, joint)
    young(adult, rows, independent, joint)
    if len(sys.argv) > 2:
        draw(flat, joint, rows, sys.argv[2])


def ranges(adult: sd.Curator, rows: list[dict[str, Any]]) -> sd.synth.Representation:
    """Release one histogram of age, then ask it ranges at no cost; then one made for ranges."""
    flat = sd.synth.Histogram("age").fit(adult, epsilon=1)
    made = sd.synth.Histogram("age", ranges=RANGES).fit(adult, epsilon=1)
    once = sd.synth.Histogram("age", ranges=[(a, 126) for a in range(126)]).fit(adult, epsilon=1)
    print(
        f"\nages a <= age < b, each histogram at epsilon 1\n{'':>10} {'true':>7} {'one bin an age':>18} {'for all [a, 126)':>18}"
    )
    for low, high in RANGES:
        true = sum(low <= r["age"] < high for r in rows)
        told = [f"{h.range(low, high).value:,.0f} +- {h.range(low, high).error(0.95):,.1f}" for h in (flat, once)]
        print(f"[{low}, {high}) {true:>9,} {told[0]:>18} {told[1]:>18}")
    print(
        f"the error grows with the square root of the bins; for the five ranges above it chose {made.facts.split(';')[0]}"
    )
    return flat


def jobs(adult: sd.Curator, rows: list[dict[str, Any]], independent: sd.synth.Model, joint: sd.synth.Model) -> None:
    """Count people by occupation: one-way counts keep more of the loss than a joint table of 1,890 cells."""
    true = Counter(r["occupation"] for r in rows)
    question = adult.group_by("occupation").agg(sd.count().alias("n"))
    one, two = (m.answer(question) for m in (independent, joint))
    print(f"\n{'occupation':<18} {'true':>6} {'independent':>12} {'joint':>8}")
    for a, b in zip(one.value, two.value, strict=True):
        label = a["occupation"]
        print(f"{label or '(missing)':<18} {true[label]:>6,} {a['n']:>12,.0f} {b['n']:>8,.0f}")
    off = [sum(abs(r["n"] - true[r["occupation"]]) for r in made.value) / len(made.value) for made in (one, two)]
    print(f"mean error: independent {off[0]:.1f}, joint {off[1]:.1f}")


def young(adult: sd.Curator, rows: list[dict[str, Any]], independent: sd.synth.Model, joint: sd.synth.Model) -> None:
    """Count clerks of 17 to 19: only the joint table knows that few are so young."""
    print(f"\n{'Adm-clerical':<14} {'true':>5} {'independent':>12} {'joint':>7}")
    for age in (17, 18, 19):
        question = adult.where((col("age") == age) & (col("occupation") == "Adm-clerical")).agg(sd.count())
        true = sum(r["age"] == age and r["occupation"] == "Adm-clerical" for r in rows)
        told = [m.answer(question).value for m in (independent, joint)]
        print(f"aged {age:<9} {true:>5} {told[0]:>12,.1f} {told[1]:>7,.1f}")
    sample = joint.sample(5, where=col("occupation") == "Adm-clerical")
    print("five synthetic clerks are aged", ", ".join(str(a) for a in sample["age"].to_pylist()))


def draw(flat: sd.synth.Representation, joint: sd.synth.Model, rows: list[dict[str, Any]], picture: str) -> None:
    """Draw the ages: true, from the one-way histogram, and from the two-way table."""
    ages = range(126)
    true = Counter(r["age"] for r in rows)
    way = Counter(joint.sample(len(rows))["age"].to_pylist())
    series = [
        ("true", [true[a] for a in ages]),
        ("from one-way", flat.counts().tolist()),
        ("from two-way", [way[a] for a in ages]),
    ]
    sd.plot(Histograms("age", list(ages), series, mark="true counts are shown")).save(picture)
    print(f"drawn to {picture}")


if __name__ == "__main__":
    main()
