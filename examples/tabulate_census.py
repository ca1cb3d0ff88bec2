"""Release many tables of invented people as one question: one charge, whole tables that agree, intervals beside each cell.

python examples/tabulate_census.py
"""

from __future__ import annotations

import sordino as sd


def main() -> None:
    """Plan three tables, release them, and ask the answer a question that costs nothing more."""
    people = sd.protect(
        sd.datasets.make_census(20_000, sd.Rng.secure()),
        domain=sd.datasets.census_domain(),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ZCDP(1, delta="1e-6"),
        ledger=None,
    )
    decade = sd.col("age").bin(width=20).alias("ages")
    cube = sd.tabulate([["region", "sex"], [decade, "sex"], []])
    plan = people.plan(cube, rho="0.005")
    for table, error in plan.error(0.95).items():
        print(f"{' x '.join(table) or 'in all'}: each cell within {error:.0f} rows at 95%")
    answer = people.ask(plan)
    print(answer.tables["region", "sex"].to_pandas())
    women = answer.query("SELECT SUM(count) AS women FROM answer WHERE by_columns = 'ages, sex' AND sex = 'Female'")
    low, high = women.interval(0.95)
    print(f"women: {women.value:,} ({low:,} to {high:,})")


if __name__ == "__main__":
    main()
