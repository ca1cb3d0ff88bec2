"""Gradient vector: how a regression's likelihood changes with each of its coefficients, as one vector. Knows no data.

A row adds its error - prediction less y, between -1 and 1 - times its standardised columns, and a row far from all others
counts less, as among moments. Logistic and Poisson regression are fitted by a few such steps.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from sordino.ask.queries.adaptive.marginal import VectorShare, join_words
from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.keys import Keys
from sordino.ask.queries.expressions.nodes import describe, plain
from sordino.ask.queries.expressions.sql_trees import Build, greatest, least, whole
from sordino.ask.queries.moment_matrix import (
    PARTS,
    WEIGHT,
    CompiledMoments,
    Frame,
    MomentMatrix,
    MomentVector,
    ScaledNumber,
    compile_moments,
    declared_keys,
    read_by_values,
    root_up,
    round_sensitivity,
    scale_number,
    select_by_values,
    select_products,
    weighted_rows,
)
from sordino.ask.queries.queryable import Scan
from sordino.ask.queries.sensitivity_rules import count_sensitivity
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

Link = Literal["logistic", "poisson", "linear"]
# A coefficient of a standardised column is a whole number of these parts, and at most so large.
COEFFICIENT = 1 << 32
MOST_COEFFICIENT = 64
# Scores are read, and errors counted, in so many parts of 1.
ERROR = 1 << 12
# The scores between which probabilities and means are drawn as straight lines.
_LOGISTIC_KNOTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_LEAST_LOG = -8
# Slopes of expected counts are whole numbers of these parts, or those of small means would be rounded to nothing.
_FINE = 1 << 10
# Held-out rows are counted by scores in bins of a half, from -6 to 6: finer ones have more noise together.
SCORE_BINS = 24
SCORE_BIN = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class SteppedRegression:
    """Ask for a regression of `target` on numbers and categories, fitted by a few steps along noisy gradients.

    `link` "logistic" is of a column of two declared values, "poisson" of a number of 0 or more, "linear" of any number. With
    `folds` of 2 or more the units whose public hash falls into the first fold are left out of the fit; they are counted by score
    and class. With `weight`, a number of 0 or more with an upper declared bound, a row counts by it, as a part of that bound.
    """

    target: Grouping
    link: Link
    numbers: tuple[Grouping, ...]
    categories: tuple[Grouping, ...] = ()
    folds: int = 1
    weight: Grouping | None = None

    # The feature that plans the algorithm which answers such questions.
    algorithm: ClassVar[str] = "prepare_steps"

    def describe(self) -> str:
        """Return the question as a sentence."""
        names = [describe(column.of) for column in (*self.numbers, *self.categories)]
        apart = "" if self.folds == 1 else f", scored on one unit of {self.folds}, by a public hash"
        by = "" if self.weight is None else f", weighted by {describe(self.weight.of)}"
        return f"a {self.link} regression of {describe(self.target.of)} on {join_words(names)}{by}{apart}"

    def identity(self) -> str:
        """Return canonical text: equal for equal questions."""
        data: dict[str, Any] = {
            "regression": self.link,
            "target": [self.target.alias, plain(self.target.of)],
            "numbers": [[n.alias, plain(n.of)] for n in self.numbers],
            "categories": [[c.alias, plain(c.of)] for c in self.categories],
            "folds": self.folds,
        }
        if self.weight is not None:
            data["weight"] = [self.weight.alias, plain(self.weight.of)]
        return json.dumps(data, sort_keys=True, separators=(",", ":"))

    @property
    def moments(self) -> MomentMatrix:
        """The question of the moments that the fit starts from: those of the target too."""
        if self.link == "logistic":
            return MomentMatrix(self.numbers, (*self.categories, self.target), self.folds, self.weight)
        return MomentMatrix((*self.numbers, self.target), self.categories, self.folds, self.weight)


def check_steps(question: SteppedRegression) -> SteppedRegression:
    """Return the question; raises QuestionRefused for a link that is none, or for held-out units of counts."""
    if question.link not in get_args(Link):
        raise QuestionRefused("a regression by steps is logistic, poisson or linear")
    if not question.numbers and not question.categories:
        raise QuestionRefused("a regression is on one column or more: name what y is predicted from")
    if question.link != "logistic" and question.folds != 1:
        raise QuestionRefused(f"held-out units are scored by classes: leave folds out of a {question.link} regression")
    return question


@dataclass(frozen=True)
class CompiledSteps:
    """A regression over a domain: its columns without the target, and the target as two classes or as a number."""

    question: SteppedRegression
    columns: CompiledMoments
    target: Keys | ScaledNumber

    @property
    def cells(self) -> int:
        """The number of coefficients: 1, the numbers, and the values of the categories."""
        return self.columns.features

    @property
    def least_limit(self) -> Fraction:
        """The limit that a row at all centers reaches."""
        return self.columns.least_limit

    @property
    def classes(self) -> tuple[Any, ...]:
        """The two classes of the target, in declared order; none of a count."""
        return self.target.labels if isinstance(self.target, Keys) else ()

    @property
    def nonzero(self) -> int:
        """How many coefficients one row has a part in."""
        return 1 + len(self.columns.numbers) + len(self.columns.categories)


def compile_steps(question: SteppedRegression, domain: Domain) -> CompiledSteps:
    """Return what a regression is over a domain.

    Raises QuestionRefused for a target that is not of two declared values, or no number of 0 or more, and as moments do.
    """
    check_steps(question)
    whole_question = compile_moments(question.moments, domain)
    columns = compile_moments(
        MomentMatrix(question.numbers, question.categories, question.folds, question.weight), domain
    )
    columns = replace(columns, droppable=whole_question.droppable)
    if question.link == "logistic":
        classes = declared_keys(question.target, domain)
        if len(classes.labels) != 2:
            raise QuestionRefused(
                f"{question.target.alias} has {len(classes.labels)} declared values: a logistic regression by steps is of two"
            )
        return CompiledSteps(question, columns, classes)
    number = scale_number(question.target, domain)
    if question.link == "poisson" and number.low < 0:
        raise QuestionRefused(
            f"{question.target.alias} is declared with values below 0: a poisson regression is of counts, of 0 or more"
        )
    return CompiledSteps(question, columns, number)


@dataclass(frozen=True, slots=True)
class GradientVector:
    """The gradient of a regression at some coefficients: one noisy vector, in rows.

    `coefficients` are those of 1, the standardised numbers and the indicators of all declared values, in parts; `most_error` is
    the error of a number, in its steps, that counts as 1: larger ones are cut there. With the link "linear" a prediction is
    `center`, a step of the target, and the score in such errors. Errors of classes are cut at `cut` parts of 1.
    """

    question: SteppedRegression
    frame: Frame
    coefficients: tuple[int, ...]
    most_error: int = 1
    center: int = 0
    cut: int = ERROR

    @property
    def unit(self) -> Fraction:
        """One part of a row."""
        return Fraction(1, PARTS)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the one vector, which gets the whole loss."""
        compiled = compile_steps(self.question, domain)
        self.check(compiled)
        enforced = neighbors.enforce(None, by_group=False)
        return [(gradient_sensitivity(compiled, self.frame, enforced, Fraction(self.cut, ERROR)), Fraction(1))]

    def check(self, compiled: CompiledSteps) -> None:
        """Raise QuestionRefused for coefficients or cuts that a regression does not have."""
        compiled.columns.check_frame(self.frame)
        most = MOST_COEFFICIENT * COEFFICIENT
        if len(self.coefficients) != compiled.cells or any(abs(c) > most for c in self.coefficients):
            raise QuestionRefused(f"a regression has {compiled.cells} coefficients of at most {MOST_COEFFICIENT} each")
        if not 1 <= self.most_error <= 1 << 22:
            raise QuestionRefused("an error of a number is cut at 1 to 2^22 steps")
        if self.cut != ERROR and not (isinstance(compiled.target, Keys) and 1 <= self.cut < ERROR):
            raise QuestionRefused("errors of classes are cut at a part of 1, those of numbers by their steps")
        if isinstance(compiled.target, ScaledNumber) and abs(self.center) > compiled.target.width:
            raise QuestionRefused("a center lies within the declared bounds")

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["gradient"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return self.question.describe()

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one SELECT."""
        compiled = compile_steps(self.question, domain)
        text = f"gradient {self.question.identity()} in {self.frame} at {self.coefficients} {self.most_error} {self.center}"
        # The text of an uncut gradient is as it was.
        text += "" if self.cut == ERROR else f" {self.cut}"
        return [Scan(text, functools.partial(_select_gradient, compiled, self))]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact gradient, rounded down to whole parts; only the curator calls it."""
        compiled = compile_steps(self.question, domain)
        groups = _value_groups(compiled.columns)
        fitted = compiled.columns.halves - 1
        by_values = read_by_values(compiled.columns, tables[0], groups)
        exact_total = by_values.get((fitted, ()), {}).get(0, {})
        scale = WEIGHT * ERROR
        exact_gradient = [int(exact_total.get("t0") or 0) * PARTS // scale]
        for i, number_scale in enumerate(self.frame.scales):
            exact_gradient.append(int(exact_total.get(f"s{i}") or 0) * PARTS // (scale * number_scale))
        for category, declared in enumerate(compiled.columns.categories):
            by_cell = by_values.get((fitted, (category,)), {})
            exact_errors = [int(by_cell.get(cell, {}).get("t0") or 0) for cell in range(len(declared.labels))]
            exact_gradient += [exact_error * PARTS // scale for exact_error in exact_errors]
        return [exact_gradient]


def gradient_sensitivity(
    compiled: CompiledSteps, frame: Frame, neighbors: Neighbors, cut: Fraction = Fraction(1)
) -> Sensitivity:
    """Return how far one unit moves a gradient, in parts of a row.

    Theorem. With p numbers, c categories, R the limit and errors cut at e, a unit of C rows moves the gradient by at most
    C e sqrt(R) in l2 and C e sqrt(R (1 + p + c)) in l1 under add_remove, and by twice that under replace; rounding adds less
    than one part to each cell that moves. Proof. A row adds w r z with |r| <= e and w = min(u, R / |z|^2) for its own weight u
    in [0, 1], so w^2 |z|^2 <= w |z|^2 <= R; at most 1 + p + c of the z_i are not 0, so its l1 norm is at most the root of that
    many times its l2 norm. The engine rounds |z|^2 up and w down, and r is cut to [-e, e] whatever the score, so both hold
    there. Norms are convex, so C rows move C times as far. Coefficients and e are public, as they follow from earlier answers.
    """
    rows = neighbors.contributions * (2 if neighbors.relation == "replace" else 1)
    precision = 1 << 40
    l1 = cut * Fraction(root_up(frame.limit * compiled.nonzero * precision), 1 << 20)
    l2_squared = (rows * cut) ** 2 * frame.limit
    touched = min(rows * compiled.nonzero, compiled.cells)
    linf = rows * cut * Fraction(root_up(frame.limit * precision), 1 << 20)
    return round_sensitivity(neighbors, touched=touched, l1=rows * l1, l2_squared=l2_squared, linf=linf)


@dataclass(frozen=True, slots=True)
class CurvatureMatrix:
    """How the gradient of a logistic or Poisson regression changes with its coefficients: moments of rows that count by v.

    v is 4 p (1 - p) of a class of probability p, and of counts the mean in errors of 1, at most 1, and 0 where the error is cut.
    So a quarter of the moments of classes, or those of counts, are the change of the gradient.

    Theorem. One unit moves it by no more than a `MomentVector` in the same frame. Proof. A row counts w v in place of w, and
    0 <= v <= 1, so w v |z|^2 <= R: nothing else of w is used there. v follows from public coefficients and the row alone.
    """

    question: SteppedRegression
    frame: Frame
    coefficients: tuple[int, ...]
    most_error: int = 1

    @property
    def unit(self) -> Fraction:
        """One part of a row."""
        return Fraction(1, PARTS)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the one vector, which gets the whole loss."""
        compiled = compile_steps(self.question, domain)
        if self.question.link == "linear":
            raise QuestionRefused("the curvature of a linear regression is that of its moments")
        GradientVector(self.question, self.frame, self.coefficients, self.most_error).check(compiled)
        return [(compiled.columns.sensitivity(self.frame, neighbors.enforce(None, by_group=False)), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["curvature"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"the curvature of {self.question.describe()}"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the SELECTs: of the numbers, and, where there are categories, of what is counted by them."""
        compiled = compile_steps(self.question, domain)
        text = f"{self.question.identity()} in {self.frame} at {self.coefficients} {self.most_error}"

        def select(of: Any, on: Primitives) -> exp.Select:
            tree: exp.Select = of(compiled.columns, _curved_rows(compiled, self, on))
            return tree

        products = functools.partial(select_products, frame=self.frame)
        scans = [Scan(f"curvature {text}", functools.partial(select, products))]
        if compiled.columns.categories:
            scans.append(Scan(f"curvature by values {text}", functools.partial(select, select_by_values)))
        return scans

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact moments, each rounded down to whole parts; only the curator calls it."""
        columns = compile_steps(self.question, domain).columns
        return MomentVector(columns.question, self.frame).exact_vectors(tables, domain)


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """The held-out rows by class and by score at some coefficients: a row adds 1, or its weight, to one cell alone."""

    question: SteppedRegression
    frame: Frame
    coefficients: tuple[int, ...]

    @property
    def unit(self) -> Fraction:
        """One row, or one part of its weight."""
        return Fraction(1) if self.question.weight is None else Fraction(1, WEIGHT)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity of the counts, which get the whole loss: a weight is 1 at most."""
        compile_steps(self.question, domain)
        enforced = neighbors.enforce(None, by_group=False)
        moved = count_sensitivity(enforced, cells=2 * SCORE_BINS, droppable=True)
        return [(moved.rescale(1 / self.unit), Fraction(1))]

    def names(self) -> list[str]:
        """Return the name of the vector."""
        return ["scores"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"the held-out rows by class and score, of {self.question.describe()}"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the one SELECT."""
        compiled = compile_steps(self.question, domain)
        text = f"scores {self.question.identity()} in {self.frame} at {self.coefficients}"
        return [Scan(text, functools.partial(_select_scores, compiled, self))]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[list[int]]:
        """Return the exact counts, class by class; only the curator calls it."""
        del domain
        exact_counts = [0] * (2 * SCORE_BINS)
        for row in tables[0].to_pylist():
            exact_counts[int(row["c"]) * SCORE_BINS + int(row["bin"])] += int(row["t0"])
        return [exact_counts]


# ---- The SQL of its scans


def _column(name: str) -> Any:
    from sqlglot import exp

    return exp.column(name)


def _value_groups(columns: CompiledMoments) -> list[tuple[int, ...]]:
    """Return what errors are added up by: all rows, and each category by itself."""
    return [(), *((c,) for c in range(len(columns.categories)))]


def _scored_rows(
    compiled: CompiledSteps, frame: Frame, coefficients: Sequence[int], on: Primitives, beside: Sequence[Build] = ()
) -> exp.Subquery:
    """Return the weighted rows with the target b0, what is read beside it as b1.., and the score s, in parts of a coefficient.

    A coefficient is at most 2^38 parts, and a number at most 2^11 scales, so that scores of 200 columns stay within 2^57.
    """
    from sqlglot import exp

    target = compiled.target
    build = target.row_code if isinstance(target, Keys) else target.build
    rows = weighted_rows(compiled.columns, frame, on, [build, *beside])
    count = len(compiled.columns.numbers)
    score: Any = whole(coefficients[0])
    for i, scale in enumerate(frame.scales):
        slope = round(Fraction(coefficients[1 + i], scale))
        score = exp.Add(this=score, expression=exp.Paren(this=exp.Mul(this=_column(f"z{i}"), expression=whole(slope))))
    at = 1 + count
    for i, declared in enumerate(compiled.columns.categories):
        values = coefficients[at : at + len(declared.labels)]
        at += len(declared.labels)
        whens = [
            exp.If(this=exp.EQ(this=_column(f"k{i}"), expression=whole(code)), true=whole(value))
            for code, value in enumerate(values)
        ]
        score = exp.Add(this=score, expression=exp.Paren(this=exp.Case(ifs=whens, default=whole(0))))
    names = ["fold", "w", *(f"z{i}" for i in range(count)), *(f"k{i}" for i in range(len(compiled.columns.categories)))]
    names += [f"b{i}" for i in range(1 + len(beside))]
    scored = [*map(_column, names), exp.alias_(exp.paren(score), "s", copy=False)]
    return exp.Select(expressions=scored).from_(rows, copy=False).subquery("sordino_scored", copy=False)


def _select_gradient(compiled: CompiledSteps, vector: GradientVector, on: Primitives) -> exp.Select:
    """Return the weighted errors, and errors times numbers, of all rows and by values: fold, k0.., `left_out`, t0, s0.."""
    from sqlglot import exp

    rows = _scored_rows(compiled, vector.frame, vector.coefficients, on)
    if isinstance(compiled.target, Keys):
        error = _logistic_error(vector.cut)
    elif compiled.question.link == "linear":
        error = _linear_error(vector.most_error, vector.center)
    else:
        error = _count_error(compiled.target, vector.most_error)
    count = len(compiled.columns.numbers)
    keys = [f"k{i}" for i in range(len(compiled.columns.categories))]
    names = ["fold", "w", *(f"z{i}" for i in range(count)), *keys]
    # A score is read once, and each line between knots is of what was read.
    read = [*map(_column, (*names, "b0", "s")), exp.alias_(_read_score(compiled), "t", copy=False)]
    rows = exp.Select(expressions=read).from_(rows, copy=False).subquery("sordino_read", copy=False)
    wrong = exp.Select(expressions=[*map(_column, names), exp.alias_(exp.Paren(this=error), "r", copy=False)]).from_(
        rows, copy=False
    )
    weighted = exp.Mul(this=_column("w"), expression=_column("r"))
    # Not `total`, which names steps of the rows: these have been selected.
    totals = [exp.alias_(exp.Sum(this=weighted.copy()), "t0", copy=False)]
    for i in range(count):
        product = exp.Mul(this=weighted.copy(), expression=_column(f"z{i}"))
        totals.append(exp.alias_(exp.Sum(this=product), f"s{i}", copy=False))
    outer: list[Any] = [_column("fold"), *map(_column, keys)]
    left_out: Any = whole(0)
    if keys:
        left_out = exp.Anonymous(this="GROUPING", expressions=list(map(_column, ("fold", *keys))))
    outer += [exp.alias_(left_out, "left_out", copy=False), *totals]
    select: exp.Select = exp.Select(expressions=outer).from_(wrong.subquery("sordino_errors", copy=False), copy=False)
    if not keys:
        return select.group_by(_column("fold"), copy=False)
    sets = [
        exp.Tuple(expressions=[_column("fold"), *(_column(keys[i]) for i in group)])
        for group in _value_groups(compiled.columns)
    ]
    select.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
    return select


def _read_score(compiled: CompiledSteps) -> exp.Expression:
    """Return the score in parts: of classes without its sign, up to 16; of counts from the least log that is told apart."""
    from sqlglot import exp

    target = compiled.target
    if compiled.question.link == "linear":
        most = whole(MOST_COEFFICIENT * ERROR)
        parts = exp.Paren(this=exp.IntDiv(this=_column("s"), expression=whole(COEFFICIENT // ERROR)))
        lowest = whole(-MOST_COEFFICIENT * ERROR)
        return least(greatest(parts, lowest), most)
    if isinstance(target, Keys):
        size = exp.IntDiv(this=exp.Abs(this=_column("s")), expression=whole(COEFFICIENT // ERROR))
        return least(exp.Paren(this=size), whole(16 * ERROR))
    lowest = whole(_LEAST_LOG * COEFFICIENT)
    held = least(greatest(_column("s"), lowest), whole(_highest_log(target) * COEFFICIENT))
    above = exp.Paren(this=exp.Sub(this=held, expression=whole(_LEAST_LOG * COEFFICIENT)))
    return exp.Paren(this=exp.IntDiv(this=above, expression=whole(COEFFICIENT // ERROR)))


def _highest_log(target: ScaledNumber) -> int:
    """Return a whole number above the log of the declared upper bound, beyond which no count lies."""
    return math.ceil(math.log(max(target.middle + target.step * target.width, 1.0)))


def _curved_rows(compiled: CompiledSteps, matrix: CurvatureMatrix, on: Primitives) -> exp.Subquery:
    """Return the rows with w v for w, as the moments read them."""
    from sqlglot import exp

    names = ["fold", *(f"z{i}" for i in range(len(compiled.columns.numbers)))]
    names += [f"k{i}" for i in range(len(compiled.columns.categories))]
    scored = _scored_rows(compiled, matrix.frame, matrix.coefficients, on)
    read = [*map(_column, (*names, "w", "b0", "s")), exp.alias_(_read_score(compiled), "t", copy=False)]
    rows = exp.Select(expressions=read).from_(scored, copy=False).subquery("sordino_read", copy=False)
    size: Any
    if isinstance(compiled.target, Keys):
        size = _likelier_probability()
        error: Any = whole(0)
    else:
        size = exp.Paren(
            this=exp.IntDiv(this=exp.Paren(this=_mean_count(compiled.target)), expression=whole(matrix.most_error))
        )
        error = _count_error(compiled.target, matrix.most_error)
    parts = [
        *map(_column, (*names, "w")),
        exp.alias_(size, "p", copy=False),
        exp.alias_(exp.Paren(this=error), "r", copy=False),
    ]
    rows = exp.Select(expressions=parts).from_(rows, copy=False).subquery("sordino_sizes", copy=False)
    if isinstance(compiled.target, Keys):
        less = exp.Paren(this=exp.Sub(this=whole(ERROR), expression=_column("p")))
        product = exp.Mul(this=exp.Mul(this=_column("p"), expression=less), expression=whole(4))
        v: Any = exp.IntDiv(this=exp.Paren(this=product), expression=whole(ERROR))
    else:
        uncut = exp.and_(
            exp.LT(this=_column("r"), expression=whole(ERROR)),
            exp.GT(this=_column("r"), expression=whole(-ERROR)),
            copy=False,
        )
        v = exp.Case(ifs=[exp.If(this=uncut, true=least(_column("p"), whole(ERROR)))], default=whole(0))
    weight = exp.IntDiv(
        this=exp.Paren(this=exp.Mul(this=_column("w"), expression=exp.Paren(this=v))), expression=whole(ERROR)
    )
    columns = [*map(_column, names), exp.alias_(exp.Paren(this=weight), "w", copy=False)]
    return exp.Select(expressions=columns).from_(rows, copy=False).subquery("sordino_curved", copy=False)


def _likelier_probability() -> exp.Expression:
    """Return the probability of the likelier class, in parts, from the size t of the score.

    It is concave in the score, so straight lines between knots are the least of all lines.
    """
    from sqlglot import exp

    lines = []
    for low, high in itertools.pairwise(_LOGISTIC_KNOTS):
        start = 1 / (1 + math.exp(-low))
        slope = (1 / (1 + math.exp(-high)) - start) / (high - low)
        # A chord lies below: it is raised by what it misses in the mean, log((1 + e^high) / (1 + e^low)) being the integral.
        integral = math.log1p(math.exp(high)) - math.log1p(math.exp(low))
        start += integral / (high - low) - (start + slope * (high - low) / 2)
        rise = exp.Mul(this=_column("t"), expression=whole(round(slope * ERROR)))
        line = exp.Add(this=whole(round((start - slope * low) * ERROR) * ERROR), expression=rise)
        lines.append(exp.IntDiv(this=exp.Paren(this=line), expression=whole(ERROR)))
    return least(whole(ERROR), *lines)


def _logistic_error(cut: int) -> exp.Expression:
    """Return the probability of the second class less whether the row is of it, in parts, cut at `cut`, from the score s."""
    from sqlglot import exp

    likely = _likelier_probability()
    unlikely = exp.Sub(this=whole(ERROR), expression=likely.copy())
    above = exp.GTE(this=_column("s"), expression=whole(0))
    probability = exp.Paren(this=exp.Case(ifs=[exp.If(this=above, true=likely)], default=unlikely))
    in_class = exp.Paren(
        this=exp.Case(
            ifs=[exp.If(this=exp.EQ(this=_column("b0"), expression=whole(1)), true=whole(ERROR))], default=whole(0)
        )
    )
    error = exp.Sub(this=probability, expression=in_class)
    if cut == ERROR:
        return error
    return least(greatest(error, whole(-cut)), whole(cut))


def _mean_count(target: ScaledNumber) -> exp.Expression:
    """Return the expected count, in parts of a step, from the score t.

    The exponential is convex, so straight lines between knots are the largest of all lines. A score counts up to the
    log of the declared upper bound, beyond which no count lies.
    """
    from sqlglot import exp

    lines: list[Any] = []
    for quarter in range(4 * (_highest_log(target) - _LEAST_LOG)):
        low = quarter / 4
        start = math.exp(_LEAST_LOG + low) / target.step
        slope = 4 * start * (math.exp(0.25) - 1)
        # A chord lies above: it is lowered by what it adds in the mean, slope being the mean of the exponential there.
        start += slope - (start + slope / 8)
        rise = exp.Mul(this=_column("t"), expression=whole(round(slope * _FINE)))
        lines.append(exp.Paren(this=exp.Add(this=whole(round((start - slope * low) * ERROR * _FINE)), expression=rise)))
    # The mean and the count, both in parts of a step.
    highest = greatest(whole(0), *lines)
    return exp.Paren(this=exp.IntDiv(this=highest, expression=whole(_FINE)))


def _count_error(target: ScaledNumber, most_error: int) -> exp.Expression:
    """Return the expected count less the count, cut at `most_error` steps, in parts of that, from the score t."""
    from sqlglot import exp

    mean = _mean_count(target)
    count = exp.Add(this=_column("b0"), expression=whole(round(target.middle / target.step)))
    return _cut_error(
        exp.Sub(this=mean, expression=exp.Paren(this=exp.Mul(this=exp.Paren(this=count), expression=whole(ERROR)))),
        most_error,
    )


def _linear_error(most_error: int, center: int) -> exp.Expression:
    """Return the prediction less the number, cut at `most_error` steps, in parts of that, from the score t in such parts."""
    from sqlglot import exp

    predicted = exp.Mul(this=_column("t"), expression=whole(most_error))
    number = exp.Paren(this=exp.Sub(this=_column("b0"), expression=whole(center)))
    return _cut_error(
        exp.Sub(this=predicted, expression=exp.Paren(this=exp.Mul(this=number, expression=whole(ERROR)))), most_error
    )


def _cut_error(error: exp.Expression, most_error: int) -> exp.Expression:
    """Return an error in parts of a step, cut at `most_error` steps, in parts of that, rounded down."""
    from sqlglot import exp

    most = whole(most_error * ERROR)
    cut = least(greatest(error, whole(-most_error * ERROR)), most)
    shifted = exp.Paren(this=exp.Add(this=cut, expression=most.copy()))
    return exp.Sub(this=exp.Paren(this=exp.IntDiv(this=shifted, expression=whole(most_error))), expression=whole(ERROR))


def _select_scores(compiled: CompiledSteps, counts: ScoreCounts, on: Primitives) -> exp.Select:
    """Return the held-out rows by class c and score bin: c, bin, t0."""
    from sqlglot import exp

    weight = compiled.columns.weight
    # Not the weight of the fit, in which a row far from all others counts less.
    rows = _scored_rows(compiled, counts.frame, counts.coefficients, on, [] if weight is None else [weight.build])
    width = int(COEFFICIENT * SCORE_BIN)
    half = width * SCORE_BINS // 2
    held = least(greatest(_column("s"), whole(-half)), whole(half - 1))
    place = exp.IntDiv(this=exp.Paren(this=exp.Add(this=held, expression=whole(half))), expression=whole(width))
    cells = [exp.alias_(_column("b0"), "c", copy=False), exp.alias_(exp.Paren(this=place), "bin", copy=False)]
    cells += [] if weight is None else [exp.alias_(_column("b1"), "u", copy=False)]
    coded = exp.Select(expressions=cells).from_(rows, copy=False)
    coded = coded.where(exp.EQ(this=_column("fold"), expression=whole(0)), copy=False)
    total = exp.Count(this=exp.Star()) if weight is None else exp.Sum(this=_column("u"))
    outer = [_column("c"), _column("bin"), exp.alias_(total, "t0", copy=False)]
    select: exp.Select = exp.Select(expressions=outer).from_(coded.subquery("sordino_codes", copy=False), copy=False)
    return select.group_by(_column("c"), _column("bin"), copy=False)
