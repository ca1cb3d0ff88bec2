"""Ask a generated census in Python: declare, price, ask, and see what each answer cost. Nobody in the table exists.

python examples/ask_census.py
"""

from __future__ import annotations

import sordino as sd
from sordino import col


def main() -> None:
    """Protect a generated table in memory and ask it three questions."""
    table = sd.datasets.make_census(20_000, sd.Rng.secure())
    people = sd.protect(
        table,
        domain=sd.datasets.census_domain(),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(1.0),
        ledger=None,  # forgotten at exit; a path keeps it
    )

    question = people.where(col("education_num") > 10).group_by("region").agg(sd.count().alias("n"))
    plan = people.plan(question, epsilon=0.25)
    print(plan)
    answer = people.ask(plan)
    for row in answer.rows:
        print(f"  {row['region']:<8} {row['n']:>6,}")

    hours = people.ask(
        sd.sql("SELECT AVG(hours_per_week) AS hours FROM data WHERE age BETWEEN 25 AND 64"), epsilon=0.25
    )
    low, high = hours.interval(0.95)
    print(f"mean hours of people aged 25 to 64: {hours.value:.2f} (95% interval {low:.2f} - {high:.2f})")

    gain = people.ask(sd.mean(col("gain").clip(0, 5_000)), epsilon=0.25)
    print(f"mean gain, clipped to 5,000: {gain.value:,.2f} +- {gain.error(0.95):,.2f}")
    print(f"spent {people.spent.describe()}, left {people.remaining.describe()}")

    try:
        people.ask(sd.count(), epsilon=0.5)
    except sd.errors.BudgetExhausted as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
