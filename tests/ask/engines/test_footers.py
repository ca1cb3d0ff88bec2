"""A Parquet footer that contradicts itself is refused when it is opened: a count alone would believe it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from protecting import protect
from sordino.errors import SourceError

DOMAIN = sd.Domain({"a": sd.Integer(0, 2000), "b": sd.Integer(0, 2000)})
TRUE, FALSE = b"\xd0\x0f", b"\xa0\x1f"  # 1,000 and 2,000 as Thrift writes them


def whole_file(path: Path) -> tuple[bytes, bytes, list[int]]:
    """Write a file of 1,000 rows; return its pages, its footer and where that says 1,000."""
    table = pa.table({"a": list(range(1000)), "b": [None if i % 3 else i for i in range(1000)]})
    pq.write_table(table, path, write_statistics=False)
    raw = path.read_bytes()
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    footer = raw[start:-8]
    return raw[:start], footer, [i for i in range(len(footer)) if footer[i : i + 2] == TRUE]


@pytest.mark.parametrize("most", [2, pytest.param(99, marks=pytest.mark.deep)])
def test_a_count_alone_and_a_count_beside_a_sum_are_of_the_same_rows(most: int, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pages, footer, places = whole_file(path)
    tail = len(footer).to_bytes(4, "little") + b"PAR1"
    refused = 0
    for count in range(1, min(most, len(places)) + 1):
        for lies in itertools.combinations(places, count):
            lying = bytearray(footer)
            for place in lies:
                lying[place : place + 2] = FALSE
            path.write_bytes(pages + bytes(lying) + tail)
            try:
                people = protect(path, DOMAIN)
            except SourceError as error:
                assert "footer" in str(error)  # noqa: PT017
                refused += 1
                continue
            alone = people.ask(sd.count(), epsilon=10**5).value
            beside = people.ask([sd.count().alias("n"), sd.sum("a"), sd.sum("b")], epsilon=10**5).value["n"]
            assert (round(alone), round(beside)) == (1000, 1000)
    assert refused >= 10


def test_a_footer_that_lies_later_is_refused_before_the_charge(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pages, footer, places = whole_file(path)
    people = protect(path, DOMAIN)
    lying = footer[: places[-1]] + FALSE + footer[places[-1] + 2 :]
    path.write_bytes(pages + lying + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(SourceError, match="footer"):
        people.ask(sd.count(), epsilon=1)
    assert people.spent == sd.PureDP(0)
