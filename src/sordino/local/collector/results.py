"""What comes of a task: estimates with intervals as plain data, and all its reports as one batch. It sees counts only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.local.collector.report_store import Chunk, Store, StoredTask
from sordino.local.collector.task_state import counts_from
from sordino.local.estimates.frequency import FrequencyEstimate
from sordino.local.estimates.prefix_tree import HeavyHittersEstimate
from sordino.local.protocols.heavy_hitters import HeavyHitters
from sordino.local.reports import Reports, SupportCounts
from sordino.local.task import Task, read_task


def find_task(store: Store, name: str | None) -> tuple[StoredTask, Task]:
    """Return a task of a store, as stored and as read; without a name the only one there is.

    Raises DeclarationError where the store holds no such task, or several and no name is given.
    """
    if name is None:
        tasks = store.tasks()
        if len(tasks) != 1:
            names = ", ".join(one.task for one in tasks) or "none"
            raise DeclarationError(f"name the task by --task; the store holds: {names}")
        name = tasks[0].task
    stored = store.task(name)
    return stored, read_task(stored.manifest, key=None)


def estimate_task(
    store: Store, name: str | None, *, confidence: float, malicious: float, recount: bool, simultaneous: bool = False
) -> dict[str, Any]:
    """Return the `results` of a task of a store; `recount` first counts every stored report again."""
    stored, task = find_task(store, name)
    counts = count_again(task, store.chunks(stored.number)) if recount else counts_from(stored.counts, task)
    return results(
        task,
        counts,
        lambda: store.chunks(stored.number),
        closed=stored.closed,
        confidence=confidence,
        malicious=malicious,
        simultaneous=simultaneous,
    )


def estimate_to_draw(store: Store, name: str | None) -> FrequencyEstimate | None:
    """Return the estimate of a task's labels, to be drawn; None where texts are searched for, or without reports."""
    stored, task = find_task(store, name)
    counts = counts_from(stored.counts, task)
    if isinstance(task.protocol, HeavyHitters) or not counts.n:
        return None
    estimate: FrequencyEstimate = task.protocol.estimate(counts)
    return estimate


def results(
    task: Task,
    counts: SupportCounts,
    chunks: Callable[[], Iterable[Chunk]],
    *,
    closed: bool,
    confidence: float,
    malicious: float,
    simultaneous: bool = False,
) -> dict[str, Any]:
    """Return the estimate of every label with its interval, and what all of it means, as JSON data.

    `adversarial_lower` and `adversarial_upper` hold where a share `malicious` of the reports was made up to move that label.
    With `simultaneous` all intervals hold at once with the confidence; `error` stays that of each by itself. Where texts
    are searched for, the labels are those found in the reports of the `chunks`, always simultaneously.
    """
    manifest = task.manifest
    protocol = task.protocol
    searched = isinstance(protocol, HeavyHitters)
    plain: dict[str, Any] = {
        "schema": 1,
        "task": manifest.task,
        "question": manifest.question,
        "reports": counts.n,
        "closed": closed,
        "epsilon": format_number(manifest.epsilon),
        "lifetime_epsilon": format_number(manifest.lifetime_epsilon),
        "permanent": task.permanent,
        "confidence": confidence,
        "simultaneous": simultaneous or searched,
        "malicious": malicious,
        "assumes": "one report a respondent: more of one permanent answer make the intervals too narrow",
        "labels": [],
    }
    if isinstance(protocol, HeavyHitters):
        if all(counts.supports):
            plain["labels"] = _describe_found(protocol.find(_reports(task, chunks())), confidence, malicious)
    elif counts.n:
        estimate = protocol.estimate(counts)
        plain["labels"] = _describe_labels(estimate, confidence, malicious, simultaneous=simultaneous)
    return plain


def _describe_found(found: HeavyHittersEstimate, confidence: float, malicious: float) -> list[dict[str, Any]]:
    rows = found.interval(confidence, malicious=malicious).to_pylist()
    return [{**row, "error": (row["upper"] - row["lower"]) / 2, "projected": row["frequency"]} for row in rows]


def _describe_labels(
    estimate: FrequencyEstimate, confidence: float, malicious: float, *, simultaneous: bool
) -> list[dict[str, Any]]:
    ends = estimate.interval(confidence, malicious=malicious, simultaneous=simultaneous).to_pydict()
    projected = estimate.projected().column("frequency").to_pylist()
    frequencies = estimate.frequencies
    errors = estimate.errors(confidence)
    return [
        {
            "label": label,
            "count": _number(frequencies[i] * estimate.n),
            "frequency": _number(frequencies[i]),
            "error": _number(errors[i]),
            "lower": _number(ends["lower"][i]),
            "upper": _number(ends["upper"][i]),
            "adversarial_lower": _number(ends["adversarial_lower"][i]),
            "adversarial_upper": _number(ends["adversarial_upper"][i]),
            "projected": _number(projected[i]),
        }
        for i, label in enumerate(estimate.labels)
    ]


def export_batch(task: Task, chunks: Iterable[Chunk]) -> bytes:
    """Return all reports as one batch in the wire format, sorted, so that their order says nothing of their arrival."""
    width = task.protocol.width
    rows = np.frombuffer(b"".join(chunk.reports for chunk in chunks), dtype=f"S{width}")
    return Reports.of(task.protocol, np.sort(rows).view(np.uint8).reshape(-1, width)).to_bytes()


def count_again(task: Task, chunks: Iterable[Chunk]) -> SupportCounts:
    """Return the counts of the reports themselves, not the counts stored beside them."""
    return task.protocol.count(_reports(task, chunks))


def _reports(task: Task, chunks: Iterable[Chunk]) -> Reports:
    rows = np.frombuffer(b"".join(chunk.reports for chunk in chunks), dtype=np.uint8).reshape(-1, task.protocol.width)
    return Reports.of(task.protocol, rows.copy())


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
