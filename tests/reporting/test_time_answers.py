"""Dates and moments wherever an answer shows: text, CSV, JSON, Arrow, pictures, models and made-up tables."""

from __future__ import annotations

import datetime
import json
from fractions import Fraction

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino import col, synth
from sordino.cli.ask.render_release import encode_release
from sordino.cli.shared.options import AnswerFormat
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.ratio import Ratio
from sordino.core.estimates.time_values import TimeValues
from sordino.core.noise.laws import DiscreteLaplace
from sordino.errors import QuestionRefused
from sordino.reporting.release_text import table_lines

DOMAIN = sd.Domain(
    {
        "d": sd.Date("2020-01-01", "2020-03-31"),
        "t": sd.DateTime("2020-01-01", "2020-03-31", zone="Europe/Berlin", resolution="hour"),
    }
)
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i % 91) for i in range(910)]
TABLE = pa.table({"d": DAYS, "t": [datetime.datetime(d.year, d.month, d.day, 12) for d in DAYS]})


@pytest.fixture(scope="module")
def days() -> sd.Curator:
    return protect(TABLE, DOMAIN)


@pytest.fixture(scope="module")
def release(days: sd.Curator) -> sd.Release:
    asked = days.group_by(month=col("t").truncate("month")).agg(sd.mean("t").alias("m"), sd.median("d").alias("h"))
    return days.ask(asked, epsilon=1000)


def test_text_and_files_show_dates(release: sd.Release) -> None:
    text = "\n".join(table_lines(release, confidence=0.95))
    assert "2020-01-01 00:00:00+01:00" in text
    assert "2020-01-16 " in text
    found = json.loads(encode_release(release, AnswerFormat.json, confidence=0.95))
    assert found["rows"][0]["month"] == "2020-01-01T00:00:00+01:00"
    assert b"2020-01-01 00:00:00+01:00" in encode_release(release, AnswerFormat.csv, confidence=0.95)


def test_a_picture_has_an_axis_of_time(release: sd.Release) -> None:
    spec = json.dumps(sd.plot(release).spec())
    assert '"temporal"' in spec
    assert '"utc"' in spec


def test_intervals_hold_what_they_held_and_contain_the_value() -> None:
    law = DiscreteLaplace(Fraction(5))
    ratio = Ratio(Noisy((-3171,), Fraction(1), law), Noisy((907,), Fraction(1), law), 18_300, 18_262, 18_352)
    shown = TimeValues(ratio, "date", "", Fraction(1))
    (value,), ((low, high),) = shown.values(), shown.intervals(0.95)
    ((least, most),) = ratio.intervals(0.95)
    assert low <= value <= high
    assert (low - datetime.date(1970, 1, 1)).days <= least
    assert (high - datetime.date(1970, 1, 1)).days >= most


@pytest.mark.deep
def test_models_and_dummies_have_moments(days: sd.Curator) -> None:
    model = synth.fit(days, epsilon=100, rng=sd.Rng.seeded(1))
    rows = model.sample(200)
    assert str(rows.schema.field("t").type) == "timestamp[us, tz=Europe/Berlin]"
    column = DOMAIN["t"]
    assert isinstance(column, sd.DateTime)
    assert all(column.lower <= cell <= column.upper for cell in rows["t"].to_pylist())
    half = model.answer(days.where(col("t") < "2020-02-15").agg(sd.count()))
    assert abs(half.value - 450) < 60
    with pytest.raises(QuestionRefused, match="no means of dates"):
        model.answer(sd.mean("d"))
    made = sd.dummy(DOMAIN, rows=300)
    assert all(c is None or column.lower <= c <= column.upper for c in made["t"].to_pylist())
    assert days.ask(sd.mean("t"), epsilon=1, on="dummy").practice
