"""Error for the same loss: before, now, of the best peer that installs, and the best bound known, on the same work.

Run `python bench/accuracy.py [--json]`. Peers run in the same process where they are installed (OpenDP, dp-accounting);
None where a peer cannot do the work. `before` is this project's own earlier method, kept here for the comparison.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import pyarrow as pa

import sordino as sd
from sordino import local
from sordino.ask.curator.possible_keys import choose_key_selection
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import as_aggregation, count, mean, std, variance
from sordino.ask.queries.build import sum as total
from sordino.ask.queries.query import ExpectedNoise
from sordino.ask.queries.strategy import find_strategy
from sordino.core.accounting.composition import best
from sordino.core.accounting.concentration import bounded_range_rho, laplace_rho, pure_rho
from sordino.core.accounting.events import BoundedRangeEvent, DiscreteGaussianEvent
from sordino.core.accounting.gaussian_dp import analytic_gaussian_sigma
from sordino.core.accounting.zcdp import epsilon_of, rho_for
from sordino.core.domain import Boolean, Domain, Fill, Integer
from sordino.core.estimates.ratio import two_laplace_tail
from sordino.core.loss import ApproxDP, Event, PureDP
from sordino.core.mechanisms.additive_noise import Gaussian
from sordino.core.mechanisms.noise_choice import cheapest
from sordino.core.mechanisms.sparse_vector import SparseVector
from sordino.core.mechanisms.threshold import LaplaceThreshold
from sordino.core.neighbors import Neighbors, PrivacyUnit, Sensitivity
from sordino.core.noise.laws import DiscreteLaplace
from sordino.local.estimates.frequency import variance as local_variance

Row = dict[str, float | None]
R, N = 1000, 10_000  # the range of a number, and rows


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
        "sd of a question less the threshold, 10 crossings, epsilon 1": crossings(monotone=False),
        "the same of counts under add_remove": crossings(monotone=True),
        "error of a count of the tenth that WHERE keeps, units of 50 rows capped at 5": capped_count(),
        "units of a private key that shows half the time, with its count, at (1, 1e-6)": shown_half(),
        "keys of a Zipf table of 20,000 that stay hidden, 8 keys a unit, (3, 1e-6)": hidden_keys(),
        "rank error of ten quantiles of 20,000 incomes, epsilon 1": ten_quantiles(),
        "rank error stated for nine deciles of ages, 0 to 125, replace, epsilon 1": nine_deciles()[1],
        "their mean rank error, 32,561 ages, replace, epsilon 0.1": nine_deciles()[0],
        "sd of a rare label of 1,024, 10,000 respondents, epsilon 1": rare_label(),
        **{f"{name}, {R:,} wide, at epsilon 1": found for name, found in shared_vectors().items()},
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
    from sordino.core.accounting.events import DiscreteLaplaceEvent

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
    """Before: Feldman, McMillan, Talwar 2021. The best known is the privacy blanket of the protocol (Su, Cheng, Wang 2025)."""
    before = local.shuffled(4, 100_000, "1e-6").epsilon
    return row(
        before, local.shuffled(4, 100_000, "1e-6", protocol=local.GRR(range(14), epsilon=4)).epsilon, None, 0.1064
    )


def private_key_share() -> Row:
    """Before, a cap on sums: epsilon adds up. With a slack, rho does; half of delta converts, half is the slack."""
    now = pure_rho(Fraction(1, 100)) / rho_for(1, Fraction(1, 2 * 10**6))
    return row(0.01, float(now), 0.01, None)


def crossings(*, monotone: bool) -> Row:
    """Before: a threshold and an epsilon a crossing (Dwork & Roth 2014, 3.6).

    Best: the continuous split of Lyu, Su, Li 2017, with noise on one side (Liu et al. 2024).
    """
    count, epsilon = 10, 1
    made = SparseVector(Fraction(1), Fraction(epsilon), count, monotone)
    now = math.sqrt(made.threshold_law.variance() + made.question_law.variance())
    moves = count if monotone else 2 * count
    share = 1 / (1 + moves ** (2 / 3))
    best_known = math.hypot(1 / share, moves / (1 - share)) / epsilon
    return row(math.sqrt(2) * math.hypot(2 * count, 4 * count) / epsilon, now, None, best_known)


def capped_count() -> Row:
    """Before: a unit's rows were capped, then filtered. Best: the bias of the cap alone. 1,000 units, a mean of 20 asks."""
    units, each, most = 1000, 50, 5
    draws = np.random.default_rng(1)
    unit, held = np.repeat(np.arange(units), each), draws.random(units * each) < 0.1
    people = sd.protect(
        pa.table({"id": unit, "held": held}),
        domain=Domain({"id": Integer(), "held": Boolean()}),
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("id", max_rows=most),
        budget=sd.PureDP(100),
        ledger=None,
        rng=sd.Rng.seeded(1),
    )
    many = np.bincount(unit[held], minlength=units)
    answers = [people.ask(people.where(sd.col("held")).agg(count()), epsilon=1).value for _ in range(20)]
    before = held.sum() - draws.hypergeometric(many, each - many, most).sum()
    return row(
        float(before),
        float(np.mean([abs(held.sum() - a) for a in answers])),
        None,
        float((many - np.minimum(many, most)).sum()),
    )


