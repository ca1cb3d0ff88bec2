"""Theil-Sen regression on one number: medians of what many small buckets' lines say, so that outliers hardly move it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, Unpack, get_args

import numpy as np

from sordino.ask.queries.aggregates.quantile import median, quantiles
from sordino.ask.queries.bucket_lines import LEFT, RIGHT, BucketLines, line_parts
from sordino.ask.queries.build import as_aggregation, count, count_distinct
from sordino.ask.queries.expressions.expr import col
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.moment_matrix import ScaledNumber
from sordino.ask.queries.queryable import Adaptive, Queryable, ReleaseContent
from sordino.core.accounting.concentration import bounded_range_epsilon_for
from sordino.core.accounting.zcdp import rho_for
from sordino.core.domain import Boolean, Category
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, nearest
from sordino.core.estimates.choices import Ranks
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.loss import ApproxDP, LossArguments, read_loss, show_arguments
from sordino.models.columns import (
    Floats,
    Predictors,
    check_folds,
    check_rows,
    domain_of,
    note_rows,
    read_predictors,
    require_column,
    require_range,
)
from sordino.models.held_out import HeldOut
from sordino.models.linear import linear_sql
from sordino.models.moments import take_share
from sordino.models.record import PricedModel, Provenance, provenance_of, require_fit
from sordino.models.validation import fit_validated

Of = Literal["noise", "population"]
# Rows of a bucket in the mean, or those of one unit where it has more. Of 2 to 6, 3 had about the least error in simulations of
# normal, heavy-tailed and contaminated errors: lines of fewer rows vary more, and of more rows there are fewer lines, with an
# outlier in more of them.
_SIZE = 3
# More hashings make the medians vary less as a sample, and leave their noise as it is; few gain anything beyond ten. Of many
# units there are fewer, so that an engine groups no more than so many rows.
_HASHINGS = 10
_MOST_ROWS = 3_000_000
# The variance of a coefficient as a sample, by hashings h, is this and that over h of what the medians of one hashing would have
# if their errors added up: several hashings are of the same rows. In simulations of 7 laws of errors and 4 of x, of 300 rows
# and most of 3,000, the deviation so stated was 1.06 to 1.8 times that of slopes at ten hashings, 1.15 to 1.7 at one, and
# .94 to 1.9 times that of intercepts.
_ALL_HASHINGS = 0.2
_ONE_HASHING = 0.3
# The shares of the loss: how many rows and units there are, where the middle half of x lies, the medians, how far the lines are
# from them, and how many lines there are.
_COUNTS = Fraction(3, 100)
_PLACES = Fraction(12, 100)
_MEDIANS = Fraction(62, 100)
_SPREAD = Fraction(20, 100)
_LINES = Fraction(3, 100)
# Beyond this share of the lines the noise of a rank may leave the middle half, whose density is known.
_FAR = 0.25
# Places that coincide are moved apart by this part of the declared range.
_APART = 16


@dataclass(frozen=True, repr=False)
class TheilSenModel(PricedModel):
    """A line: `coefficients` has the slope by the name of the column, in the columns' own units, and `intercept`.

    `places` are where the lines of the buckets were read, `medians` what they say there in the middle. `noise` is the
    deviation of a median by the noise and `sample` by the rows as a sample, -1 where the noise hides it.
    """

    y: str
    predictors: Predictors
    places: Floats
    medians: Floats
    noise: float
    sample: float
    lines: float
    provenance: Provenance
    held_out: HeldOut | None = None

    @property
    def name(self) -> str:
        """The name of the column that y is predicted from."""
        return self.predictors.declared[0][0]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coefficients: one."""
        return (self.name,)

    @property
    def undetermined(self) -> tuple[str, ...]:
        """The coefficients that the noise hides."""
        return (self.name, "intercept") if self.noise < 0 else ()

    @property
    def slope(self) -> float:
        """By how much y rises with one unit of the column."""
        return float((self.medians[1] - self.medians[0]) / (self.places[1] - self.places[0]))

    @property
    def intercept(self) -> float:
        """The prediction where the column is 0."""
        return float(self.medians[0]) - self.slope * float(self.places[0])

    @property
    def coefficients(self) -> Mapping[str, float]:
        """The slope, by the name of the column."""
        return {self.name: self.slope}

    def interval(self, name: str, *, confidence: float = 0.95, of: Of = "noise") -> tuple[float, float]:
        """Return the interval of the slope, by the column's name, or of the "intercept".

        `of="noise"`: of what the same medians without noise would give in this very table; `of="population"` adds what they
        vary by as the rows are a sample, as simulations of many laws bound it. Both are by the density of the lines
        around their medians, as it follows from the noisy median of their distance. (-inf, inf) where there are too few lines
        for the noise. Raises UnknownName for another name, DeclarationError for another kind.
        """
        weights = {self.name: np.array([-1.0, 1.0]), "intercept": np.array([self.places[1], -self.places[0]])}
        if name not in weights:
            raise UnknownName(f"no coefficient is named {name!r:.60}; {nearest(str(name), weights)}")
        if of not in get_args(Of):
            raise DeclarationError(f'is "noise" or "population", not {of!r:.40}', key="of")
        if not isinstance(confidence, (int, float)) or isinstance(confidence, bool) or not 0 < confidence < 1:
            raise DeclarationError("must lie between 0 and 1", key="confidence")
        if self.noise < 0:
            return -math.inf, math.inf
        value = self.slope if name == self.name else self.intercept
        by = weights[name] / (self.places[1] - self.places[0])
        # The rank of a median errs by Laplace noise: a sum of two such has no heavier tails than one of the same variance.
        margin = -math.log(1 - confidence) / math.sqrt(2) * self.noise * float(np.sqrt(by @ by))
        if of == "population":
            # Both medians are of the same lines, so their errors add up at worst.
            margin = math.hypot(margin, normal_quantile(confidence) * self.sample * float(np.abs(by).sum()))
        return value - margin, value + margin

    def predict(self, frame: Any) -> Floats:
        """Return the prediction for each row of a frame: (rows,), in the unit of y; nan where the column is missing.

        Cells are clipped to their declared bounds, as the table's were; other columns are ignored.
        """
        return self.predictors.scores_of(frame, np.array([self.slope]), self.intercept)

    def to_sql(self) -> str:
        """Return the prediction as an expression of SQL, over a column of the same name."""
        return linear_sql(self.predictors, np.array([self.slope]), self.intercept)

    def facts(self) -> dict[str, str]:
        """Return what is predicted, from what, and the slope with its interval."""
        low, high = self.interval(self.name)
        facts = {
            "predicts": self.y,
            "from": self.name,
            "lines of buckets": f"about {self.lines:,.0f}",
            f"coefficient of {self.name}": f"{self.slope:.4g} ({low:.4g} to {high:.4g} at 95%, of the noise)",
            "intercept": f"{self.intercept:.4g}",
        }
        return facts | ({} if self.held_out is None else self.held_out.facts())

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""
        require_fit(len(self.places) == len(self.medians) == 2 and self.places[0] < self.places[1])
        require_fit(len(self.predictors.numbers) == 1 and not self.predictors.categories)

    def describe(self) -> str:
        """Return the model in a few words."""
        return f"Theil-Sen regression of {self.y} on {self.name}"


