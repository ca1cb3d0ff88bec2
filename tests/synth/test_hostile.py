"""Tables and losses at the edge: no rows, one row, one value, all missing, huge domains, many columns, every currency."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino import synth
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.expr import col
from sordino.errors import DeclarationError, QuestionRefused
from synth.support import Source, every_method, small

METHODS = every_method([("n", "c"), ("b", "k"), ("r",)])
DOMAIN = sd.Domain(
    {
        "n": sd.Integer(0, 9),
        "c": sd.Category(["x", "y"], missing="keep"),
        "b": sd.Boolean(),
        "k": sd.Category(["only"]),
        "r": sd.Real(0, 1, resolution="0.001"),
    }
)
LOSSES: dict[str, dict[str, Any]] = {"pure": {"epsilon": 1}, "pair": {"epsilon": 5, "delta": "1e-9"}}


def table(kind: str) -> dict[str, Any]:
    """Return keys of a table: no rows, one, rows of one value, or rows that miss all of one column (-1: dropped)."""
    rows = {"empty": 0, "one": 1}.get(kind, 400)
    keys = {n: np.zeros(rows, dtype=np.int64) for n in DOMAIN}
    if kind == "missing":
        keys["n"] -= 1
        keys["c"] += 2
    return keys


@pytest.mark.deep
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["empty", "one", "constant", "missing"])
@pytest.mark.parametrize("method", METHODS)
def test_poor_tables_give_models_that_draw_and_answer(method: str, kind: str, loss: str) -> None:
    data = Source(DOMAIN, table(kind), sd.Rng.seeded(1))
    model = METHODS[method](data, **LOSSES[loss], rng=sd.Rng.seeded(2))
    (session,) = data.sessions
    assert session.spent() <= session.allowed()
    drawn = model.sample(40, rng=sd.Rng.seeded(3))
    assert drawn.num_rows == 40
    assert set(drawn["k"].to_pylist()) == {"only"}
    answer = model.answer(Selection().where(col("n") > 3).group_by("c").agg(sd.count(), sd.mean("r")))
    assert all(np.isfinite(answer.table["count"].to_numpy()))
    assert all(0 <= m <= 1 for m in answer.table["mean_r"].to_pylist())
    low, high = model.answer(Selection().agg(sd.count())).interval(0.999999)
    assert low <= {"empty": 0, "one": 1}.get(kind, 400) <= high


@pytest.mark.parametrize("rows", [0, 1])
def test_a_histogram_of_hardly_any_rows_can_be_asked_and_drawn_from(rows: int) -> None:
    keys = {n: np.zeros(rows, dtype=np.int64) for n in DOMAIN}
    for column in ("n", "c", "b", "k", "r"):
        data = Source(DOMAIN, keys, sd.Rng.seeded(1))
        made = synth.Histogram(column, rows=True).fit(data, epsilon=1)
        assert len(data.sessions[0].accesses) == 2
        assert data.sessions[0].spent() == data.sessions[0].allowed()
        assert made.sample(20, rng=sd.Rng.seeded(1)).num_rows == 20
        assert made.sample(rng=sd.Rng.seeded(1)).num_rows < 60


def test_every_access_of_a_histogram_is_a_release_within_its_loss() -> None:
    domain, keys = small()
    for loss in ({"epsilon": 1}, {"epsilon": 1, "delta": "1e-9"}, {"rho": "0.1"}):
        for ranges in (None, [(0, i) for i in range(1, 100)]):
            data = Source(domain, keys, sd.Rng.seeded(1))
            synth.Histogram("age", ranges=ranges, rows=True).fit(data, **loss)
            assert data.sessions[0].spent() == data.sessions[0].allowed()


@pytest.mark.deep
def test_a_column_of_a_hundred_thousand_values_is_coded_and_drawn() -> None:
    domain = sd.Domain(
        {"code": sd.Category(list(range(100_000))), "wide": sd.Integer(-(10**12), 10**12), "two": sd.Boolean()}
    )
    rng = np.random.default_rng(1)
    frequent = rng.integers(0, 30, 5000)
    keys = {"code": frequent, "wide": np.where(frequent < 15, 124, 3), "two": (frequent < 15).astype(np.int64)}
    model = synth.fit(Source(domain, keys, sd.Rng.seeded(1)), epsilon=2, delta="1e-9", rng=sd.Rng.seeded(2))
    drawn = model.sample(2000, rng=sd.Rng.seeded(3))
    assert abs(np.mean(drawn["two"].to_numpy(zero_copy_only=False)) - 0.5) < 0.1
    assert abs(model.answer(Selection().where(col("two")).agg(sd.count())).value - 2500) < 500


@pytest.mark.deep
def test_sixty_columns_fit() -> None:
    rng = np.random.default_rng(1)
    names = [f"c{i}" for i in range(60)]
    domain = sd.Domain({n: sd.Integer(0, 3) for n in names})
    base = rng.integers(0, 4, 6_000)
    keys = {n: np.where(rng.random(6_000) < 0.3, base, rng.integers(0, 4, 6_000)) for n in names}
    data = Source(domain, keys, sd.Rng.seeded(1))
    model = synth.fit(data, epsilon=10, delta="1e-9", rng=sd.Rng.seeded(2))
    assert "tree" in model.facts["tier"]
    assert model.sample(1000, rng=sd.Rng.seeded(3)).num_columns == 60
    covered = []
    for _ in range(60):
        chosen = rng.choice(60, 3, replace=False)
        values = rng.integers(0, 4, 3)
        where = (col(f"c{chosen[0]}") == int(values[0])) & (col(f"c{chosen[1]}") == int(values[1]))
        where = where & (col(f"c{chosen[2]}") == int(values[2]))
        exact_count = int(np.all([keys[f"c{c}"] == v for c, v in zip(chosen, values, strict=True)], axis=0).sum())
        low, high = model.answer(Selection().where(where).agg(sd.count())).interval(0.95)
        covered.append(low <= exact_count <= high)
    assert np.mean(covered) >= 0.85  # 90% asked; 60 questions: less happens by chance in 6% of seeds


CAPS: dict[str, tuple[Any, dict[str, Any]]] = {
    "pure": (sd.PureDP(2), {"epsilon": 1}),
    "pair": (sd.ApproxDP(2, "1e-6"), {"epsilon": 1, "delta": "1e-7"}),
    "pair, pure loss": (sd.ApproxDP(2, "1e-6"), {"epsilon": 1}),
    "rho": (sd.ZCDP("0.5"), {"rho": "0.1"}),
    "rho, pair": (sd.ZCDP("0.5"), {"epsilon": 1, "delta": "1e-7"}),
}


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("cap", CAPS)
def test_a_curator_charges_a_fit_once_in_the_currency_of_its_cap(cap: str, relation: str) -> None:
    """Units have up to three rows; what was charged is what was asked, and one release is on record for it."""
    rng = np.random.default_rng(1)
    rows = {
        "who": [f"u{i}" for i in rng.integers(0, 300, 900)],
        "n": rng.integers(0, 10, 900),
        "b": rng.random(900) < 0.5,
    }
    budget, loss = CAPS[cap]
    curator = protect(
        pa.table(rows),
        sd.Domain({"who": sd.Identifier(), "n": sd.Integer(0, 9), "b": sd.Boolean()}),
        neighbors=relation,
        unit=sd.PrivacyUnit("who", max_rows=3),
        budget=budget,
        seed=1,
        name="visits",
    )
    model = synth.fit(curator, **loss, rng=sd.Rng.seeded(2))
    spent = curator.spent
    asked = sum(spent.amounts().values())
    assert asked > 0
    assert "who" in model.facts["neighbors"]
    assert model.sample(100, rng=sd.Rng.seeded(3)).num_rows == 100
    assert curator.spent == spent
    assert len(curator.releases()) == 1
    report = synth.evaluate(model, against=curator, **loss, rng=sd.Rng.seeded(4))
    assert sum(curator.spent.amounts().values()) == 2 * asked
    assert 0 <= report.floor(1) < 1
    curator.close()


def rewritten(whole: bytes, name: str, data: bytes) -> bytes:
    """Return an archive with one member replaced, checksums of the container right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w") as new:
        for item in old.infolist():
            new.writestr(item.filename, data if item.filename == name else old.read(item.filename))
    return out.getvalue()


