"""Measure the samplers on one core: samples a second in blocks, microseconds a single draw, OpenDP beside them.

It may not know more than the public functions of `sordino.core.noise`. Run `python bench/sampler.py [--json]`.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace
from sordino.core.noise.rng import Rng

SCALES = (2, 20, 2000, 10**6)
SIGMAS = (2, 20, 2000)
BLOCK = 1_000_000
SINGLES = 3000
THEIRS = 20_000
ROUNDS = 5


def run() -> dict[str, Any]:
    """Return the measurements: one entry for each law and scale, the best of a few rounds each."""
    rng = Rng.secure()
    rows = [_measure("laplace", scale, DiscreteLaplace(Fraction(scale)), rng) for scale in SCALES]
    rows += [_measure("gaussian", sigma, DiscreteGaussian(Fraction(sigma) ** 2), rng) for sigma in SIGMAS]
    for row in rows:
        theirs = _opendp(row["law"], row["scale"])
        row["opendp_samples_per_second"] = theirs
        row["times_opendp"] = None if theirs is None else row["samples_per_second"] / theirs
    return {
        "bench": "sampler",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores_used": 1,
        "opendp": _opendp_version(),
        "rows": rows,
    }


def main() -> None:
    """Print the measurements as a table, or as JSON with --json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    result = run()
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{'law':<10}{'scale':>9}{'million/s':>11}{'us a draw':>11}{'first use ms':>14}{'times OpenDP':>14}")
    for row in result["rows"]:
        ratio = "-" if row["times_opendp"] is None else f"{row['times_opendp']:.0f}"
        print(
            f"{row['law']:<10}{row['scale']:>9}{row['samples_per_second'] / 1e6:>11.1f}"
            f"{row['draw_microseconds']:>11.1f}{row['setup_milliseconds']:>14.2f}{ratio:>14}"
        )


def _measure(name: str, scale: int, law: DiscreteLaplace | DiscreteGaussian, rng: Rng) -> dict[str, Any]:
    """Time the first use, blocks and single draws of one law."""
    setup = _seconds(lambda: law.sample(rng, 256))
    block = min(_seconds(lambda: law.sample(rng, BLOCK)) for _ in range(ROUNDS))
    single = min(_seconds(lambda: [law.sample(rng) for _ in range(SINGLES)]) for _ in range(ROUNDS))
    return {
        "law": name,
        "scale": scale,
        "samples_per_second": BLOCK / block,
        "draw_microseconds": single / SINGLES * 1e6,
        "setup_milliseconds": setup * 1e3,
    }


def _opendp(law: str, scale: int) -> float | None:
    """Return OpenDP's samples a second for the same law, or None where it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    metric = dp.l1_distance(T=int) if law == "laplace" else dp.l2_distance(T=float)
    space = dp.vector_domain(dp.atom_domain(T=int)), metric
    release = space >> (dp.m.then_laplace if law == "laplace" else dp.m.then_gaussian)(scale=float(scale))
    zeros = [0] * THEIRS
    return THEIRS / min(_seconds(lambda: release(zeros)) for _ in range(3))


def _opendp_version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("opendp")
    except PackageNotFoundError:
        return None


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