@show_arguments(LossArguments)
def theil_sen(
    table: Adaptive,
    *,
    y: str,
    x: Sequence[str],
    validate: int | None = None,
    assume_rows: int | None = None,
    **loss: Unpack[LossArguments],
) -> TheilSenModel:
    """Return the Theil-Sen regression of the number `y` on the one number that `x` names, with one charge.

    Units fall into buckets of about three rows by a public hash, ten times, or fewer of many rows. The line of each bucket is
    read at the quartiles of x, which are found first, and the median of what all lines say at each is the model's line
    there. So a tenth of outliers, or errors without a variance, hardly move it. With a delta too it draws by epsilon alone
    where that has the smaller error, and spends no delta. `validate=4` leaves one unit in four out, and scores the model on
    them for 15% of the loss.

    Raises UnknownName, QuestionRefused or DeclarationError before anything is spent; BudgetExhausted, ChargedError as ask.
    (DPTheilSen: Alabi, McMillan, Sarathy, Smith, Vadhan 2022, "Differentially private simple linear regression", section 4.3,
    which matches the rows of a table in pairs; Theil 1950, Sen 1968.)
    """
    predictors = check_line(table, y=y, x=x, assume_rows=assume_rows)
    check_folds(validate)
    if validate is not None:
        arguments: dict[str, Any] = {"y": y, "x": x, "assume_rows": assume_rows}
        validated: TheilSenModel = fit_validated(theil_sen, table, validate, loss, **arguments)
        return validated
    name = predictors.declared[0][0]
    fit, release = table.adapt(
        lambda data: _fit_medians(data, name, y),
        describe=f"a Theil-Sen regression of {y} on {name}",
        record=_record,
        **_spent_loss(loss),
    )
    notes = [
        f"rows fall into about {fit.step.buckets:,} buckets by a public hash, {fit.step.hashings} times; the medians are of the "
        "lines of all buckets"
    ]
    notes += note_rows(fit.rows, 2)
    if fit.noise < 0:
        notes.append(
            f"there are about {max(fit.lines, 0):,.0f} lines, too few for this noise: the line may be anything"
        )
    return TheilSenModel(
        y,
        predictors,
        np.array(fit.places),
        np.array(fit.medians),
        fit.noise,
        fit.sample,
        fit.lines,
        provenance_of(release, tuple(notes)),
    )


