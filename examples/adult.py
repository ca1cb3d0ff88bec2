"""Ask the public 1994 census extract known as "Adult", which you bring: Sordino neither ships nor downloads it.

python examples/adult.py path/to/adult.data      (or SORDINO_ADULT=path/to/adult.data)
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import sordino as sd
from sordino import col


def main() -> None:
    """Ask two questions of the extract at the path given, or do the like with what is generated."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SORDINO_ADULT", "")
    if not given or not Path(given).is_file():
        print("without the Adult extract (docs/adult.md says how to get it from the UCI Machine Learning Repository),")
        print(
            "to be named as in `python examples/adult.py path/to/adult.data`, this asks of a generated census instead:"
        )
        runpy.run_path(str(Path(__file__).with_name("ask_census.py")), run_name="__main__")
        return
    adult = sd.protect(
        given,
        domain=sd.datasets.adult_domain(),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(1.0),
        ledger=None,
        csv=sd.Csv(header=False, names=sd.datasets.adult_columns(), null_values=("?",)),
    )
    studied = adult.where(col("education_num") > 10)
    jobs = adult.ask(
        studied.group_by("occupation").agg(sd.count().alias("n"), sd.mean("age").alias("age")), epsilon=0.5
    )
    for occupation, n, interval, age, age_interval in jobs.display_rows(0.95):
        print(f"{occupation:<18} {n:>6} {interval:>16}   {age:>8} {age_interval}")
    print(jobs.summary())

    mean = adult.ask(studied.agg(sd.mean("age")), epsilon=0.5)
    print(f"mean age where education_num > 10: {mean.value:.2f} +- {mean.error(0.95):.2f}")


if __name__ == "__main__":
    main()
