"""Models as files: arrays in NumPy's open format and one JSON header with a checksum; no pickle, nothing that runs.

A file that was altered, cut short or made by another program is refused.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sordino.core.domain import Domain, column_from_dict
from sordino.core.errors import DeclarationError, SordinoError, SourceError
from sordino.synth.answers import ModelParts
from sordino.synth.encoded_column import EncodedColumn, Heaps, model_column, round_sets_of
from sordino.synth.error_law import ColumnNoise, ErrorLaw
from sordino.synth.junction_tree import JunctionTree, Link
from sordino.synth.markov_random_field import MarkovRandomField
from sordino.synth.measurement import MeasuredCounts, NoisyTable
from sordino.synth.one_way_marginals import DomainCompression
from sordino.synth.rules import Rule, rule_from_data

Stored = tuple[ModelParts, tuple[Rule, ...], dict[str, str]]

# Format 3 has errors by column, pair and more; format 2 had a key of its own for missing cells.
_FORMAT = "sordino model 3"
# Only models under rules have it.
_RULED = ("joined",)
_LARGEST = 1 << 31
_SCALES = ("own", "measured", "unmeasured", "higher", "rows")
# What reading an altered archive may raise.
_BROKEN = (
    ValueError,
    KeyError,
    ArithmeticError,
    OSError,
    EOFError,
    TypeError,
    IndexError,
    AttributeError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    SordinoError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


def encode(parts: ModelParts, constraints: Sequence[Rule], facts: Mapping[str, str]) -> bytes:
    """Return a model as the content of a file."""
    header = json.dumps(_header(parts, constraints, facts), sort_keys=True)
    raw = {"header": np.frombuffer(header.encode(), dtype=np.uint8), **_arrays(parts)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, checksum=np.frombuffer(_checksum(raw), dtype=np.uint8), **raw)
    return buffer.getvalue()


def write(path: str | Path, content: bytes) -> None:
    """Write what `encode` returned to `path`, whole or not at all."""
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    try:
        partial.write_bytes(content)
        os.replace(partial, target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise SourceError(
            f"the model cannot be written to {target}: see that its folder exists and can be written"
        ) from None


def read(path: str | Path) -> Stored:
    """Return what `write` wrote; raises SourceError where there is no file, DeclarationError for an altered one."""
    source = Path(path)
    if not source.is_file():
        raise SourceError(f"there is no model file at {source}")
    try:
        stored = _read(source)
    except _BROKEN:
        stored = None
    if isinstance(stored, str):
        raise DeclarationError(f"{source} is of the format {stored!r}; this version of sordino reads {_FORMAT!r}")
    if stored is None:
        raise DeclarationError(f"{source} is not a whole model file: it was altered, cut short, or is something else")
    if any(len(k.codes) != c.size for c, k in zip(stored[0].columns, stored[0].codes, strict=True)):
        raise DeclarationError(
            f"{source} was fitted by a version that cut its columns otherwise: use that version, or fit again"
        )
    return stored


def _read(source: Path) -> Stored | str | None:
    """Return the model, the name of a format that is not this one, or None for what is no whole model."""
    with zipfile.ZipFile(source) as archive:
        if sum(i.file_size for i in archive.infolist()) > _LARGEST:
            return None
    with np.load(source, allow_pickle=False) as archived:
        raw = {name: archived[name] for name in archived.files}
    if raw.pop("checksum").tobytes() != _checksum(raw):
        return None
    header = json.loads(raw["header"].tobytes().decode())
    # Half of a surrogate pair, which a JSON escape can state, is no text.
    json.dumps(header, ensure_ascii=False).encode()
    if header["format"] != _FORMAT:
        return str(header["format"])[:40]
    domain = Domain({n: column_from_dict(d) for n, d in header["domain"]})
    edges = header.get("edges", {})
    heaps = header.get("heaps", {})
    lumps = header.get("lumps", {})
    columns = tuple(_column(n, domain, edges.get(n), heaps.get(n), lumps.get(n)) for n in domain)
    codes = tuple(DomainCompression(raw[f"codes{i}"], int(raw[f"codes{i}"].max()) + 1) for i in range(len(columns)))
    sizes = [code.size for code in codes]
    _check_tree(header, sizes)
    _check_arrays(header, raw, sizes)
    cliques = tuple(tuple(c) for c in header["cliques"])
    links = tuple(Link(p, c, tuple(s)) for p, c, s in header["links"])
    field = MarkovRandomField(
        JunctionTree(cliques, links),
        [raw[f"table{i}"].astype(np.float64) for i in range(len(cliques))],
        [raw[f"separator{i}"].astype(np.float64) for i in range(len(links))],
    )
    parts = ModelParts(
        domain,
        columns,
        codes,
        tuple(raw[f"within{i}"] for i in range(len(columns))),
        field,
        frozenset(tuple(m) for m in header["measured"]),
        _errors(header["errors"], frozenset(tuple(m) for m in header["measured"]), raw),
        _counts(header, raw),
    )
    constraints = tuple(rule_from_data(c) for c in header["constraints"])
    for rule in constraints:
        rule.check({c.name: c for c in columns}, domain)
    facts = header["facts"]
    _require(isinstance(facts, dict) and all(isinstance(text, str) for text in facts.values()))
    return parts, constraints, facts


def _column(name: str, domain: Domain, edges: Any, heaps: Any, lump: Any) -> EncodedColumn:
    """Return a column as it was fitted: with its released edges, heaps and lump, or as its declaration cuts it."""
    declared = model_column(name, domain)
    if edges is None:
        _require(heaps is None and lump is None)
        return declared
    _require(declared.edges is not None and len(edges) > 1 and all(type(e) is int for e in edges))
    _require((edges[0], edges[-1]) == (declared.lowest, declared.highest) and len(set(edges[:-1])) == len(edges) - 1)
    _require(edges == sorted(edges))
    _require(lump is None or (type(lump) is float and 1.0 <= lump < math.inf))
    column = replace(declared.with_edges(tuple(edges)), lump=lump)
    return column if heaps is None else replace(column, heaps=_heaps(column, heaps))


def _heaps(column: EncodedColumn, heaps: Any) -> Heaps:
    """Return the heaps of a column; raises an error of `_BROKEN` unless its parts and sets are those of the column."""
    starts, sets, weights = heaps["starts"], heaps["sets"], heaps["weights"]
    for numbers in (starts, sets):
        _require(all(type(n) is int for n in numbers) and numbers == sorted(set(numbers)))
    _require(starts[0] == column.lowest and starts[-1] <= column.highest)
    _require(sets[0] == 0 and sets[-1] <= len(round_sets_of(column)))
    _require(len(weights) == len(starts) and all(len(of_part) == len(sets) for of_part in weights))
    _require(all(type(w) is float and 0.0 <= w < math.inf for of_part in weights for w in of_part))
    return Heaps(tuple(starts), tuple(sets), tuple(tuple(of_part) for of_part in weights))


def _require(holds: bool) -> None:
    """Raise ValueError, which `read` turns into words, where a file's parts do not fit each other."""
    if not holds:
        raise ValueError