def check_line(table: Any, *, y: Any, x: Any, assume_rows: int | None) -> Predictors:
    """Return the one column that y is predicted from; raises what `theil_sen` raises before a charge."""
    domain = domain_of(table)
    if isinstance(require_column(domain, y, "y"), (Category, Boolean)):
        raise QuestionRefused(
            f"y is {y!r}, which is no number: sd.models.logistic_regression predicts categories and booleans"
        )
    predictors = read_predictors(domain, x, without=y)
    if len(predictors.terms) != 1 or len(predictors.numbers) != 1 or not isinstance(predictors.numbers[0], str):
        raise QuestionRefused(
            "a Theil-Sen regression is on one column that is a number, such as x=['age']: sd.models.linear_regression takes "
            "several, categories and products"
        )
    for name in (y, predictors.numbers[0]):
        require_range(name, domain[name])
    check_rows(assume_rows, 2)
    # What the lines refuse is refused here.
    BucketLines(Name(predictors.numbers[0]), Name(y), 1, 1, 0, 1).domain(domain)
    return predictors


def _spent_loss(loss: LossArguments) -> LossArguments:
    """Return the loss that is charged: without its delta where medians by epsilon alone err less than by the rho of both."""
    asked = read_loss(**loss)
    if not isinstance(asked, ApproxDP) or asked.delta == 0:
        return loss
    rho = rho_for(asked.epsilon, asked.delta)
    if bounded_range_epsilon_for(rho * _MEDIANS / 2) > asked.epsilon * _MEDIANS / 2:
        return loss
    return LossArguments(epsilon=asked.epsilon)


# ---- Fitting: it sees a Queryable alone


@dataclass(frozen=True, slots=True)
class _Fit:
    """What was released, in own units, and the step whose lines the medians are of."""

    step: BucketLines
    places: tuple[float, float]
    medians: tuple[float, float]
    noise: float
    sample: float
    lines: float
    rows: float


