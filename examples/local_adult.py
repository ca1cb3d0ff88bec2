"""Collect from people who trust nobody: textbook numbers on the census extract known as "Adult", which you bring.

python examples/local_adult.py path/to/adult.data [picture.svg]      (or SORDINO_ADULT=path/to/adult.data)

The true counts beside the estimates are NOT PRIVATE: in a real collection nobody knows them.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections import Counter
from pathlib import Path

import sordino as sd
from sordino import local
from sordino.core.domain import Category
from sordino.core.noise.rng import Rng
from sordino.datasets import adult_domain, load_adult


def main() -> None:
    """Simulate three collections on the extract at the path given, or do the like with what is generated."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SORDINO_ADULT", "")
    if not given or not Path(given).is_file():
        print("without the Adult extract (docs/adult.md says how to get it from the UCI Machine Learning Repository),")
        print(
            "to be named as in `python examples/local_adult.py path/to/adult.data`, this collects from made-up people instead:"
        )
        runpy.run_path(str(Path(__file__).with_name("local_survey.py")), run_name="__main__")
        return
    rng = Rng.secure()
    occupation = load_adult(given)["occupation"].combine_chunks()
    answers = occupation.to_pylist()
    print("NOT PRIVATE: true counts are shown beside the estimates")
    coins(answers, rng)
    unary(answers, rng)
    beside_a_curator(answers, rng, picture=sys.argv[2] if len(sys.argv) > 2 else None)


def coins(answers: list[str | None], rng: Rng) -> None:
    """Ask 200 salespeople, then everyone, "do you work in sales?" with two fair coins."""
    protocol = local.fair_coins()
    yes = protocol.count(protocol.perturb([True] * 200, rng)).supports[1]
    print(
        f"\ntwo fair coins, epsilon {protocol.epsilon:.6f}: of 200 people in Sales {yes} say yes (150 expected, sd 6.1)"
    )
    truth = [answer == "Sales" for answer in answers]
    estimate = protocol.estimate(protocol.count(protocol.perturb(truth, rng)))
    lower, upper = (estimate.n * estimate.interval(0.95)[side][1].as_py() for side in ("lower", "upper"))
    print(
        f"of {estimate.n:,} people {estimate.supports[1]:,} say yes: {estimate.counts[1]:,.1f} in Sales, "
        f"95% {lower:,.0f} to {upper:,.0f}, truly {sum(truth):,} (sd 156.271)"
    )


def occupations() -> tuple[str, ...]:
    """Return the declared values of the column."""
    column = adult_domain()["occupation"]
    assert isinstance(column, Category)
    return tuple(str(value) for value in column.values)


def unary(answers: list[str | None], rng: Rng) -> None:
    """Ask for one of 14 occupations by unary encoding with .75 and .25; a missing answer sends no bit of its own."""
    labels = occupations()
    protocol = local.Unary(labels, p=0.75, q=0.25)
    counts = protocol.count(protocol.perturb(answers, rng))
    estimate, truth = protocol.estimate(counts), Counter(answers)
    print(f"\nunary encoding .75/.25, epsilon {protocol.epsilon:.6f}, {truth[None]:,} answers missing")
    print(f"{'':<18} {'sum of bits':>11} {'estimate':>9} {'true':>6}")
    for label, found, count in zip(labels, counts.supports, estimate.counts, strict=True):
        print(f"{label:<18} {found:>11,} {count:>9,.1f} {truth[label]:>6,}")


def beside_a_curator(answers: list[str | None], rng: Rng, *, picture: str | None) -> None:
    """Ask by the best protocol at epsilon 1, beside a trusted curator's Laplace noise at the same epsilon."""
    labels = (*occupations(), None)
    best = local.best(labels, epsilon=1, respondents=len(answers))
    simulated = local.simulate_collection(answers, best.protocol, rng, subject="occupation")
    local_error = max(abs(row.estimate - row.true) for row in simulated.rows)
    central_error = max(abs(row.curator - row.true) for row in simulated.rows)
    print(f"\n{best.why}")
    print(
        f"largest error of {len(labels)} counts at epsilon 1: local {local_error:,.0f}, trusted curator {central_error:,.0f}"
    )
    print(local.respondents_needed(labels, epsilon=1, margin=0.01).advice)
    if picture is not None:
        sd.plot(simulated).save(picture)
        print(f"drawn to {picture}")


if __name__ == "__main__":
    main()