def _check_tree(header: Any, sizes: Sequence[int]) -> None:
    """Raise an error of `_BROKEN` unless the cliques and links are a tree over all columns, and each list names columns."""
    cliques = header["cliques"]
    links = header["links"]
    loose = [columns for columns, _ in (*header.get("loose", []), *header.get("parts", []))]
    for columns in (*cliques, *(separator for *_, separator in links), *header["measured"], *loose):
        _require(isinstance(columns, list) and all(type(c) is int and 0 <= c < len(sizes) for c in columns))
        _require(columns == sorted(set(columns)))
    _require({c for clique in cliques for c in clique} == set(range(len(sizes))) and len(links) == len(cliques) - 1)
    reached = {0}
    for parent, child, separator in links:
        _require(type(parent) is int and type(child) is int and parent in reached and 0 < child < len(cliques))
        _require(child not in reached and set(separator) <= {*cliques[parent]} & {*cliques[child]})
        reached.add(child)


def _check_arrays(header: Any, raw: Mapping[str, Any], sizes: Sequence[int]) -> None:
    """Raise an error of `_BROKEN` unless each array is of finite numbers and of the shape that the header gives it."""
    _require(all(array.dtype.kind in "iuf" and bool(np.isfinite(array).all()) for array in raw.values()))
    tables = {"table": header["cliques"], "separator": [s for *_, s in header["links"]]}
    tables["loose"] = [columns for columns, _ in header.get("loose", [])]
    for name, several in tables.items():
        _require(all(raw[f"{name}{i}"].shape == tuple(sizes[c] for c in columns) for i, columns in enumerate(several)))
    one_way = header.get("one_way", [])
    _require(len(one_way) in (0, len(sizes)))
    for i, size in enumerate(sizes):
        codes = raw[f"codes{i}"]
        _require(codes.ndim == 1 and codes.dtype.kind in "iu" and set(codes.tolist()) == set(range(size)))
        _require(raw[f"within{i}"].shape == codes.shape and raw[f"noise{i}"].shape == (4, *codes.shape))
        _require(not one_way or raw[f"own{i}"].shape == codes.shape)
    parts = {tuple(columns): variance for columns, variance in header.get("parts", [])}
    # Every part of a table, without axes of one key: an answer sums over all of them.
    for columns in ((), *([c] for c in range(len(one_way))), *tables["loose"]) if parts else ():
        wide = [column for column in columns if sizes[column] > 1]
        _require(all(part in parts for n in range(len(wide) + 1) for part in itertools.combinations(wide, n)))
    variances = [v for _, v in header.get("loose", [])] + one_way + [*parts.values()]
    numbers = [*variances, *(header["errors"][name] for name in _SCALES)]
    numbers += [header["errors"][name] for name in _RULED if name in header["errors"]]
    _require(all(type(n) in (int, float) and math.isfinite(n) and n >= 0 for n in numbers))


