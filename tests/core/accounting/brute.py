"""Privacy losses by enumeration: laws as tables, mixtures and products of them, and delta by its definition."""

from __future__ import annotations

import math
from collections.abc import Iterable

Law = dict[object, float]
Pair = tuple[Law, Law]


def laplace(epsilon: float, steps: int, *, shift: int | None = None) -> Pair:
    """Return discrete Laplace noise of scale steps / epsilon, and the same moved by `shift` (default: steps)."""
    c, moved = epsilon / steps, steps if shift is None else shift
    reach = math.ceil(60 / c) + steps
    top = math.tanh(c / 2)

    def law(at: int) -> Law:
        return {x: top * math.exp(-abs(x - at) * c) for x in range(-reach, reach + steps + 1)}

    return law(0), law(moved)


def gaussian(sigma_squared: float, shift: int) -> Pair:
    """Return discrete Gaussian noise, and the same moved by `shift`."""
    reach = math.ceil(14 * math.sqrt(sigma_squared)) + shift
    weights = {x: math.exp(-x * x / (2 * sigma_squared)) for x in range(-reach - shift, reach + 2 * shift + 1)}
    total = math.fsum(math.exp(-x * x / (2 * sigma_squared)) for x in range(-2 * reach, 2 * reach + 1))
    near: Law = {x: w / total for x, w in weights.items()}
    return near, {x: math.exp(-((x - shift) ** 2) / (2 * sigma_squared)) / total for x in weights}


def response(epsilon: float, delta: float = 0.0) -> Pair:
    """Return the worst (epsilon, delta)-private pair: all revealed with probability delta, else randomized response."""
    told = (1 - delta) / (1 + math.exp(-epsilon))
    other = told * math.exp(-epsilon)
    return {"a": told, "b": other, "p": delta}, {"a": other, "b": told, "q": delta}


def subsample(pair: Pair, rate: float) -> Pair:
    """Return the pair of what is run on a Poisson sample: with the unit, without."""
    with_unit, without = pair
    keys = with_unit.keys() | without.keys()
    mixed = {x: rate * with_unit.get(x, 0.0) + (1 - rate) * without.get(x, 0.0) for x in keys}
    return mixed, without


def losses(pair: Pair) -> tuple[dict[float, float], float]:
    """Return the finite losses ln(P/Q) under P with their masses, and the mass that is infinite."""
    found: dict[float, float] = {}
    infinite = 0.0
    for x, p in pair[0].items():
        q = pair[1].get(x, 0.0)
        if p > 0 and q == 0:
            infinite += p
        elif p > 0:
            loss = round(math.log(p / q), 11)
            found[loss] = found.get(loss, 0.0) + p
    return found, infinite


def delta_of_list(pairs: Iterable[Pair], epsilon: float) -> float:
    """Return the delta of the product of pairs at epsilon, by direct convolution of their losses."""
    return deltas_of_list(pairs, [epsilon])[0]


def deltas_of_list(pairs: Iterable[Pair], epsilons: Iterable[float]) -> list[float]:
    """Return the same at several epsilons."""
    total, kept = {0.0: 1.0}, 1.0
    for pair in pairs:
        found, infinite = losses(pair)
        kept *= 1 - infinite
        summed: dict[float, float] = {}
        for a, p in total.items():
            for b, q in found.items():
                loss = round(a + b, 10)
                summed[loss] = summed.get(loss, 0.0) + p * q
        total = summed
    return [
        1 - kept + math.fsum(p * -math.expm1(epsilon - loss) for loss, p in total.items() if loss > epsilon)
        for epsilon in epsilons
    ]


def exchange(pair: Pair) -> Pair:
    """Return the pair the other way about."""
    return pair[1], pair[0]
