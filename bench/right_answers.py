"""Random questions at epsilon 10^6 beside plain SQL, over tables as people have them: how many there are, and how many disagree.

Run `python bench/right_answers.py [--questions 1000] [--seed 1] [--format csv] [--kind dialects]`. The questions and the plain
SQL are those of the tests (`tests/answers`). It exits with 1 where a release disagrees, and prints both texts.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from answers.plain_answers import compare
from answers.plain_questions import Questions
from answers.plain_shapes import EVERY_KIND, draw_question
from answers.town_tables import FORMATS, open_tables


def main() -> int:
    """Ask the questions, a share of them in each format, and print what was compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--format", action="append", choices=list(FORMATS))
    parser.add_argument("--kind", action="append", choices=EVERY_KIND)
    options = parser.parse_args()
    formats = options.format or list(FORMATS)
    kinds, cells, near, wrong = Counter[str](), 0, 0, 0
    for place, name in enumerate(formats):
        share = len(range(place, options.questions, len(formats)))
        with tempfile.TemporaryDirectory() as folder:
            connection, plain = open_tables(name, Path(folder), seed=options.seed, rows=options.rows)
            drawn = Questions(random.Random(f"{name} {options.seed}"))
            asked = [kind for kind in options.kind or EVERY_KIND if kind != "lists" or FORMATS[name].lists]
            for i in range(share if asked else 0):
                found = compare(draw_question(drawn, asked[i % len(asked)]), connection, plain.rows)
                kinds[found.question.kind] += 1
                cells, near, wrong = cells + found.cells, near + found.near, wrong + bool(found.found)
                if found.found:
                    of = found.question
                    print(f"{name} {of.dialect or ''}: {of.text}\n  plain: {of.groups}\n  {found.found}")
    said = {"questions": sum(kinds.values()), "kinds": dict(kinds), "formats": formats, "cells": cells}
    print(json.dumps({**said, "to a thousandth": near, "disagreements": wrong}, ensure_ascii=False))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