def _counts(header: Any, raw: dict[str, Any]) -> MeasuredCounts:
    """Return the noisy tables; files of former versions have only those that no clique holds, or none."""
    tables = {tuple(m): NoisyTable(raw[f"loose{i}"], v) for i, (m, v) in enumerate(header.get("loose", []))}
    variances = header.get("one_way", [])
    one_way = tuple(NoisyTable(raw[f"own{i}"], v) for i, v in enumerate(variances))
    parts = {tuple(columns): variance for columns, variance in header.get("parts", [])}
    return MeasuredCounts(one_way, tables, laplace=bool(header.get("laplace", False)), parts=parts)


def _errors(header: Any, measured: frozenset[tuple[int, ...]], raw: dict[str, Any]) -> ErrorLaw:
    count = sum(name.startswith("noise") for name in raw)
    columns = tuple(ColumnNoise(*(part.astype(np.float64) for part in raw[f"noise{i}"])) for i in range(count))
    own, among_measured, unmeasured, higher, rows = (float(header[name]) for name in _SCALES)
    joined = float(header["joined"]) if "joined" in header else None
    return ErrorLaw(columns, measured, own, among_measured, unmeasured, higher, rows, joined)


def _arrays(parts: ModelParts) -> dict[str, Any]:
    arrays: dict[str, Any] = {f"codes{i}": c.codes for i, c in enumerate(parts.codes)}
    arrays |= {f"within{i}": w for i, w in enumerate(parts.within)}
    arrays |= {
        f"noise{i}": np.stack([c.share, c.variance, c.lean, c.drift]) for i, c in enumerate(parts.errors.columns)
    }
    arrays |= {f"table{i}": t for i, t in enumerate(parts.field.tables)}
    arrays |= {f"loose{i}": t.cells for i, t in enumerate(parts.counts.tables.values())}
    arrays |= {f"own{i}": t.cells for i, t in enumerate(parts.counts.one_way)}
    arrays |= {f"separator{i}": s for i, s in enumerate(parts.field.separators)}
    return arrays


def _header(parts: ModelParts, constraints: Sequence[Rule], facts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "domain": [[n, parts.domain[n].to_dict()] for n in parts.domain],
        "cliques": [list(c) for c in parts.field.tree.cliques],
        "links": [[link.parent, link.child, list(link.separator)] for link in parts.field.tree.links],
        "measured": sorted(list(m) for m in parts.measured),
        "loose": [[list(m), t.variance] for m, t in parts.counts.tables.items()],
        "one_way": [t.variance for t in parts.counts.one_way],
        "laplace": parts.counts.laplace,
        **({"parts": [[list(p), v] for p, v in parts.counts.parts.items()]} if parts.counts.parts else {}),
        "errors": {
            name: getattr(parts.errors, name) for name in (*_SCALES, *_RULED) if getattr(parts.errors, name) is not None
        },
        "constraints": [c.to_data() for c in constraints],
        "edges": {c.name: list(c.edges) for c in parts.columns if c.released and c.edges is not None},
        "heaps": {
            c.name: {"starts": c.heaps.starts, "sets": c.heaps.sets, "weights": c.heaps.weights}
            for c in parts.columns
            if c.heaps is not None
        },
        "lumps": {c.name: c.lump for c in parts.columns if c.lump is not None},
        "facts": dict(facts),
    }


def _checksum(arrays: dict[str, Any]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.digest()
