"""Evaluations: private through the Queryable, or openly against rows and files, and then they say so."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino import synth
from sordino.ask.queries.adaptive.marginal import Distances
from sordino.core.neighbors import Neighbors, Relation
from sordino.errors import DeclarationError, SourceError
from synth.support import small, small_source

DOMAIN, KEYS = small()


def rows() -> pa.Table:
    columns = {n: pa.array(KEYS[n]) for n in ("age", "pay")}
    columns["job"] = pa.array(["none", "desk", "shop", "field"]).take(pa.array(KEYS["job"]))
    columns["sex"] = pa.array(KEYS["sex"] == 1)
    columns["town"] = pa.array(["a", "b", "c", None]).take(pa.array(KEYS["town"]))
    return pa.table(columns)


def test_an_evaluation_is_private_or_says_on_its_face_that_it_is_not() -> None:
    data = small_source()
    model = synth.fit(data, epsilon=5, delta="1e-9", rng=sd.Rng.seeded(2))
    openly = synth.evaluate(model, against=rows(), non_private=True, rng=sd.Rng.seeded(4))
    assert "NOT PRIVATE" in repr(openly)
    assert not openly.private
    privately = synth.evaluate(model, against=data, epsilon=5, delta="1e-9", rng=sd.Rng.seeded(4))
    assert data.sessions[-1].spent() <= data.sessions[-1].allowed()
    for ways in (1, 2):
        gap = abs(openly.mean(ways) - privately.mean(ways))
        assert gap < 3 * privately.error(ways, 0.95) + 0.01
    assert 0 < openly.floor(2) < 1
    assert len(openly.worst(3)) == 3
    with pytest.raises(DeclarationError, match="non_private"):
        synth.evaluate(model, against=rows())
    with pytest.raises(DeclarationError, match="never"):
        synth.evaluate(model, against=data, non_private=True)
    assert math.isclose(openly.to_dict()["means"]["2"], openly.mean(2))


@pytest.mark.deep
def test_an_evaluation_against_a_file_is_that_against_its_rows(tmp_path: Path) -> None:
    """A CSV or Parquet file, read through the only room that may, gives the figures of its rows, marked NOT PRIVATE."""
    model = synth.fit(small_source(), epsilon=5, delta="1e-9", rng=sd.Rng.seeded(2))
    pacsv.write_csv(rows(), tmp_path / "rows.csv", pacsv.WriteOptions(quoting_style="none"))
    pq.write_table(rows(), tmp_path / "rows.parquet")
    openly = synth.evaluate(model, against=rows(), non_private=True, rng=sd.Rng.seeded(4))
    for path in (tmp_path / "rows.csv", str(tmp_path / "rows.parquet")):
        found = synth.evaluate(model, against=path, non_private=True, rng=sd.Rng.seeded(4))
        assert found.to_dict() == openly.to_dict()
        assert "NOT PRIVATE" in repr(found)
        with pytest.raises(DeclarationError, match="non_private"):
            synth.evaluate(model, against=path, epsilon=1)
    with pytest.raises(SourceError, match="no such file"):
        synth.evaluate(model, against=tmp_path / "none.csv", non_private=True)


@pytest.mark.deep
@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-9"}, {"rho": "0.1"}], ids=str)
def test_a_private_evaluation_is_one_release_of_distances_at_its_whole_loss(loss: dict[str, Any]) -> None:
    model = synth.fit(small_source(), epsilon=5, delta="1e-9", rng=sd.Rng.seeded(2))
    relations: tuple[Relation, ...] = ("add_remove", "replace")
    for relation in relations:
        data = small_source(neighbors=Neighbors(relation, None))
        synth.evaluate(model, against=data, **loss, rng=sd.Rng.seeded(4))
        (session,) = data.sessions
        ((query, _),) = session.accesses
        assert isinstance(query, Distances)
        assert session.spent() == session.allowed()


@pytest.mark.deep
def test_the_table_itself_lies_at_no_distance_and_another_far() -> None:
    """The scale: a model of the same rows is near 0, rows of nothing but one value near 1 (total variation)."""
    model = synth.fit(small_source(), rho=10**6, rng=sd.Rng.seeded(2))
    same = synth.evaluate(model, against=rows(), non_private=True, rng=sd.Rng.seeded(4))
    assert same.mean(1) < 0.01
    none = np.zeros(3000, dtype=np.int64)
    lone = rows().take(pa.array(none))
    far = synth.evaluate(model, against=lone, non_private=True, rng=sd.Rng.seeded(4))
    assert far.mean(2) > 0.6
