"""Disclosure risk by possible worlds (Lee & Clifton 2011), and the attacker who plays it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sordino.core.arguments import finite_number, format_count, probabilities, world_epsilon, world_risk
from sordino.core.errors import DeclarationError
from sordino.core.loss import Number
from sordino.core.noise.rng import Rng
from sordino.lab.risk.odds import PAIRWISE, least_sum, least_sum_at, rising_root, softmax
from sordino.lab.risk.statistic_answers import ENTRIES, Answers, lattice_from, listing, tables_of, tally
from sordino.lab.sensitivity.empirical import global_sensitivity
from sordino.lab.sensitivity.statistics import NoAnswer, TableFunction, statistic_from
from sordino.lab.sensitivity.universe import Floats, as_number, rational_from, size_in

# ---- An attacker who plays: true worlds drawn from the prior, noisy answers, and the guess of the likeliest world
#
# It may not know queries, universes or budgets: answers come with the weight of their worlds.

_CELLS = 2_000_000


@dataclass(frozen=True, slots=True)
class Simulation:
    """Hold what an attacker achieved: the share of `runs` where the top world was the true one, beside what bounds it.

    `risk` is the exact worst risk over all outputs, `bound` the closed form above it.
    """

    runs: int
    share: float
    risk: float
    bound: float


def play(offsets: Floats, log_weights: Floats, log_tops: Floats, rate: float, *, runs: int, rng: Rng) -> float:
    """Return the share of runs where the likeliest world, given an output, is the one it was drawn from.

    Floating Laplace noise of scale 1/rate: a simulation, not a release. A guess of the right answer names the right world
    with the share that its heaviest world has of it, so a coin decides between worlds that tie.
    """
    shares = softmax(log_weights)
    truth = np.searchsorted(np.cumsum(shares), rng.uniform_doubles(runs), side="right").clip(max=shares.size - 1)
    centred = rng.uniform_doubles(runs) - 0.5
    noise = -np.sign(centred) * np.log1p(-2 * np.abs(centred).clip(max=0.5 - 2.0**-54)) / (rate or 1.0)
    outputs = offsets[truth] + noise
    right = rng.uniform_doubles(runs) < np.exp(log_tops[truth] - log_weights[truth])
    return float((right & (_guesses(outputs, offsets, log_tops, rate) == truth)).mean())


def _guesses(
    outputs: Floats, offsets: Floats, log_tops: Floats, rate: float
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    # With equal weights it is the nearest answer.
    if (log_tops == log_tops[0]).all():
        return np.searchsorted((offsets[1:] + offsets[:-1]) / 2, outputs)
    guesses = np.empty(outputs.size, dtype=np.intp)
    rows = max(1, _CELLS // offsets.size)
    for start in range(0, outputs.size, rows):
        part = outputs[start : start + rows, None]
        guesses[start : start + rows] = (log_tops - rate * np.abs(part - offsets)).argmax(axis=1)
    return guesses


# ---- The possible worlds of an attacker who knows everyone but not who is in the release, and what an answer reveals
#
# It turns epsilon into the chance that the release is named, and back. It may not know engines, ledgers or real tables:
# the universe, the size and the prior are public.

# So few answers are summed one by one.
_RARE = 16
# The log odds past which a risk is 1.
_CERTAIN = 745.0
# exp(-800) is 0: past it a larger epsilon separates nothing more.
_FLAT = 800.0


class InfeasibleRisk(DeclarationError):
    """Say that no epsilon keeps the risk so low: the prior alone is as large. `smallest` is the least that is feasible."""

    def __init__(self, message: str, *, smallest: float) -> None:
        super().__init__(message)
        self.smallest = smallest


@dataclass(frozen=True, slots=True)
class _Groups:
    """Hold the distinct answers in ascending order, the log weight of their worlds, and that of the heaviest of them."""

    values: Floats
    offsets: Floats
    log_weights: Floats
    log_tops: Floats


class Worlds:
    """Weigh every release of `size` records out of a public universe, one value a person, after a noisy answer.

    The answer is f(release) + Laplace noise of scale Df/epsilon, Df the global sensitivity of the query among tables of
    `size` records under add_remove at distance 1 (by additions alone where one record fewer has no answer). A world is
    one of the C(N, m) choices of people: equal values stay distinct worlds. `query` is a word or a function of your own, as
    in `global_sensitivity`; `prior` holds one probability a world, in the order of itertools.combinations (uniform
    without it). Raises DeclarationError for a size out of range, values that are not finite, and a bad prior.

    Source: Lee & Clifton 2011, How Much Is Enough? Choosing epsilon for Differential Privacy.

    >>> w = Worlds([1, 2, 3, 10], size=3, query="mean")
    >>> round(w.risk(epsilon=0.5), 10), round(w.epsilon_for(risk=1 / 3), 10)
    (0.347697146, 0.4317201196)
    """

    def __init__(
        self, universe: Iterable[Any], *, size: int, query: str | TableFunction, prior: Sequence[float] | None = None
    ) -> None:
        """Check and store; the worlds are counted when they are first needed."""
        self._values, numbers, denominator = lattice_from(universe)
        self.size = size_in(size, people=len(numbers))
        statistic = statistic_from(query, ddof=0)
        self.query = statistic.name
        self._question = query
        self._answers = Answers(numbers, denominator, statistic, self.size)
        if prior is not None:
            self._listable()
        self._prior = None if prior is None else probabilities(prior, worlds=self.count)

    @property
    def universe(self) -> tuple[float, ...]:
        """The values, one a person, in the order given: floats, and int past 2^53."""
        return tuple(as_number(Fraction(x, self._answers.denominator)) for x in self._answers.numbers)

    @property
    def count(self) -> int:
        """The exact number of worlds, C(N, m)."""
        return self._answers.worlds

    @cached_property
    def sensitivity(self) -> float:
        """Df: the most that one record added or removed moves the answer of a table of `size` records (never too little)."""
        least = self._answers.statistic.least
        people = len(self._values)
        direction = "add" if self.size == least < people else "either"
        if self.size == least == people:
            return 0.0
        try:
            return self._most_moved(direction)
        except NoAnswer:
            # of a function it is found out by trying that one record fewer has no answer
            if self._answers.kind != "function":
                raise
        return self._most_moved("add") if self.size < people else 0.0

    @cached_property
    def spread(self) -> float:
        """Dv: the largest distance of the answers of two worlds, over all pairs."""
        low, high = self._answers.extremes()
        ends = self._answers.values(np.array([low, high], dtype=object))
        return float(ends[1] - ends[0]) if self._answers.kind == "std" else (high - low) / self._answers.unit

    @property
    def exact(self) -> bool:
        """Whether `risk` and `epsilon_for` are exact; False where worlds are too many and both are the bound."""
        return self._groups is not None

    @property
    def method(self) -> str:
        """How `risk` and `epsilon_for` come about, for a report: "exact risk", or "closed-form bound"."""
        return "exact risk" if self.exact else "closed-form bound"

    @property
    def worlds(self) -> tuple[tuple[float, ...], ...]:
        """The tables, in the order of itertools.combinations; DeclarationError where they are too many to list."""
        if self.count * self.size > ENTRIES:
            raise self._too_many()
        values = np.array(self.universe, dtype=object)
        return tuple(tuple(row) for row in values[tables_of(values.size, self.size)].tolist())

    @cached_property
    def answers(self) -> Floats:
        """The exact answer of each world, in the order of itertools.combinations: public, as the universe is."""
        values = self._answers.values(self._keys)
        values.setflags(write=False)
        return values

    @cached_property
    def prior(self) -> Floats:
        """The prior probability of each world, in the order of itertools.combinations."""
        if self._prior is None:
            self._listable()
        probabilities = np.full(self.count, 1 / self.count) if self._prior is None else self._prior
        probabilities.setflags(write=False)
        return probabilities

    def posterior(self, *, output: Number, epsilon: Number) -> Floats:
        """Return the probability of each world once `output` is seen, in the order of itertools.combinations.

        posterior_w = prior_w exp(-epsilon |output - f_w| / Df) / (the same, summed over all worlds). DeclarationError
        where the worlds are too many to list. Source: Lee & Clifton 2011, section 4.

        >>> Worlds([1, 2, 3, 4], size=3, query="mean").posterior(output=2.20131, epsilon=2.0).round(6).tolist()
        [0.338988, 0.400316, 0.179873, 0.080822]
        """
        finite_number(output, "output")
        distances = self._answers.distances(self._keys, rational_from(output))
        nearest = distances[self.prior > 0].min()
        with np.errstate(divide="ignore", over="ignore"):
            logs = np.log(self.prior) - self._rate(world_epsilon(epsilon)) * (distances - nearest)
        return softmax(logs)

    def posterior_gain(self, *, output: Number, epsilon: Number) -> float:
        """Return the largest posterior - prior over the worlds once `output` is seen: the paper's "confidence".

        >>> round(Worlds([1, 2, 3, 4], size=3, query="mean").posterior_gain(output=2.20131, epsilon=2.0), 10)
        0.1503158008
        """
        return float((self.posterior(output=output, epsilon=epsilon) - self.prior).max())

    def risk(self, *, epsilon: Number) -> float:
        """Return the largest posterior that any output can give any world; at epsilon 0 the largest prior.

        max_i 1 / sum_j (p_j / p_i) exp(-epsilon |f_i - f_j| / Df), attained at output = f_i. Exact if `exact` is True,
        else `risk_bound`. Source: Lee & Clifton 2011, section 5 (its tight bound, over all worlds).

        >>> round(Worlds([1, 2, 3, 4], size=3, query="mean").risk(epsilon=0.5), 10)
        0.3291788293
        """
        epsilon = world_epsilon(epsilon)
        if self._groups is None or self._is_constant:
            return self.risk_bound(epsilon=epsilon)
        return min(1.0, max(float(self._largest_prior), math.exp(-self._surprise(epsilon))))

    def risk_bound(self, *, epsilon: Number) -> float:
        """Return 1 / (1 + (1 - p)/p exp(-epsilon Dv / Df)), p the largest prior: never below `risk`; any number of worlds.

        Uniform prior: (1 - p)/p is W - 1. Source: Lee & Clifton 2011, section 5 (its upper bound).

        >>> round(Worlds([1, 2, 3, 4], size=3, query="mean").risk_bound(epsilon=2.0), 10)
        0.7860684399
        """
        epsilon = world_epsilon(epsilon)
        largest = self._largest_prior
        if self._is_constant or largest == 1:
            return float(largest)
        gained = self._rate(epsilon) * self.spread - _log(1 / largest - 1)
        return 1 / (1 + math.exp(-gained)) if gained > -700 else math.exp(gained)

    def epsilon_for(self, *, risk: Number) -> float:
        """Return the largest epsilon whose `risk` is at most `risk`, approached from below: never above it.

        math.inf where no epsilon reaches the risk (worlds with equal answers hide each other), `epsilon_bound_for`
        where `exact` is False. InfeasibleRisk where the risk is at or below the largest prior; DeclarationError unless
        it is between 0 and 1. A relative step of 1e-9 above the result is infeasible, unless the risk asked for is so
        near the prior or 1 that floats cannot separate them (1e-6 off the prior, or 1e-4 past 400 answers).

        >>> Worlds([1, 2, 3, 10], size=3, query="median").epsilon_for(risk=0.5)
        inf
        """
        wanted = self._check_risk(risk)
        groups = self._groups
        if groups is None or self._is_constant:
            return self.epsilon_bound_for(risk=wanted)
        if -math.log(wanted) <= float((groups.log_weights - groups.log_tops).min()) * (1 + 1e-14):
            return math.inf

        # only an answer of so little weight can ever give so high a risk
        rare = np.flatnonzero(groups.log_weights - groups.log_tops <= -math.log(wanted) + 1e-9)
        rare = rare if groups.values.size > PAIRWISE and rare.size <= _RARE else rare[:0]

        def excess(epsilon: float) -> float:
            surprise = self._surprise(epsilon, rare.tolist(), enough=-math.log(wanted) + 1e-6)
            if surprise <= 0:
                return _CERTAIN
            value = -surprise - math.log(-math.expm1(-surprise)) - math.log(wanted) + math.log1p(-wanted)
            return max(value, 5e-324) if math.exp(-surprise) > wanted else min(value, 0.0)

        low = high = self.epsilon_bound_for(risk=wanted) or 1.0
        while excess(low) > 0:
            low /= 2
        while excess(high) <= 0:
            low = high
            high = 2 * high
            if self._rate(low) * self._gap > _FLAT:
                return math.inf
        few = groups.values.size <= PAIRWISE
        low, _ = rising_root(excess, low, high, tolerance=1e-14 if few else 1e-11)
        return _step_back(
            lambda epsilon: self.risk(epsilon=epsilon), float(low) * (1 - (4e-14 if few else 1e-10)), wanted
        )

    def epsilon_bound_for(self, *, risk: Number) -> float:
        """Return (Df/Dv) ln((1 - p)/p · risk/(1 - risk)), p the largest prior: the inverse of `risk_bound`, from below.

        >>> round(Worlds([1, 2, 3, 4], size=3, query="mean").epsilon_bound_for(risk=1 / 3), 10)
        0.3378875901
        """
        wanted = self._check_risk(risk)
        if self._is_constant:
            return math.inf
        odds = _log(1 / self._largest_prior - 1) + math.log(wanted) - math.log1p(-wanted)
        epsilon = self.sensitivity / self.spread * odds
        return _step_back(lambda epsilon: self.risk_bound(epsilon=epsilon), epsilon, wanted)

    def record_risk(self, value: Number, *, output: Number, epsilon: Number) -> float:
        """Return the posterior probability that a person of this value is in the release, once `output` is seen.

        Of several people of that value, the one most likely in it (alike under a uniform prior). DeclarationError for a
        value that is not in the universe, and where the worlds can be neither listed nor counted.

        >>> round(Worlds([1, 2, 3, 10], size=3, query="mean").record_risk(10, output=5.0, epsilon=1.0), 6)
        0.88538
        """
        finite_number(value, "value")
        wanted = rational_from(value)
        holders = [i for i, x in enumerate(self._answers.numbers) if Fraction(x, self._answers.denominator) == wanted]
        if not holders:
            near = min(self.universe, key=lambda x: abs(rational_from(x) - wanted))
            raise DeclarationError(f"value {as_number(wanted)} is not in the universe; the nearest one there is {near}")
        if self.count * self.size <= ENTRIES and (self._prior is not None or self.count * self.size < 200_000):
            posterior = self.posterior(output=output, epsilon=epsilon)
            tables = tables_of(len(self._values), self.size)
            return max(float(posterior[(tables == i).any(axis=1)].sum()) for i in holders)
        if self._prior is not None:
            # World k leaves out the person N - 1 - k, or keeps the person k.
            places = np.array(holders)
            posterior = self.posterior(output=output, epsilon=epsilon)
            return float(posterior[places].max() if self.size == 1 else 1 - posterior[::-1][places].min())
        everyone = self._log_evidence(self._answers, output, epsilon)
        others = self._answers.numbers[: holders[0]] + self._answers.numbers[holders[0] + 1 :]
        if len(others) < self.size:
            return 1.0
        without = Answers(others, self._answers.denominator, self._answers.statistic, self.size)
        return max(0.0, -math.expm1(self._log_evidence(without, output, epsilon) - everyone))

    def simulate(self, *, epsilon: Number, runs: int, rng: Rng) -> Simulation:
        """Play the attacker `runs` times: draw a world from the prior, add the noise, and guess the top world.

        The share of runs where the guess is right has an expectation of at most `risk`: the worst output is not always
        drawn. A coin decides between equal posteriors.

        >>> w = Worlds([1, 2, 3, 4], size=3, query="mean")
        >>> found = w.simulate(epsilon=0.5, runs=2000, rng=Rng.seeded(1))
        >>> found.share <= found.risk + 0.03
        True
        """
        epsilon = world_epsilon(epsilon)
        if epsilon == 0:
            raise DeclarationError("at epsilon 0 the noise has no scale: simulate at an epsilon above 0, such as 0.01")
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
            raise DeclarationError(f"runs must be a whole number from 1, not {runs!r}")
        groups = self._require_groups()
        share = play(groups.offsets, groups.log_weights, groups.log_tops, self._rate(epsilon), runs=runs, rng=rng)
        return Simulation(runs, share, risk=self.risk(epsilon=epsilon), bound=self.risk_bound(epsilon=epsilon))

    def __repr__(self) -> str:
        prior = "" if self._prior is None else ", prior given"
        return f"<Worlds {format_count(self.count)} of {self.size} in {len(self._values)} records, query={self.query!r}{prior}>"

    def _most_moved(self, direction: str) -> float:
        change = global_sensitivity(
            self._question, self._values, size=self.size, neighbors="add_remove", exactly=1, direction=direction
        )
        return float(change.value)

    @cached_property
    def _keys(self) -> Any:
        keys = listing(self._answers)
        if keys is None:
            raise self._too_many()
        return keys

    @cached_property
    def _groups(self) -> _Groups | None:
        answers = self._answers
        if self._prior is None:
            counted = tally(answers)
            if counted is None:
                return None
            keys = counted.keys
            weights = counted.log_counts
            tops = np.zeros(weights.size)
        else:
            possible = self._prior > 0
            keys, places = np.unique(self._keys[possible], return_inverse=True)
            totals = np.zeros(len(keys))
            heaviest = np.zeros(len(keys))
            np.add.at(totals, places, self._prior[possible])
            np.maximum.at(heaviest, places, self._prior[possible])
            weights = np.log(totals)
            tops = np.log(heaviest)
        values = answers.values(keys)
        offsets = values - values[0] if answers.kind == "std" else answers.values(keys, above=keys[0])
        return _Groups(values, offsets, weights, tops)

    @cached_property
    def _largest_prior(self) -> Fraction:
        return Fraction(1, self.count) if self._prior is None else Fraction(float(self._prior.max()))

    @cached_property
    def _gap(self) -> float:
        """The least distance of two distinct answers."""
        groups = self._require_groups()
        gaps = np.diff(groups.offsets)
        return float(gaps[gaps > 0].min()) if (gaps > 0).any() else math.inf

    @cached_property
    def _is_constant(self) -> bool:
        low, high = self._answers.extremes()
        if low < high and not (self.spread and self.sensitivity):
            # noise of scale 0 would name the release, so that this must never pass for a constant answer
            raise DeclarationError(
                "universe must hold values whose answers differ by at least 1e-300: write them in a smaller unit"
            )
        return bool(low == high)

    def _surprise(self, epsilon: float, rare: Sequence[int] = (), *, enough: float = math.inf) -> float:
        """Return minus the log of the worst risk, over all answers or over the places of the `rare` ones."""
        groups = self._require_groups()
        rate = self._rate(epsilon)
        arrays = (groups.offsets, groups.log_weights, groups.log_tops)
        return least_sum_at(rare, *arrays, rate, enough=enough) if rare else least_sum(*arrays, rate)

    def _rate(self, epsilon: float) -> float:
        """Return epsilon / Df: one over the scale of the noise; 0 where every answer is the same."""
        return 0.0 if self._is_constant else epsilon / self.sensitivity

    def _log_evidence(self, answers: Answers, output: Number, epsilon: Number) -> float:
        counted = tally(answers)
        if counted is None:
            raise self._too_many()
        finite_number(output, "output")
        distances = answers.distances(counted.keys, rational_from(output))
        logs = counted.log_counts - self._rate(world_epsilon(epsilon)) * distances
        return float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))

    def _require_groups(self) -> _Groups:
        if self._groups is None:
            raise self._too_many()
        return self._groups

    def _check_risk(self, risk: Any) -> float:
        wanted = world_risk(risk)
        smallest = float(self._largest_prior)
        if wanted < smallest or (wanted == smallest and not self._is_constant):
            raise InfeasibleRisk(
                f"risk {wanted:g} is infeasible: with no answer at all the most likely world has probability "
                f"{smallest:.10g}; ask for a risk above that, or choose another size",
                smallest=smallest,
            )
        return wanted

    def _listable(self) -> None:
        people = len(self._values)
        if self.count * self.size > ENTRIES and self.count != people:
            raise self._too_many()

    def _too_many(self) -> DeclarationError:
        return DeclarationError(
            f"the {format_count(self.count)} worlds of size={self.size} are too many to list or count for {self.query!r}: "
            f"at most {ENTRIES // self.size} can be; use risk(), risk_bound() or epsilon_bound_for(), or a smaller universe"
        )


def _step_back(risk_at: Callable[[float], float], epsilon: float, wanted: float) -> float:
    """Return epsilon, stepped back from rounding until its risk is at most `wanted`."""
    step = 2.0**-52
    while risk_at(epsilon) > wanted:
        epsilon *= 1 - step
        step *= 2
    return epsilon


def _log(value: Fraction) -> float:
    """Return the logarithm of a rational of any size."""
    return math.log(value.numerator) - math.log(value.denominator)
