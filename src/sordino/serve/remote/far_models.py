"""Synthetic models of a far table: the server fits one in a job of its own, and the model comes back whole, free to use."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from sordino.core.errors import DeclarationChanged, DeclarationError
from sordino.core.loss import Number, format_number, to_fraction
from sordino.serve.remote.far_errors import error_of
from sordino.serve.remote.operations import Operation, Pause

if TYPE_CHECKING:
    from sordino.serve.remote.far_questions import FarQuestions
    from sordino.synth.model import Model

_FIRST, _LONGEST = 0.2, 5.0  # seconds between looks at a job


class FitWords(TypedDict, total=False):
    """What a fit is asked with: as `sordino synth fit`, conditions of `never` as text, pairs of `at_most` the lower first."""

    columns: Sequence[str] | None
    marginals: Sequence[Sequence[str]] | None
    workload: str | Sequence[Sequence[str]]
    never: Sequence[str]
    at_most: Sequence[tuple[str, str]]
    cap: int | None
    assume_rows: int | None
    epsilon: Number | None
    delta: Number | None
    rho: Number | None


def fit_far(
    asked: FarQuestions,
    table: str,
    method: str,
    words: FitWords,
    *,
    request_id: str | None,
    watch: Callable[[str, float], None] | None,
) -> Operation[Model]:
    """Return the model, once its job is done: charged once, however often it has to be asked.

    `watch` is called with the stage and the seconds so far as they change. Raises what `sd.synth.fit` does, ApprovalNeeded
    where an officer has to approve, and DeclarationChanged where the table is declared otherwise than when it was read.
    """
    known = asked.tables[table]["declaration"]
    now = yield from asked.get("/v1/tables")
    if not any(one["name"] == table and one["declaration"] == known for one in now["tables"]):
        raise DeclarationChanged(
            f"table {table!r} at {asked.url} is declared otherwise than when this connection read it: look at what changed, "
            "then .refresh() and fit again; nothing was charged"
        )
    body: dict[str, Any] = {"table": table, "method": method, **{n: v for n, v in words.items() if v is not None}}
    for name in ("epsilon", "delta", "rho"):
        if name in body:
            body[name] = format_number(to_fraction(body[name], name=name))
    return (yield from asked.charge("/v1/models", body, request_id, lambda job: _await_model(asked, job, watch)))


def _await_model(
    asked: FarQuestions, job: dict[str, Any], watch: Callable[[str, float], None] | None
) -> Operation[Model]:
    from sordino.synth.model import load

    pause, stage = _FIRST, ""
    while job["state"] == "running":
        if watch is not None and job["stage"] != stage:
            stage = str(job["stage"])
            watch(stage, float(job["seconds"]))
        yield Pause(pause)
        pause = min(1.5 * pause, _LONGEST)
        job = yield from asked.get(f"/v1/jobs/{job['id']}")
    if job["state"] != "done":
        raise error_of(job["problem"])
    data = yield from asked.get(f"/v1/models/{job['model']}/file")
    if not isinstance(data, bytes):
        raise DeclarationError("sent no model file", key="the server")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "far.model"
        path.write_bytes(data)
        return load(path)
