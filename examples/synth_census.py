"""Publish a synthetic table: fit a model at a stated loss, draw rows, answer from it, and say how far it lies from the original.

python examples/synth_census.py
"""

from __future__ import annotations

import sordino as sd
from sordino import col, synth


def main() -> None:
    """Fit the default model to a generated census, and compare its answer with a private one."""
    people = sd.protect(
        sd.datasets.make_census(20_000, sd.Rng.secure()),
        domain=sd.datasets.census_domain(),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ApproxDP(10, 1e-6),
        ledger=None,
        name="people",
    )
    columns = ["age", "sex", "education_num", "occupation", "gain"]
    model = synth.fit(people, epsilon=1.0, delta=1e-9, columns=columns)
    print(model.describe())
    print(f"{model.sample(1_000).num_rows:,} rows drawn; columns {', '.join(model.columns)}")
    question = people.where(col("age") > 40).agg(sd.count())
    low, high = model.answer(question).interval(0.95)
    asked = people.ask(question, epsilon=0.5)
    print(f"over 40, from the model: {low:,.0f} to {high:,.0f}; asked of the table: {asked.value:,}")
    report = synth.evaluate(model, against=people, epsilon=0.5, delta=1e-9)
    print(f"mean distance of pairs {report.mean(2):.3f}, of sampling alone {report.floor(2):.3f}; {report.cost}")


if __name__ == "__main__":
    main()
