"""Declare what is known of every row of a table, and see that each synthetic row keeps to it, at no cost.

python examples/synth_rules.py

The table is generated, so the figures beside the rules are shown openly.
"""

from __future__ import annotations

import random

import pyarrow as pa

import sordino as sd
from sordino import synth


def make_houses(rows: int) -> pa.Table:
    """Return houses whose areas above and below ground make the living area."""
    draw = random.Random(1)
    above = [min(round(300 * 2 ** (2 + draw.gauss(0, 0.6))), 9_000) for _ in range(rows)]
    basement = [0 if draw.random() < 0.6 else round(area * draw.uniform(0.2, 0.6)) for area in above]
    built = [2015 - min(round(draw.expovariate(1 / 40)), 115) for _ in range(rows)]
    return pa.table(
        {
            "above": above,
            "basement": basement,
            "living": [a + b for a, b in zip(above, basement, strict=True)],
            "built": built,
            "renovated": [None if draw.random() < 0.8 else min(year + draw.randrange(60), 2015) for year in built],
        }
    )


def main() -> None:
    """Fit independent columns with and without rules, and count the rows that break each."""
    domain = sd.Domain(
        {
            "above": sd.Integer(0, 10_000),
            "basement": sd.Integer(0, 10_000),
            "living": sd.Integer(0, 20_000),
            "built": sd.Integer(1900, 2015),
            "renovated": sd.Integer(1900, 2015, missing="keep"),
        }
    )
    for proposal in synth.propose_rules(domain):
        print(f"proposed: {proposal.text}   ({proposal.reason})")
    rules = [synth.equal("above + basement", "living"), synth.at_most("built", "renovated")]
    houses = sd.protect(
        make_houses(5_000),
        domain=domain,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(3),
        ledger=None,
        name="houses",
    )
    for words, declared in (("without rules", []), ("with rules", rules)):
        model = synth.Independent(constraints=declared).fit(houses, epsilon=1)
        rows = model.sample(5_000).to_pylist()
        apart = sum(r["above"] + r["basement"] != r["living"] for r in rows if None not in list(r.values())[:3])
        early = sum(r["renovated"] < r["built"] for r in rows if r["renovated"] and r["built"])
        print(
            f"{words}: areas do not add up in {apart:,} of 5,000 rows, {early:,} were renovated before they were built"
        )
    larger = model.answer(sd.sql("SELECT COUNT(*) AS n FROM model WHERE above > living"))
    print(f"houses with more area above ground than in all, by the model: {larger.value:,.0f}, without error")
    try:
        synth.Independent(
            constraints=[*rules, synth.never("renovated >= built"), synth.never("renovated IS NULL")]
        ).fit(houses, epsilon=1)
    except sd.errors.DeclarationError as refused:
        print(f"refused: {refused}")


if __name__ == "__main__":
    main()
