"""Error for the same loss: before, now, of the best peer that installs, and the best bound known, on the same work.

Run `python bench/accuracy.py [--json]`. Peers run in the same process where they are installed (OpenDP, dp-accounting);
None where a peer cannot do the work. `before` is this project's own earlier method, kept here for the comparison.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from sordino import local
from sordino.accounting.composition import best
from sordino.accounting.concentration import bounded_range_rho, laplace_rho, pure_rho
from sordino.accounting.discrete import DiscreteGaussianEvent
from sordino.accounting.events import BoundedRangeEvent
from sordino.accounting.gaussian_calibration import analytic_gaussian_sigma
from sordino.accounting.zcdp import epsilon_of, rho_for
from sordino.loss import ApproxDP, Event
from sordino.mechanisms.cheapest import cheapest
from sordino.mechanisms.gaussian import Gaussian
from sordino.neighbors import Sensitivity

Row = dict[str, float | None]


def run() -> dict[str, Row]:
    """Return the rows, each with `before`, `now`, `peer` and `best_known`: less is better."""
    return {
        "rho of a sum, Laplace at epsilon 1": laplace_at(1),
        "rho of a selection at epsilon 1": selection_at(1),
        "epsilon at 1e-6 of 400 sums, Laplace at epsilon 0.1": many_sums(),
        "sigma of 40 counts at (1, 1e-6)": vector_sigma(40, 1, "1e-6"),
        "sigma of 40 counts at (0.1, 1e-9)": vector_sigma(40, Fraction(1, 10), "1e-9"),
        "epsilon at 1e-6 of 100 selections and 40 Gaussians": mixed_list(),
        "shuffled GRR, epsilon 4, n 100,000, delta 1e-6": shuffled_epsilon(),
        "a mean without bounds, lognormal(6, 1.5), 50,000 rows, epsilon 0.1": unbounded_mean("lognormal", "0.1"),
        "a mean without bounds, 80% zeros, 50,000 rows, epsilon 1": unbounded_mean("mixture", "1"),
        "share of (1, 1e-6) that a private-key question at epsilon 0.01 costs": private_key_share(),
    }


def laplace_at(epsilon: int) -> Row:
    """The zCDP of Laplace noise: OpenDP's own conversion; the law's mean loss is the least there is."""
    exact = epsilon - 1 + math.exp(-epsilon)
    return row(epsilon**2 / 2, float(laplace_rho(Fraction(epsilon), 10**6)), opendp_rho(epsilon), exact)


def selection_at(epsilon: int) -> Row:
    """The zCDP of the exponential mechanism: epsilon^2 / 8 is Cesar & Rogers 2021."""
    exact = epsilon / math.expm1(epsilon) - 1 - math.log(epsilon / math.expm1(epsilon))
    return row(epsilon**2 / 8, float(bounded_range_rho(Fraction(epsilon))), epsilon**2 / 8, exact)


def many_sums() -> Row:
    """What a cap on rho says of 400 Laplace sums; the best is their privacy loss distribution, as a finished list."""
    from sordino.accounting.discrete import DiscreteLaplaceEvent

    events: list[Event] = [DiscreteLaplaceEvent("0.1", 1000)] * 400
    now = epsilon_of(400 * laplace_rho(Fraction(1, 10), 1000), "1e-6")
    peer = opendp_rho(0.1)
    return row(
        epsilon_of(400 * Fraction(1, 200), "1e-6"),
        now,
        None if peer is None else epsilon_of(400 * Fraction(peer), "1e-6"),
        best(events, "1e-6").epsilon,
    )


def vector_sigma(cells: int, epsilon: int | Fraction, delta: str) -> Row:
    """Noise in each of `cells` counts: before through rho, OpenDP through rho too; the continuous sigma is the bound."""
    moved = Sensitivity(cells, Fraction(cells), Fraction(cells), Fraction(1), "counts")
    (made,), _ = cheapest([(moved, Fraction(1))], ApproxDP(epsilon, delta))
    assert isinstance(made, Gaussian)
    return row(
        math.sqrt(cells / (2 * rho_for(epsilon, delta))),
        math.sqrt(made.sigma_squared),
        opendp_sigma(cells, float(epsilon), float(delta)),
        analytic_gaussian_sigma(epsilon, delta, math.sqrt(cells)),
    )


def mixed_list() -> Row:
    """Before: the least pair that dominates bounded range, or Renyi. dp-accounting has no bounded range: pure events."""
    selections: list[Event] = [BoundedRangeEvent("0.1")] * 100
    found = best([*selections, *[DiscreteGaussianEvent(400, 1, 1)] * 40], "1e-6")
    return row(found.table["Renyi"], found.epsilon, google_mixed(), None)


def shuffled_epsilon() -> Row:
    """Before: Feldman, McMillan, Talwar 2021. The best known is their bound of 2023, which holds for GRR."""
    before = local.shuffled(4, 100_000, "1e-6").epsilon
    return row(
        before, local.shuffled(4, 100_000, "1e-6", protocol=local.GRR(range(14), epsilon=4)).epsilon, None, 0.1182
    )


def private_key_share() -> Row:
    """Before, a cap on sums: epsilon adds up. With a slack, rho does; half of delta converts, half is the slack."""
    now = pure_rho(Fraction(1, 100)) / rho_for(1, Fraction(1, 2 * 10**6))
    return row(0.01, float(now), 0.01, None)


def unbounded_mean(shape: str, epsilon: str) -> Row:
    """Before: half for a search, half for the mean. Best: public bounds that nobody knows. No peer has it."""
    from bounds import mean_errors

    found = mean_errors(shape, epsilon, seeds=10)
    return row(found["split"], found["one"], None, found["best"])


def row(before: float | None, now: float, peer: float | None, best_known: float | None) -> Row:
    """Return one row."""
    return {"before": before, "now": now, "peer": peer, "best_known": best_known}


def opendp_rho(epsilon: float) -> float | None:
    """Return the rho that OpenDP states for Laplace noise of this epsilon."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    made: Any = dp.c.make_pureDP_to_zCDP(dp.m.make_laplace(*space, scale=1 / epsilon))
    return float(made.map(1))


def opendp_sigma(cells: int, epsilon: float, delta: float) -> float | None:
    """Return the least sigma at which OpenDP states (epsilon, delta) for a vector of this length."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib", "honest-but-curious")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    length = math.nextafter(math.sqrt(cells), math.inf)
    low, high = 1.0, 1e5
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        made: Any = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=middle))
        low, high = (low, middle) if made.map(length).epsilon(delta) <= epsilon else (middle, high)
    return high


def google_mixed() -> float | None:
    """Return what dp-accounting's loss distributions give for 100 pure selections and 40 Gaussians."""
    try:
        import dp_accounting
        from dp_accounting import pld
    except ImportError:
        return None
    accountant = pld.PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(10.0), 100)
    accountant.compose(dp_accounting.GaussianDpEvent(20.0), 40)
    return float(accountant.get_epsilon(1e-6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    found: dict[str, Any] = run()
    if parser.parse_args().json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'':70} {'before':>9} {'now':>9} {'peer':>9} {'best known':>10}")
    for name, cells in found.items():
        texts = ["-" if value is None else f"{value:.4g}" for value in cells.values()]
        print(f"{name:70} {texts[0]:>9} {texts[1]:>9} {texts[2]:>9} {texts[3]:>10}")


if __name__ == "__main__":
    main()
