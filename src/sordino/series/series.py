"""Series: the handle of a series of releases - the next period, any window, all that was released."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from sordino.ask.queries.series import (
    TOTAL,
    SeriesQueryable,
    SeriesStep,
    opening_note,
    period_name,
    period_start,
    read_period,
)
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.estimates.weighted_sum import SeriesCells
from sordino.core.lazy import load_feature
from sordino.core.noise.laws import DiscreteGaussian
from sordino.core.release import Key, Output, Release
from sordino.core.release_exports import label_kind, write_csv, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa

Period: TypeAlias = datetime.date | str


class Series:
    """A series of releases, paid for as a whole when it was opened: `release`, `window`, `difference`, `table`.

    Made by `table.series(...)`, which opens it by its name again and again. `with` closes this handle alone: the series goes
    on, in this process or another. A released period is answered from the ledger, the same, at no cost.
    """

    def __init__(self, queryable: SeriesQueryable) -> None:
        self._queryable = queryable
        self._closed = False

    @property
    def name(self) -> str:
        """The name that the series is opened by."""
        return self._queryable.name

    @property
    def opening(self) -> Release:
        """The release of its charge: what the series cost, with no numbers."""
        return self._queryable.opening

    @property
    def periods(self) -> list[str]:
        """The periods that were released, in order."""
        return [self._text(period) for period in self._queryable.periods()]

    def release(self, period: Period) -> Release:
        """Return the release of a period: the next one, or one that was released before, which is the same as then.

        A period is a date that lies in it, or ISO text: "2026-11-24", a month "2026-11", a quarter "2026-Q4", a year "2026". Its
        table has one row for each combination of keys: the measure of the period and its running total since the series
        began, each with its interval at 95%. Periods between are stepped over: their rows are in the totals.

        Raises QuestionRefused for a period before the last one released that was not released itself, outside of the declared
        days, or beyond the horizon; LedgerError where the series has ended or its key is lost.
        """
        self._check_open()
        index = self._read(period)
        step = self._queryable.step_at(index)
        return self._make_release(self._queryable.advance(index) if step is None else step)

    def check(self, period: Period) -> None:
        """Raise QuestionRefused for a period that could not be released now, as `release` would; nothing is released."""
        self._check_open()
        self._queryable.check_next(self._read(period))

    def step(self, period: Period) -> int:
        """Return the number of a period of the series: 1 for its first, which is the first released unless it was stated."""
        index = self._read(period)
        start = self._queryable.start()
        return 1 if start is None else index - start + 1

    def window(self, first: Period, last: Period) -> Release:
        """Return the total of the periods from `first` to `last`, both included, from what was released; it costs nothing.

        Its error does not grow with the number of periods. Raises QuestionRefused unless `last` was released, and the period
        before `first` too, unless that is where the series starts.
        """
        begin = self._read(first)
        end = self._read(last)
        if begin > end:
            raise QuestionRefused(f"a window ends after it begins: {self._text(begin)} to {self._text(end)}")
        upper = self._released(end)
        lower = self._total_before(begin, upper)
        words = f"from {self._text(begin)} to {self._text(end)}"
        return self._combine(words, [(1, upper), *(((-1, lower),) if lower is not None else ())])

    def difference(self, period: Period, other: Period) -> Release:
        """Return the number of a period less that of another, from what was released, with the interval of both together.

        Raises QuestionRefused unless both were released.
        """
        one = self._released(self._read(period))
        two = self._released(self._read(other))
        measure = self._queryable.compiled.question.measure.alias
        # counts are differences of totals, and the noise of totals is what is drawn
        variance = self._spread([(1, one.step), (-1, one.step - 1), (-1, two.step), (1, two.step - 1)])
        steps = [a - b for a, b in zip(one.counts, two.counts, strict=True)]
        words = f"on {self._text(one.period)} less on {self._text(two.period)}"
        return self._shape(words, one, {measure: (steps, variance, None)})

    @property
    def starts(self) -> list[datetime.date]:
        """The first day of each released period, in order."""
        every = self._queryable.compiled.question.every
        return [period_start(period, every) for period in self._queryable.periods()]

    def releases(self) -> list[Release]:
        """Return the release of each period that was released, in order."""
        return [self._make_release(step) for step in self._queryable.steps()]

    def plot(self, *, confidence: float = 0.95, title: str | None = None) -> Any:
        """Return the picture of the series, its numbers and totals over time with their bands: it is `sd.plot(series)`."""
        return load_feature("plot")(self, confidence=confidence, title=title)

    @property
    def table(self) -> pa.Table:
        """All released periods as one Arrow table: `period`, then the columns of each release, with intervals at 95%."""
        import pyarrow as pa

        tables = []
        for step in self._queryable.steps():
            rows = self._make_release(step).table
            periods = pa.array([self._text(step.period)] * len(rows), pa.string())
            tables.append(rows.add_column(0, "period", periods))
        if not tables:
            raise QuestionRefused(f"nothing of the series {self.name!r} was released so far")
        return pa.concat_tables(tables)

    def explain(self) -> str:
        """Return what the whole series reveals at most about one unit, however many of its periods are released."""
        return self._queryable.explain()

    def export(self, path: str | Path, *, period: Period | None = None) -> None:
        """Write the released periods, or one, to a .csv or .parquet file that says of each row which release it is of.

        Beside the columns of `table` it has the `series`, the `step`, when it was `recorded`, and the `record`: the hash of the
        ledger's entry, which other numbers cannot have. A period is released once, so two files of it are the same.

        Raises QuestionRefused for a period that was not released, DeclarationError for another kind of file.
        """
        import pyarrow as pa

        place = Path(path)
        if place.suffix not in (".csv", ".parquet"):
            raise DeclarationError(
                f"a series is exported to a .csv or .parquet file, not {place.suffix!r:.20}", key="path"
            )
        steps = self._queryable.steps() if period is None else [self._released(self._read(period))]
        if not steps:
            raise QuestionRefused(f"nothing of the series {self.name!r} was released so far")
        tables = []
        for step in steps:
            rows = self._make_release(step).table
            stamps: list[tuple[str, Any, pa.DataType]] = [
                ("series", self.name, pa.string()),
                ("step", step.step, pa.int64()),
                ("period", self._text(step.period), pa.string()),
                ("recorded", step.time, pa.string()),
                ("record", step.record, pa.string()),
            ]
            names = [name for name, _, _ in stamps]
            columns = [pa.array([value] * len(rows), kind) for _, value, kind in stamps]
            tables.append(pa.table([*columns, *rows.columns], names=[*names, *rows.column_names]))
        whole = pa.concat_tables(tables)
        if place.suffix == ".csv":
            write_csv(whole, place)
        else:
            write_parquet(whole, place, about=self.opening.to_json())

    def close(self) -> None:
        """Close this handle; the series goes on, and is opened again by its name."""
        self._closed = True

    def __enter__(self) -> Series:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Series {self.name!r}: {self._queryable.compiled.question.describe()}; {len(self.periods):,} released>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a handle of a series cannot be copied or pickled: open the series by its name")

    # ---- inside

    def _check_open(self) -> None:
        if self._closed:
            raise QuestionRefused(f"this handle of the series {self.name!r} is closed: open it again by its name")

    def _read(self, period: Any) -> int:
        index = read_period(period, self._queryable.compiled.question.every)
        self._queryable.compiled.check(index)
        return index

    def _text(self, period: int) -> str:
        return period_name(period, self._queryable.compiled.question.every)

    def _released(self, period: int) -> SeriesStep:
        step = self._queryable.step_at(period)
        if step is None:
            raise QuestionRefused(f"{self._text(period)} was not released: {self._list_released()}")
        return step

    def _total_before(self, period: int, upper: SeriesStep) -> SeriesStep | None:
        """Return the step before a period; None where the series starts with the period."""
        start = upper.period - upper.step + 1
        if period == start:
            return None
        if period < start:
            raise QuestionRefused(f"{self._text(period)} comes before {self._text(start)}, where the series starts")
        step = self._queryable.step_at(period - 1)
        if step is None:
            raise QuestionRefused(
                f"a window that begins with {self._text(period)} needs the total before it, and {self._text(period - 1)} was not "
                f"released: {self._list_released()}"
            )
        return step

    def _list_released(self) -> str:
        periods = self.periods
        if not periods:
            return "nothing was released so far"
        shown = ", ".join(periods[-3:])
        return f"released are {'...' if len(periods) > 3 else ''}{shown}"

    def _make_release(self, step: SeriesStep) -> Release:
        """Return a step as a release: its own number, and the running total."""
        question = self._queryable.compiled.question
        least = self._least()
        columns = {
            question.measure.alias: (step.counts, self._spread([(1, step.step), (-1, step.step - 1)]), least),
            TOTAL: (step.totals, self._spread([(1, step.step)]), least),
        }
        start = self._text(step.period - step.step + 1)
        return self._shape(f"in {self._text(step.period)}, and in all since {start}", step, columns)

    def _combine(self, words: str, terms: Sequence[tuple[int, SeriesStep]]) -> Release:
        """Return a sum of totals with signs."""
        columns = zip(*([sign * total for total in step.totals] for sign, step in terms), strict=True)
        variance = self._spread([(sign, step.step) for sign, step in terms])
        measure = self._queryable.compiled.question.measure.alias
        return self._shape(words, terms[0][1], {measure: ([sum(c) for c in columns], variance, self._least())})

    def _spread(self, terms: Sequence[tuple[int, int]]) -> Fraction:
        """Return a bound of the variance of a sum of the noises of totals with signs, in squared fine steps."""
        return self._queryable.noise_variance(terms)

    def _least(self) -> int | None:
        """Return the least true value: a count of rows, and a sum of numbers of at least 0, is never below 0."""
        return 0 if self._queryable.compiled.bounds[0] >= 0 else None

    @cached_property
    def _keys(self) -> tuple[Key, ...]:
        compiled = self._queryable.compiled
        rows = list(itertools.product(*(key.labels for key in compiled.keys)))
        columns = list(zip(*rows, strict=True)) if rows and rows[0] else []
        return tuple(
            Key(name, labels, label_kind(list(key.labels)))
            for name, labels, key in zip(compiled.question.names, columns, compiled.keys, strict=True)
        )

    def _shape(
        self, words: str, step: SeriesStep, columns: Mapping[str, tuple[Sequence[int], Fraction, int | None]]
    ) -> Release:
        compiled = self._queryable.compiled
        outputs = []
        for name, (steps, variance, least) in columns.items():
            law = DiscreteGaussian(Fraction(math.ceil(variance)))
            cells = SeriesCells(tuple(steps), self._queryable.fine, compiled.unit, law, least)
            outputs.append(Output(name, cells, self._queryable.mechanism))
        opening = self.opening
        question = compiled.question
        keys = [key.alias for key in question.by]
        by = f" by {' and '.join(keys)}" if keys else ""
        rest = [note for note in opening.notes if note != opening_note(self.name)]
        notes = (f"of the series {self.name!r}, which was charged once for all of its periods", *rest)
        return replace(
            opening,
            question=f"{question.measure.describe()}{by} {words}",
            keys=self._keys,
            outputs=tuple(outputs),
            notes=notes,
            time=step.time,
        )
