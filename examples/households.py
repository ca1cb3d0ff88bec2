"""Protect households instead of people: every row of one household counts as one unit, up to six rows.

python examples/households.py
"""

from __future__ import annotations

import sordino as sd


def main() -> None:
    """Ask the same question with a row and with a household as the privacy unit, and compare the expected errors."""
    table = sd.datasets.make_census(20_000, sd.Rng.secure())
    domain = sd.datasets.census_domain()
    question = sd.count().alias("n")
    units: dict[str, str | sd.PrivacyUnit] = {"person": "row", "household": sd.PrivacyUnit("household", max_rows=6)}
    for unit, declared in units.items():
        people = sd.protect(
            table, domain=domain, neighbors="add_remove", privacy_unit=declared, budget=sd.PureDP(1.0), ledger=None
        )
        plan = people.plan(question, epsilon=0.5)
        answer = people.ask(plan)
        print(f"hiding one {unit}: {answer.value:,} rows, error {plan.error(0.95):,} at 95%")


if __name__ == "__main__":
    main()