@pytest.mark.attack("run code from a file")
def test_a_file_with_objects_or_of_another_version_is_refused(tmp_path: Path) -> None:
    """Whoever rebuilds the container still meets the model's own checksum, and never an unpickler."""
    model = synth.Independent().fit(
        Source(DOMAIN, table("constant"), sd.Rng.seeded(1)), epsilon=1, rng=sd.Rng.seeded(2)
    )
    path = tmp_path / "a.model"
    model.save(path)
    whole = path.read_bytes()
    ran: list[int] = []

    class Trap:
        def __reduce__(self) -> Any:
            return (ran.append, (1,))

    trap = io.BytesIO()
    np.save(trap, np.array([Trap()], dtype=object), allow_pickle=True)
    other = io.BytesIO()
    np.save(other, np.array([1.0, 2.0]))
    for name, data in (("header.npy", trap.getvalue()), ("within0.npy", other.getvalue()), ("checksum.npy", b"")):
        path.write_bytes(rewritten(whole, name, data))
        with pytest.raises(DeclarationError, match="altered"):
            synth.load(path)
    assert ran == []
    path.write_bytes(whole)
    assert synth.load(path).columns == model.columns


def test_a_version_that_is_newer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sordino.synth import model_file

    model = synth.Independent().fit(
        Source(DOMAIN, table("constant"), sd.Rng.seeded(1)), epsilon=1, rng=sd.Rng.seeded(2)
    )
    monkeypatch.setattr(model_file, "_FORMAT", "sordino model 9")
    model.save(tmp_path / "a.model")
    monkeypatch.undo()
    with pytest.raises(DeclarationError, match="sordino model 9"):
        synth.load(tmp_path / "a.model")


def test_columns_that_no_synthesizer_can_have_are_refused() -> None:
    domain = sd.Domain({"id": sd.Identifier(), "free": sd.Integer(), "raw": sd.Real(0), "ok": sd.Boolean()})
    data = Source(domain, {}, sd.Rng.seeded(1))
    for columns in (["id"], ["free"], ["raw"], None):
        with pytest.raises(QuestionRefused):
            synth.fit(data, epsilon=1, columns=columns)
    assert data.sessions == []
