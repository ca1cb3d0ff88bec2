"""Tables on which synthesizers are measured: Adult as the literature discretises it, and shapes that find weak points.

Each is codes from 0, column by column, with the declared number of codes, and the columns whose codes are ordered.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sordino as sd
from sordino.synth.evaluation.distances import table_distance

ORDERED = frozenset(("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"))  # of Adult
Keys = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """Codes of each column, the declared number of codes, and which columns are ordered."""

    keys: Keys
    sizes: dict[str, int]
    ordered: frozenset[str] = frozenset()

    @property
    def rows(self) -> int:
        return len(next(iter(self.keys.values())))

    @property
    def domain(self) -> sd.Domain:
        return declare(self.sizes, self.ordered)


def declare(sizes: dict[str, int], ordered: Iterable[str]) -> sd.Domain:
    """Return the declaration of such a table: whole numbers where codes are ordered, else categories."""
    named = set(ordered)
    return sd.Domain({n: sd.Integer(0, s - 1) if n in named else sd.Category(list(range(s))) for n, s in sizes.items()})


def distances(real: Sequence[Any], drawn: Sequence[Any], sizes: Sequence[int], ways: int, most: int = 400) -> float:
    """Return the mean distance over all sets of `ways` columns, or `most` random ones of more."""
    sets = list(itertools.combinations(range(len(sizes)), ways))
    if len(sets) > most:
        picks = np.random.default_rng(0).choice(len(sets), most, replace=False)
        sets = [sets[i] for i in picks]
    found = [table_distance([real[c] for c in s], [drawn[c] for c in s], [sizes[c] for c in s]) for s in sets]
    return float(np.mean(found))


def adult_sizes(path: Path) -> dict[str, int]:
    """Return the number of codes of each column of the Adult table whose file this is."""
    found: dict[str, int] = json.loads(path.with_name("adult_discrete_domain.json").read_text())
    return found


def adult_discrete(path: Path) -> Table:
    """Return the Adult table, discretised: 48,842 rows of 14 columns of 2 to 100 codes."""
    sizes, rows = adult_sizes(path), np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
    return Table({n: rows[:, i] for i, n in enumerate(sizes)}, sizes, ORDERED)


def one_factor(rows: int = 100_000, columns: int = 15, seed: int = 1) -> Table:
    """Return 15 ordered columns that all follow one hidden number: every pair is dependent."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=rows)
    sizes = {f"c{i}": 4 + 4 * (i % 8) for i in range(columns)}
    keys: Keys = {}
    for name, size in sizes.items():
        value = 0.7 * factor + 0.7 * rng.normal(size=rows)
        keys[name] = np.clip(((value + 3) / 6 * size).astype(np.int64), 0, size - 1)
    return Table(keys, sizes, frozenset(keys))


def local(rows: int = 100_000, columns: int = 40, seed: int = 2) -> Table:
    """Return 40 columns, each of which follows the one before it: dependencies are local."""
    rng = np.random.default_rng(seed)
    sizes = {f"c{i}": 2 + i % 9 for i in range(columns)}
    keys: Keys = {}
    before = rng.integers(0, sizes["c0"], rows)
    for name, size in sizes.items():
        own = rng.integers(0, size, rows)
        before = np.where(rng.random(rows) < 0.4, before % size, own)
        keys[name] = before
    return Table(keys, sizes)


def independent(rows: int = 20_000) -> Table:
    """Return six columns that know nothing of each other: nothing is gained by looking at pairs."""
    rng = np.random.default_rng(4)
    sizes = {f"c{i}": s for i, s in enumerate((3, 5, 8, 12, 2, 20))}
    return Table({n: rng.choice(s, rows, p=rng.dirichlet(np.full(s, 2.0))) for n, s in sizes.items()}, sizes)


def mixed(rows: int = 20_000) -> Table:
    """Return ten columns of many kinds: a noisy xor, chains, a skewed column, two wide ordered ones, two of no relation."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    c = (a ^ b) ^ (rng.random(rows) < 0.05)
    d = np.where(rng.random(rows) < 0.6, rng.integers(0, 6, rows), a * 3 + rng.integers(0, 3, rows))
    masses = 1 / np.arange(1, 31) ** 1.2
    e = rng.choice(30, rows, p=masses / masses.sum())
    f = np.where(rng.random(rows) < 0.5, e % 8, rng.integers(0, 8, rows))
    g = np.clip((rng.normal(size=rows) * 12 + 40 + d * 3).astype(np.int64), 0, 89)
    h = np.clip((g * 0.5 + rng.normal(size=rows) * 5 + 5).astype(np.int64), 0, 59)
    i, j = rng.random(rows) < 0.02, rng.integers(0, 12, rows)
    keys = dict(zip("abcdefghij", (a, b, c, d, e, f, g, h, i, j), strict=True))
    sizes = dict(zip("abcdefghij", (2, 2, 2, 6, 30, 8, 90, 60, 2, 12), strict=True))
    return Table({n: np.asarray(v, dtype=np.int64) for n, v in keys.items()}, sizes, frozenset("gh"))


def sparse(rows: int = 20_000) -> Table:
    """Return ten columns of which three pairs are dependent, and no more."""
    rng = np.random.default_rng(6)
    sizes = [4, 6, 8, 10, 12, 16, 5, 7, 9, 20]
    keys = [rng.integers(0, s, rows) for s in sizes]
    for first, second in ((0, 1), (2, 3), (4, 5)):
        keys[second] = np.where(rng.random(rows) < 0.5, keys[first] % sizes[second], keys[second])
    return Table({f"c{i}": v for i, v in enumerate(keys)}, {f"c{i}": s for i, s in enumerate(sizes)})


def wide(rows: int = 50_000) -> Table:
    """Return four unordered columns of 300, 300, 40 and 300 codes that follow one hidden place."""
    rng = np.random.default_rng(7)
    sizes = [300, 300, 40, 300]
    place, keys = rng.random(rows), []
    for size in sizes:
        near = (place * size + rng.normal(size=rows) * size / 20) % size
        keys.append(np.where(rng.random(rows) < 0.8, near, rng.random(rows) * size).astype(np.int64))
    keys[1] = rng.permutation(300)[keys[1]]
    return Table({f"c{i}": v for i, v in enumerate(keys)}, {f"c{i}": s for i, s in enumerate(sizes)})


def xor(rows: int = 20_000) -> Table:
    """Return seven columns of two codes, of which the third is the xor of the first two: no pair shows it."""
    rng = np.random.default_rng(8)
    keys = {n: rng.integers(0, 2, rows) for n in "abcdefg"}
    keys["c"] = keys["a"] ^ keys["b"]
    return Table(keys, dict.fromkeys(keys, 2))


SHAPES: dict[str, Callable[[], Table]] = {
    "mixed": mixed,
    "sparse": sparse,
    "xor": xor,
    "independent": independent,
    "wide": wide,
    "one_factor": one_factor,
    "local": local,
}
