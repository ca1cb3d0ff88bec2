"""All benchmarks in one run: `make bench`. Prints ratios to the baselines of the same run, and keeps the JSON.

python bench/run.py [--rows 10000000] [-o bench/results/latest.json]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import accounting
import accuracy
import bounds
import collector
import contributions
import cost
import deeper
import history
import interval_coverage
import keys
import ledger
import quantile
import sampler
import sensitivity
import served
import speed

import ask
import local
import synth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ask.ROWS)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "latest.json")
    options = parser.parse_args()
    found = {
        "accounting": accounting.run(),
        "accuracy": accuracy.run(),
        "ask": ask.run(options.rows),
        "cost": cost.run(options.rows),
        "deeper": deeper.run(options.rows),
        "keys": keys.run(),
        "quantile": quantile.run(options.rows),
        "bounds": bounds.run(),
        "contributions": contributions.run(),
        "sampler": sampler.run(),
        "ledger": ledger.run(),
        "sensitivity": sensitivity.run(),
        "local": local.run(),
        "collector": collector.run(),
        "served": served.run(),
        "synth": synth.run(),
        "speed": speed.run((speed.ROWS, options.rows)),
    }
    history.record(found["ask"])
    history.draw(history.read())
    found["intervals"] = interval_coverage.summary(interval_coverage.record(interval_coverage.run()))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for room, figures in found.items():
        print(room)
        for name, value in figures.items():
            print(f"  {name:32} {json.dumps(value)}")
    print(speed.table(found["speed"]))
    speed.keep(found["speed"], "make bench")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
