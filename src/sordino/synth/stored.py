"""Models as files: arrays in NumPy's open format and one JSON header with a checksum; no pickle, nothing that runs.

A file that was altered, cut short or made by another program is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sordino.domain import Domain, column_from_dict
from sordino.errors import DeclarationError, SourceError
from sordino.synth.answers import ModelParts
from sordino.synth.calibrate import MarkovRandomField
from sordino.synth.columns import model_column
from sordino.synth.compress import DomainCompression
from sordino.synth.constraints import Constraint, Determines, Never
from sordino.synth.error_law import ColumnNoise, ErrorLaw
from sordino.synth.junction import JunctionTree, Link
from sordino.synth.nodes import node_from, node_to

__all__ = ["Stored", "read", "write"]

Stored = tuple[ModelParts, tuple[Constraint, ...], dict[str, str]]

_FORMAT = "sordino model 3"  # 3: errors by column, pair and more; 2: missing cells a key of their own
_LARGEST = 1 << 31
_SCALES = ("own", "measured", "unmeasured", "higher", "rows")
_BROKEN = (  # what reading an altered archive may raise
    ValueError,
    KeyError,
    OSError,
    EOFError,
    TypeError,
    IndexError,
    AttributeError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


def write(path: str | Path, parts: ModelParts, constraints: Sequence[Constraint], facts: Mapping[str, str]) -> None:
    """Write a model to `path`, whole or not at all."""
    header = json.dumps(_header(parts, constraints, facts), sort_keys=True)
    raw = {"header": np.frombuffer(header.encode(), dtype=np.uint8), **_arrays(parts)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, checksum=np.frombuffer(_checksum(raw), dtype=np.uint8), **raw)
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    try:
        partial.write_bytes(buffer.getvalue())
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
        made = _read(source)
    except _BROKEN:
        made = None
    if isinstance(made, str):
        raise DeclarationError(f"{source} is of the format {made!r}; this version of sordino reads {_FORMAT!r}")
    if made is None:
        raise DeclarationError(f"{source} is not a whole model file: it was altered, cut short, or is something else")
    return made


def _read(source: Path) -> Stored | str | None:
    """Return the model, the name of a format that is not this one, or None for what is no whole model."""
    with zipfile.ZipFile(source) as archive:
        if sum(i.file_size for i in archive.infolist()) > _LARGEST:
            return None
    with np.load(source, allow_pickle=False) as stored:
        raw = {name: stored[name] for name in stored.files}
    if raw.pop("checksum").tobytes() != _checksum(raw):
        return None
    header = json.loads(raw["header"].tobytes().decode())
    if header["format"] != _FORMAT:
        return str(header["format"])[:40]
    domain = Domain({n: column_from_dict(d) for n, d in header["domain"]})
    columns = tuple(model_column(n, domain) for n in domain)
    codes = tuple(DomainCompression(raw[f"codes{i}"], int(raw[f"codes{i}"].max()) + 1) for i in range(len(columns)))
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
    )
    return parts, tuple(_constraint(c) for c in header["constraints"]), header["facts"]


def _errors(header: Any, measured: frozenset[tuple[int, ...]], raw: dict[str, Any]) -> ErrorLaw:
    count = sum(name.startswith("noise") for name in raw)
    columns = tuple(ColumnNoise(*(part.astype(np.float64) for part in raw[f"noise{i}"])) for i in range(count))
    return ErrorLaw(columns, measured, **{name: float(header[name]) for name in _SCALES})


def _arrays(parts: ModelParts) -> dict[str, Any]:
    found: dict[str, Any] = {f"codes{i}": c.codes for i, c in enumerate(parts.codes)}
    found |= {f"within{i}": w for i, w in enumerate(parts.within)}
    found |= {f"noise{i}": np.stack([c.share, c.variance, c.lean, c.drift]) for i, c in enumerate(parts.errors.columns)}
    found |= {f"table{i}": t for i, t in enumerate(parts.field.tables)}
    found |= {f"separator{i}": s for i, s in enumerate(parts.field.separators)}
    return found


def _header(parts: ModelParts, constraints: Sequence[Constraint], facts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "domain": [[n, parts.domain[n].to_dict()] for n in parts.domain],
        "cliques": [list(c) for c in parts.field.tree.cliques],
        "links": [[link.parent, link.child, list(link.separator)] for link in parts.field.tree.links],
        "measured": sorted(list(m) for m in parts.measured),
        "errors": {name: getattr(parts.errors, name) for name in _SCALES},
        "constraints": [_plain(c) for c in constraints],
        "facts": dict(facts),
    }


def _checksum(arrays: dict[str, Any]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.digest()


def _plain(one: Constraint) -> Any:
    if isinstance(one, Never):
        return ["never", node_to(one.condition)]
    return ["determines", one.of, one.column, [list(v) for v in one.values]]


def _constraint(data: Any) -> Constraint:
    if data[0] == "never":
        return Never(node_from(data[1]))
    return Determines(data[1], data[2], tuple((a, b) for a, b in data[3]))