def shown_half() -> Row:
    """Before: half of epsilon for the threshold, half for the counts. The peer: Google's best selection at such a half."""
    from keys import google_keys

    delta, half = Fraction(1, 10**6), Fraction(1, 2)
    neighbors = Neighbors("add_remove", PrivacyUnit("id", max_rows=1))
    chosen, _ = choose_key_selection(
        neighbors, ApproxDP(1, delta), share=Fraction(1), counts=True, min_units=1, named="threshold"
    )
    before, now = (
        float(next(n for n in range(1, 1000) if made.appears(n) >= 0.5))
        for made in (LaplaceThreshold(1, half, delta), chosen)
    )
    units = range(1, 1000)
    kept = [google_keys(np.array([n]), 1, half) for n in units]
    peer = [n for n, chance in zip(units, kept, strict=True) if not isinstance(chance, str) and chance >= 0.5]
    return row(before, now, float(peer[0]) if peer else None, None)


def hidden_keys() -> Row:
    """Before: Google's best selection, which is the peer. The bound: weights rerouted without regard to their sensitivity."""
    from keys import _capped_counts, draw_table, google_keys
    from rerouted_keys import count_shown

    many, shown, rerouted = count_shown("alike", 8, Fraction(3), keys=20_000, rows=200_000)
    peer = google_keys(_capped_counts(draw_table(20_000, 200_000, "alike"), 8), 8, Fraction(3))
    before = None if isinstance(peer, str) else many - peer
    return row(before, round(many - shown), before, round(many - rerouted))