def _record(fit: _Fit) -> ReleaseContent:
    """Return what the ledger keeps: the line by its two points, and where they follow from."""
    names = ("left place", "right place", "median at the left place", "median at the right place")
    chosen = [(name, Fraction(value)) for name, value in zip(names, (*fit.places, *fit.medians), strict=True)]
    chosen += [("buckets", Fraction(fit.step.buckets)), ("hashings", Fraction(fit.step.hashings))]
    return ReleaseContent(chosen=tuple(chosen))


def _fit_medians(data: Queryable, x: str, y: str) -> _Fit:
    """Ask how many rows there are and where x lies, then for the medians of the lines, and how far lines are from them."""

    def ask(question: Any, share: Fraction, step: BucketLines | None = None) -> list[Any]:
        asked = as_aggregation(question)
        if step is not None:
            asked = replace(asked, steps=(step,))
        return [output.estimate for output in data.release(asked, take_share(data.loss, share)).outputs]

    unit = data.neighbors.id_column
    counts = ask([count(x), *([] if unit is None else [count_distinct(unit)])], _COUNTS)
    rows, units = (max(float(one.values()[0]), 1.0) for one in (counts[0], counts[-1]))
    buckets = max(round(min(rows / _SIZE, units)), 1)
    hashings = min(max(int(_MOST_ROWS / rows), 1), _HASHINGS)
    step = BucketLines(Name(x), Name(y), buckets, hashings, 0, 1)
    x_number, y_number = step.numbers(data.domain)
    quartiles = ask(quantiles(x, [Fraction(1, 4), Fraction(3, 4)]), _PLACES)
    left, right = _find_places(x_number, [float(one.values()[0]) for one in quartiles])
    step = replace(step, left=left, right=right)
    medians = ask([median(LEFT), median(RIGHT)], _MEDIANS, step)
    at_left, at_right = (int(one.values()[0]) for one in medians)
    distance = (col(LEFT) - at_left).abs() + (col(RIGHT) - at_right).abs()
    (middle,) = ask(median(distance), _SPREAD, step)
    (counted_lines,) = ask(count(), _LINES, step)
    parts = line_parts(y_number)
    lines = max(float(counted_lines.values()[0]), 1.0)
    rate = min(_rate_of(one) for one in medians)
    noise = sample = -1.0
    # Of the lines that there are at least: their number is noisy too.
    if math.log(20) / rate < _FAR * (lines - float(counted_lines.errors(0.95)[0])):
        # Half of the lines lie within the median distance d of both, so half within d / 2 of each: between these their density is
        # 1 / (2 d) a step. A rank errs by Laplace noise of this rate.
        far = (float(middle.values()[0]) + 1) * y_number.step / parts
        noise = math.sqrt(2) / rate * 2 * far / lines
        sample = far / math.sqrt(lines / hashings) * math.sqrt(_ALL_HASHINGS + _ONE_HASHING / hashings)
    return _Fit(
        step,
        (_own_unit(x_number, left), _own_unit(x_number, right)),
        (_own_unit(y_number, at_left / parts), _own_unit(y_number, at_right / parts)),
        noise,
        sample,
        lines,
        rows,
    )


def _rate_of(estimate: Any) -> float:
    """Return what one rank costs in the exponent of a selection."""
    assert isinstance(estimate, Ranks)
    return float(estimate.stages[-1].rate)


def _own_unit(number: ScaledNumber, step: float) -> float:
    return number.middle + number.step * step


def _find_places(x: ScaledNumber, quartiles: Sequence[float]) -> tuple[int, int]:
    """Return the quartiles in steps, moved apart where they coincide."""
    left, right = sorted(min(max(round((value - x.middle) / x.step), -x.width), x.width) for value in quartiles)
    if left == right:
        left = max(left - x.width // _APART, -x.width)
        right = min(right + x.width // _APART, x.width)
    return left, right
