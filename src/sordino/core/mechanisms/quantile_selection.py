"""Quantiles by the exponential mechanism over all values of a public lattice, drawn exactly from a few counts.

It may not know a table: it requests finer counts where a draw may fall.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, TypeAlias

from sordino.core.errors import DeclarationError
from sordino.core.estimates.choices import RankStage
from sordino.core.loss import format_number
from sordino.core.mechanisms.partition import Partition, Piece, RankProblem, pieces
from sordino.core.mechanisms.tie_places import PARTS, cut, split_tail
from sordino.core.neighbors import Neighbors
from sordino.core.noise.bernoulli import CertifiedProbability, bernoulli
from sordino.core.noise.rng import Rng
from sordino.core.noise.softmax import fill_urn, whole_numbers

Segment: TypeAlias = tuple[int, int]
Draw: TypeAlias = Generator[Segment, None, tuple[int, int]]


class Holdings(Protocol):
    """The sorted values of each group, as far as they are known, and the way to refine them."""

    def known(self, group: int) -> Partition:
        """Return the counts of a group so far."""

    def refine(self, wanted: Sequence[tuple[int, Segment]]) -> None:
        """Learn finer counts of segments, each with its group."""


@dataclass(frozen=True, slots=True)
class Node:
    """One selection: the level it finds, and the levels found before that it lies between.

    `lower` and `upper` are places in the sorted levels: -1 and their number stand for the ends of the table. `last` says
    that no selection follows between its own answer and theirs.
    """

    place: int
    lower: int
    upper: int
    last: bool


@dataclass(frozen=True, slots=True)
class QuantileSelection:
    """The quantiles at sorted `levels` of each of `groups` groups of rows, by halving, with `epsilon` a stage.

    The score. A value v of the lattice has a(v) rows below it and b(v) rows not above it. Its cost for level q of n rows
    is the distance t(v) of q n from [a(v), b(v)], in ranks; so a value that rows tie at costs nothing where the quantile
    lies among them, all values of an empty table cost nothing, and some value always costs nothing.

    Theorem (sensitivity). t(v) = max(0, a - q n, q n - b), where a - q n = (1 - q) (rows below v) - q (rows not below v)
    and b - q n likewise. So a row adds something in [-q, 1 - q] to either, wherever it lies, and nothing where it is
    missing or dropped; max(0, .) moves by no more than what it is taken of. Hence with C rows a unit, add_remove moves
    every t(v) by at most D = C max(q, 1 - q), and replace by at most D = C ((1 - q) + q) = C. n is private throughout.

    Theorem (McSherry & Talwar 2007, Theorem 6). Choosing v with P(v) proportional to exp(-epsilon t(v) / (2 D)) is
    epsilon-differentially private: the ratio of P(v) on neighbors is e^(epsilon/2) for the power and e^(epsilon/2) for
    the normaliser. The log ratio lies in a range of length epsilon, so rho is about epsilon^2 / 8 (Cesar & Rogers 2021,
    Lemma 3.2 of "Bounding, concentrating, and truncating").

    Theorem (groups). Let W_g be the rows of one unit in group g: they sum to at most C. Under add_remove the costs of
    group g move by at most W_g max(q, 1 - q), its log ratio by epsilon W_g / C: epsilon in all. Under replace the unit
    has W_g and W'_g rows, moves by at most (W_g + W'_g) max(q, 1 - q), and D = 2 C max(q, 1 - q) gives epsilon in all.
    Log ratios of independent selections add, and so do their ranges, so this rho stays.

    Theorem (the ends). At level 1 the cost of v is the number of rows above v. A unit's rows raise it by f(v) >= 0 and the
    rows they replace lower it by g(v) >= 0; f and g fall in v, from at most W_g and W'_g. Where f - g is p at some v and
    -m at some u < v, g(u) >= m + f(u) >= m + f(v) >= m + p; likewise for u > v. So costs move within a range of
    max(W_g, W'_g), at most C (in all groups together C, or 2 C under replace), and the log ratio, which is the move times
    the rate less a constant, lies in a range of that times the rate; as two distributions' log ratio crosses 0, it is at
    most that range. So the rate is twice that of the theorems above at levels 0 and 1, with the same epsilon and rho.
    (The exponential mechanism with monotone scores: McSherry & Talwar 2007; Dong, Durfee, Rogers 2020 for the range.)

    Theorem (several levels; Kaplan, Schnapp, Stemmer 2022, "Differentially private approximate quantiles", Algorithm 1).
    The middle level is found first; the levels below it are found on the rows below, those above on the rows above,
    at the level that they have there, q' = (q - q_low) / (q_high - q_low). The split is at a released place, so given
    what was released the selections of one stage are on disjoint rows: they are groups in the sense above. Rows
    that tie with the answer are split in `PARTS` parts each, of which the released place says how many go below (`cut`): then
    W_g counts parts of rows, the parts of a row add to 1, and each part adds its share to a - q n. The stages compose:
    k levels take ceil(log2(k + 1)) of them.

    Drawing. Nobody lists the values: `pieces` covers the lattice by runs of values with a lower bound on their cost; a
    run is chosen by weight = size exp(-rate bound), a value uniformly in it, and is kept with probability
    exp(-rate (cost - bound)), else all is drawn again (von Neumann 1951). Where the cost of a value is not known,
    finer counts are asked for first. Each trial, whatever is known at its time, keeps v with probability proportional to
    its weight in the law; so the answer has the law, given any number of trials. Their number depends on the data, as
    the time of a scan does.

    Raises DeclarationError unless levels are sorted in [0, 1], all different, and epsilon > 0.

    >>> QuantileSelection((Fraction(1, 2),), Fraction(1), Neighbors("add_remove", None), groups=1).rate(0)
    Fraction(1, 1)
    """

    levels: tuple[Fraction, ...]
    epsilon: Fraction
    neighbors: Neighbors
    groups: int
    # Its selections, stage by stage.
    tree: tuple[tuple[Node, ...], ...] = field(init=False, repr=False, compare=False)
    # By place: the level among the rows between the levels found before it.
    inner: tuple[Fraction, ...] = field(init=False, repr=False, compare=False)
    # By place: what one rank costs.
    rates: tuple[Fraction, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.levels or any(not 0 <= q <= 1 for q in self.levels):
            raise DeclarationError("levels must lie between 0 and 1")
        if any(a >= b for a, b in zip(self.levels, self.levels[1:], strict=False)):
            raise DeclarationError("levels must be sorted and all different")
        if self.epsilon <= 0:
            raise DeclarationError(f"epsilon must be above 0, not {format_number(self.epsilon)}")
        object.__setattr__(self, "tree", halving_stages(len(self.levels)))
        inner = {node.place: self._find_inner(node) for node in itertools.chain.from_iterable(self.tree)}
        object.__setattr__(self, "inner", tuple(inner[place] for place in range(len(self.levels))))
        rates = {n.place: self._find_rate(inner[n.place], len(nodes)) for nodes in self.tree for n in nodes}
        object.__setattr__(self, "rates", tuple(rates[place] for place in range(len(self.levels))))

    @property
    def stages(self) -> int:
        """How many selections of `epsilon` each follow one another."""
        return len(self.tree)

    def rate(self, place: int) -> Fraction:
        """Return what one rank costs in the exponent, for the level at `place`: epsilon / (2 D), epsilon / D at the ends."""
        return self.rates[place]

    def error_stages(self, places: Sequence[Sequence[int]], *, values: int, rows: int) -> list[tuple[RankStage, ...]]:
        """Return what bounds the rank error at each level on a lattice of `values` values, with `rows` rows at most.

        Each of `places` names one level, or several: then what bounds the sum of their errors.

        Theorem (utility; after McSherry & Talwar 2007): the candidates whose cost is t or more have weight at most
        U exp(-rate t), and those of cost 0 at least M: P(cost >= t) <= (U / M) exp(-rate t). For a last selection some
        value costs nothing, so M = 1. Where places among ties are chosen, the bound is `split_tail`. The rank aimed at in a
        later selection is q' between two ranks that are wrong by as much as those selections erred, so errors add with
        weights 1 - q' and q'. A selection's bound holds whatever was found before it: what the stages amount to together
        is `Ranks.errors`.
        """
        # One selection's bound is part of many levels' bounds.
        tails: dict[int, tuple[Fraction, float]] = {}
        bounds = []
        for several in places:
            weights = {place: Fraction(1) for place in several}
            stages = []
            for node in itertools.chain.from_iterable(reversed(self.tree)):
                weight = weights.get(node.place, Fraction(0))
                if not weight:
                    continue
                if node.place not in tails:
                    tails[node.place] = self._tail(node, values, rows)
                stages.append(RankStage(weight, *tails[node.place]))
                inner = self.inner[node.place]
                for end, share in ((node.lower, 1 - inner), (node.upper, inner)):
                    if 0 <= end < len(self.levels):
                        weights[end] = weights.get(end, Fraction(0)) + weight * share
            bounds.append(tuple(stages))
        return bounds

    def dense_errors(self, requested: Sequence[Fraction]) -> list[float]:
        """Return the standard deviation of each requested level's rank, where values are dense.

        There a selection of rate r errs by Laplace noise of variance 2 / r^2 in ranks. A later one aims at a rank between
        two found before, and takes on their errors by its shares of the way.
        """
        none: dict[int, Fraction] = {}
        weights = {-1: none, len(self.levels): none}
        variance = {}
        for node in itertools.chain.from_iterable(self.tree):
            inner = self.inner[node.place]
            own_weights = {node.place: Fraction(1)}
            variance[node.place] = 2 / float(self.rates[node.place]) ** 2
            for end, share in ((node.lower, 1 - inner), (node.upper, inner)):
                for place, weight in weights[end].items():
                    own_weights[place] = own_weights.get(place, Fraction(0)) + share * weight
            weights[node.place] = own_weights
        requested_weights = (weights[self.levels.index(level)] for level in requested)
        return [math.sqrt(math.fsum(float(w) ** 2 * variance[p] for p, w in one.items())) for one in requested_weights]

    def release(self, holdings: Holdings, *, low: int, high: int, rng: Rng) -> list[list[int]]:
        """Return, for each group, the value found at each level: whole steps in [low, high], never falling."""
        answers = [
            {-1: (low, 0), len(self.levels): (high, holdings.known(group).rows * PARTS)} for group in range(self.groups)
        ]
        self._look_ahead(holdings)
        for nodes in self.tree:
            draws = [
                (g, n, self._draw(holdings, g, self._problem(answers[g], n), rng))
                for g in range(self.groups)
                for n in nodes
            ]
            for group, node, answer in _together(draws, holdings.refine):
                answers[group][node.place] = answer
        return [[by_place[place][0] for place in range(len(self.levels))] for by_place in answers]

    def describe(self) -> str:
        """Return the mechanism in words."""
        words = "exponential mechanism over ranks"
        if self.stages == 1:
            return f"{words}, {format_number(self.rate(0))} a rank"
        return f"{words}, {self.stages} stages of halving at epsilon {format_number(self.epsilon)} each"

    # ---- inside

    def _look_ahead(self, holdings: Holdings) -> None:
        """Request in one scan the counts that the draws will most likely need; this does not change the law."""
        while True:
            wanted = set()
            for group in range(self.groups):
                partition = holdings.known(group)
                segments = (partition.holding(q * partition.rows) for q in self.levels)
                wanted |= {(group, segment) for segment in segments if segment is not None}
            if not wanted:
                return
            holdings.refine(sorted(wanted))

    def _find_inner(self, node: Node) -> Fraction:
        low = self.levels[node.lower] if node.lower >= 0 else Fraction(0)
        high = self.levels[node.upper] if node.upper < len(self.levels) else Fraction(1)
        return (self.levels[node.place] - low) / (high - low)

    def _find_rate(self, inner: Fraction, together: int) -> Fraction:
        """Return what one rank costs for a level found in a stage of `together` selections."""
        most = max(inner, 1 - inner)
        # the theorem on the ends
        at_end = most == 1
        epsilon = self.epsilon * (2 if at_end else 1)
        count = self.neighbors.contributions
        if self.neighbors.relation == "add_remove":
            return epsilon / (2 * count * most)
        alone = self.groups * together == 1
        return epsilon / (2 * count * (1 if alone else 2 * most))

    def _problem(self, answers: dict[int, tuple[int, int]], node: Node) -> RankProblem:
        low, least = answers[node.lower]
        high, most = answers[node.upper]
        target = least + self.inner[node.place] * (most - least)
        finer = target.denominator
        return RankProblem(
            low,
            high,
            least * finer,
            most * finer,
            target.numerator,
            PARTS * finer,
            self.rates[node.place],
            splits=not node.last,
        )

    def _tail(self, node: Node, values: int, rows: int) -> tuple[Fraction, float]:
        """Return r and c of P(error >= t) <= exp(c - r t), outward."""
        rate = self.rates[node.place]
        if node.last:
            return rate, math.log(values) * (1 + 1e-12) + 1e-12
        return split_tail(values, rows, rate, first=node.upper - node.lower > len(self.levels))

    def _draw(self, holdings: Holdings, group: int, problem: RankProblem, rng: Rng) -> Draw:
        """Yield segments to refine until a value is drawn; return it and the rank, in parts, at which it splits the rows."""
        while True:
            partition = holdings.known(group)
            runs = pieces(partition, problem)
            run = _draw_run(runs, problem.rate / problem.parts, rng)
            candidate = run.start + (rng.below(run.size) if run.size > 1 else 0)
            value, place = divmod(candidate, problem.places)
            while (segment := _unknown(partition, value)) is not None:
                yield segment
                partition = holdings.known(group)
            least, most = _ranks(partition, value, place, problem)
            # kept with the exact ratio of its weight to the weight it was proposed with
            gap = (problem.distance(least, most) - run.distance) * problem.rate / problem.parts
            if gap == 0 or bernoulli(CertifiedProbability.exp_minus(gap), rng):
                return value, problem.clip(most) * PARTS // problem.parts


def halving_stages(count: int) -> tuple[tuple[Node, ...], ...]:
    """Return the selections that find `count` sorted levels, stage by stage: the middle first, then each side.

    >>> [[node.place for node in nodes] for nodes in halving_stages(5)]
    [[2], [1, 4], [0, 3]]
    """
    stages: list[tuple[Node, ...]] = []
    # The levels still to find, as ranges [start, end).
    spans: list[tuple[int, int]] = [(0, count)]
    while spans:
        nodes = []
        rest = []
        for start, end in spans:
            middle = (start + end) // 2
            sides = [(a, b) for a, b in ((start, middle), (middle + 1, end)) if a < b]
            nodes.append(Node(middle, start - 1, end, not sides))
            rest += sides
        stages.append(tuple(nodes))
        spans = rest
    return tuple(stages)


def _together(
    draws: list[tuple[int, Node, Draw]], refine: Callable[[Sequence[tuple[int, Segment]]], None]
) -> list[tuple[int, Node, tuple[int, int]]]:
    """Run draws side by side, so that one scan refines all segments they wait for."""
    done = []
    while draws:
        wanted = set()
        waiting = []
        for group, node, draw in draws:
            try:
                wanted.add((group, next(draw)))
                waiting.append((group, node, draw))
            except StopIteration as end:
                done.append((group, node, end.value))
        if wanted:
            refine(sorted(wanted))
        draws = waiting
    return done


def _draw_run(runs: list[Piece], rate: Fraction, rng: Rng) -> Piece:
    """Draw a run with probability proportional to size exp(-rate distance), exactly."""
    least = min(r.distance for r in runs)
    gaps = whole_numbers([r.distance - least for r in runs], "gaps")
    sizes = whole_numbers([r.size for r in runs], "sizes")
    return runs[fill_urn(gaps, rate=rate, weights=sizes).sample(rng)]


def _unknown(partition: Partition, value: int) -> Segment | None:
    """Return the segment of several values that holds this one, None where the value's own rows are known."""
    at = partition.segment(value)
    if at is None or int(partition.first[at]) == int(partition.last[at]):
        return None
    return int(partition.first[at]), int(partition.last[at])


def _ranks(partition: Partition, value: int, place: int, problem: RankProblem) -> tuple[int, int]:
    """Return the ranks, in parts, that a candidate stands for: an interval for a value, a point for a place of it."""
    at = partition.segment(value)
    if at is None:
        above = problem.rank(partition, partition.gap(value))
        return above, above
    below = problem.rank(partition, at)
    above = problem.rank(partition, at + 1)
    if not problem.splits:
        return below, above
    rank = below + (above - below) // PARTS * cut(place)
    return rank, rank