def ten_quantiles() -> Row:
    """Before: a tenth of the loss for each. Best: JointExp, whose law is drawn in floats. Mean distance in ranks, 20 asks."""
    from joint_quantiles import joint_error

    values = np.minimum(np.random.default_rng(1).lognormal(10.5, 0.8, 20_000).astype(np.int64), 10**6)
    ordered, levels = np.sort(values), [Fraction(2 * i + 1, 20) for i in range(10)]
    people = sd.protect(
        pa.table({"income": values}),
        domain=Domain({"income": Integer(0, 10**6)}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(1000),
        ledger=None,
        rng=sd.Rng.seeded(1),
    )

    def ranks_off(found: list[float]) -> float:
        aims = np.array([float(level * len(values)) for level in levels])
        low, high = np.searchsorted(ordered, found, "left"), np.searchsorted(ordered, found, "right")
        return float(np.maximum(0, np.maximum(low - aims, aims - high)).mean())

    apart, joint = [], []
    for _ in range(20):
        single = [people.ask(sd.quantile("income", level), epsilon=Fraction(1, 10)).value for level in levels]
        apart.append(ranks_off(single))
        joint.append(ranks_off(list(people.ask(sd.quantiles("income", levels), epsilon=1).value.values())))
    tree = opendp_quantiles(values.astype(float).tolist(), [float(level) for level in levels])
    peer = None if tree is None else float(np.mean([ranks_off(tree()) for _ in range(5)]))
    spread = ordered + np.random.default_rng(2).random(len(ordered))  # JointExp is for values that do not tie
    best_known = joint_error(np.sort(spread).clip(0, 10**6), levels, 1.0, "add_remove", 20)
    return row(float(np.mean(apart)), float(np.mean(joint)), peer, best_known)


@lru_cache
def nine_deciles() -> tuple[Row, Row]:
    """Before: by halving. Errors measured at epsilon 0.1, over 20 draws, and stated at 95% at epsilon 1, as no peer does."""
    from joint_quantiles import ages_errors

    levels = tuple(Fraction(i, 10) for i in range(1, 10))
    measured, stated = (ages_errors(levels, e, "replace", n) for e, n in ((Fraction(1, 10), 20), (Fraction(1), 1)))
    return (
        row(measured["halving"], measured["joint"], None, None),
        row(stated["halving, stated"], stated["joint, stated"], None, None),
    )


def opendp_quantiles(values: list[float], levels: list[float]) -> Callable[[], list[float]] | None:
    """Return OpenDP's quantiles from a tree at epsilon 1; of 1,024, 8,192 and 65,536 leaves, 8,192 erred least."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    leaves = 8192
    ways = dp.t.choose_branching_factor(leaves)
    edges = [i * 1e6 / leaves for i in range(leaves + 1)]
    counted: Any = dp.t.make_find_bin(
        dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance(), edges=edges[1:-1]
    )
    counted = counted >> dp.t.then_count_by_categories(categories=list(range(leaves)), null_category=False)
    counted = counted >> dp.t.then_b_ary_tree(leaf_count=leaves, branching_factor=ways)

    def noisy(scale: float) -> Any:
        return counted >> dp.m.then_laplace(scale=scale)

    scale = float(dp.binary_search(lambda s: bool(noisy(s).check(1, 1.0)), bounds=(1e-3, 1e4)))
    measured, consistent = noisy(scale), dp.t.make_consistent_b_ary_tree(branching_factor=ways)
    quantiles: Any = dp.t.make_quantiles_from_counts(edges, alphas=levels)
    return lambda: list(quantiles(consistent(measured(values))))


def rare_label() -> Row:
    """Before: optimised local hashing. Best and now: subset selection. pure-ldp's OLH is the peer."""
    labels, people = range(1024), 10_000
    made = {
        name: protocol(labels, epsilon=1) for name, protocol in (("OLH", local.OLH), ("best", local.SubsetSelection))
    }
    sd_of = {n: people * math.sqrt(local_variance(m.p, m.q, share=0.0, n=people)) for n, m in made.items()}
    return row(sd_of["OLH"], sd_of["best"], sd_of["OLH"], sd_of["best"])


def unbounded_mean(shape: str, epsilon: str) -> Row:
    """Before: half for a search, half for the mean. Best: public bounds that nobody knows. No peer has it."""
    from bounds import mean_errors

    found = mean_errors(shape, epsilon, seeds=10)
    return row(found["split"], found["one"], None, found["best"])


def shared_vectors() -> dict[str, Row]:
    """Errors at 95%. Before: each aggregate, and each of its parts, had noise of its own. Best: with the whole loss alone."""
    domain = Domain({"x": Integer(0, R, missing=Fill(0))})
    three = [count(), total("x"), mean("x")]
    sums, counts = opendp_scale(total=True), opendp_scale(total=False)
    peer_mean = None if sums is None or counts is None else ratio_of(2 * sums, 2 * counts)
    alone = DiscreteLaplace(Fraction(1)).error(0.95)
    asked: list[tuple[str, list[Any], int, float | None, float | None]] = [
        ("error of AVG x rows", [mean("x")], 0, peer_mean, 3.0 * R),
        ("error of COUNT beside SUM and AVG", three, 0, None if counts is None else 3 * counts * 3.0, alone),
        ("error of SUM beside COUNT and AVG", three, 1, None if sums is None else 3 * sums * 3.0, 3.0 * R),
        ("error of AVG x rows beside COUNT and SUM", three, 2, None if peer_mean is None else 3 * peer_mean, 3.0 * R),
        ("error of VARIANCE x rows", [variance("x")], 0, None, None),
        ("error of STDDEV x rows", [std("x")], 0, None, None),
    ]
    found: dict[str, Row] = {}
    for name, several, place, peer, least in asked:
        by = N if "x rows" in name else 1
        found[name] = row(apart(several, place, domain) * by, together(several, place, domain) * by, peer, least)
    return found


def together(several: list[Any], place: int, domain: Domain) -> float:
    """Return the planned error of one aggregate of a question, by the strategy that is asked with."""
    question = as_aggregation(several)
    compiled, shares = compile_query(question, domain), [Fraction(1, len(several))] * len(several)
    bounded = compiled.bound(Neighbors("add_remove", None))
    strategy = find_strategy(question.aggregates, bounded, shares, squared=False)
    mechanisms, _ = cheapest([(b.noise_sensitivity, b.share) for b in strategy.blocks], PureDP(1))
    reading = strategy.readings[place]
    laws = [mechanisms[block].law for block, _ in reading.vectors]
    return question.aggregates[place].error(compiled.parts[place], ExpectedNoise(laws, 0.95, N, None, reading.mix))


def apart(several: list[Any], place: int, domain: Domain) -> float:
    """Return the same where every part has noise of its own, by an equal share."""
    question = as_aggregation(several)
    compiled = compile_query(question, domain)
    parts = compiled.parts[place]
    bounded = compiled.bound(Neighbors("add_remove", None))
    moved = [s.rescale(1 / p.unit).l1 for p, s in zip(parts, bounded.sensitivities[place], strict=True)]
    laws = [DiscreteLaplace(by * len(several) * len(parts)) for by in moved]
    return question.aggregates[place].error(parts, ExpectedNoise(laws, 0.95, N))


def opendp_scale(*, total: bool) -> float | None:
    """Return the least scale at which OpenDP states epsilon 1 for a bounded sum of unknown size, or a count."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    bounds: Any = {"bounds": (0, R)} if total else {"T": int}
    space = dp.vector_domain(dp.atom_domain(**bounds)), dp.symmetric_distance()
    summed: Any = (dp.t.make_sum if total else dp.t.make_count)(*space)

    def holds(scale: float) -> bool:
        return bool((summed >> dp.m.then_laplace(scale=scale)).check(1, 1.0))

    return float(dp.binary_search(lambda scale: holds(scale), bounds=(1e-3, 1e7)))


def ratio_of(top: float, bottom: float) -> float:
    """Return the error of a noisy sum over a noisy count times the rows, for the worst mean: that of the upper bound."""
    low, high = 0.0, 100.0 * (top + bottom * R)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if float(two_laplace_tail(top, bottom * R, middle)) > 0.05 else (low, middle)
    return high


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
