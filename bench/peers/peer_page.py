"""The page of our synthetic rows beside those of other libraries: what bench/peers/synthesis.py writes from its runs."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

OURS, FLOOR = "sordino", "resampled"
WAYS = ("columns", "pairs", "triples")
NAMES = {OURS: "`synth.fit`", FLOOR: "the table's own rows, resampled (not private)"}
TITLES = {
    "mst": "MST",
    "aim": "AIM",
    "privbayes": "PrivBayes",
    "smartnoise": "SmartNoise",
    "shipped": "with its own draw of rows",
}

INTRODUCTION = """\
# Synthetic rows beside other libraries

`python bench/peers/synthesis.py --write bench/results/synth-beside-peers.md` writes this page from its runs, which
[bench/results/synthesis.jsonl](synthesis.jsonl) has; nobody edits it.
Figures are mean total-variation distances from the table over all columns, all pairs and all triples of columns (or over 400
random ones, if there are more): a smaller distance is better. [Synthetic data](../../docs/synth.md) says what `synth.fit` does.

{verdict}

Each method is fitted to the same table at the same epsilon and delta {delta}, in a process of its own, at its library's
defaults, and draws as many rows as the table has. A number in brackets is the number of seeds that a figure is the mean of; a
figure without it is from one run. Seconds are processor seconds of fit and draw on one core, without imports. MB is the peak
memory of the process, with imports. If they differ with epsilon, they are listed in the order of epsilon.
{machine}

What each method gets in addition to the table:

- `synth.fit`: the declared values of each column, under `add_remove`. The number of rows is private, noise is exact, and 5% of
  the loss goes to intervals of answers.
- dpmm (MST, AIM, PrivBayes): the declared number of codes of each column. Its binning, which would cost loss, is left out. AIM
  has its own cap on the model, 80 MB. Counts move by one with a row, as under `add_remove`.
- SmartNoise (MST, AIM): the values of each column as they are in the table and, for MST, the exact number of rows, at no loss.
  Other counts move by one with a row, as under `add_remove`. It draws rows by mbi 1.1.0, whose rounding lets columns that
  share a parent follow each other; mbi 2 mends this, but SmartNoise does not take it. So rows are also drawn
  independently from the same fit, which is the first line of each method. Both are compared.
- mbi 2.0.0, private-pgm's own package, does inference only and has no mechanism. SmartNoise's MST and AIM are those of its
  repository.

Versions: {versions}.
"""


@dataclass(frozen=True)
class Figure:
    """One run: distances of columns, pairs and triples, processor seconds, megabytes, or why there are none."""

    table: str
    epsilon: str
    peer: str
    seed: int
    version: str
    distances: tuple[float, ...] = ()
    cpu: float = 0.0
    memory: float = 0.0
    failure: str = ""

    @classmethod
    def of(cls, line: dict[str, Any]) -> Figure:
        named = {n: line[n] for n in ("table", "epsilon", "peer", "seed", "version")}
        if "failure" in line:
            return cls(**named, failure=line["failure"])
        ways = tuple(line[f"{w}-way"] for w in (1, 2, 3))
        return cls(**named, distances=ways, cpu=line["cpu_s"], memory=line["memory_mb"])


@dataclass(frozen=True)
class Cell:
    """The runs of one method on one table at one epsilon, over its seeds."""

    figures: tuple[Figure, ...]

    @property
    def complete(self) -> tuple[Figure, ...]:
        return tuple(f for f in self.figures if not f.failure)

    def distance(self, way: int) -> float:
        return statistics.fmean(f.distances[way] for f in self.complete)

    def text(self) -> str:
        """Return the distances, or why there are none, and over how many seeds."""
        if not self.figures:
            return "not run"
        if not self.complete:
            return self.figures[0].failure
        seeds = f" ({len(self.complete)})" if len(self.complete) > 1 else ""
        return "/".join(_show(self.distance(w)) for w in range(len(WAYS))) + seeds

    def cost(self, name: str) -> str:
        """Return the mean of `cpu` or `memory`."""
        if not self.complete:
            return ""
        mean = statistics.fmean(getattr(f, name) for f in self.complete)
        return f"{mean:.1f}" if mean < 10 else f"{mean:,.0f}"


def page(figures: Sequence[Figure], peers: Sequence[str], described: dict[str, str], delta: str) -> str:
    """Return the page: where a peer is ahead, how it was measured, and a table of figures for each table of data."""
    versions = sorted({f.version for f in figures if f.peer not in (OURS, FLOOR)})
    ours = sorted({f.version for f in figures if f.peer == OURS})
    lines = [
        INTRODUCTION.format(
            verdict=verdict(figures, peers), delta=delta, machine=machine(),
            versions=", ".join([*versions, f"Sordino at {', '.join(ours)}"]),
        )
    ]  # fmt: skip
    lines += [_section(table, text, figures, peers) for table, text in described.items()]
    return "\n".join(lines)


def verdict(figures: Sequence[Figure], peers: Sequence[str]) -> str:
    """Return where a peer is ahead of us, first; then where it was behind, took too long, or was not run."""
    ahead, behind, none, absent = [], 0, [], 0
    for table, epsilon in dict.fromkeys((f.table, f.epsilon) for f in figures):
        ours = _cell(figures, table, epsilon, OURS)
        for peer in _draws(peers):
            theirs = _cell(figures, table, epsilon, peer)
            if not theirs.figures or not ours.complete:
                absent += not peer.endswith("-shipped")
            elif not theirs.complete:
                none.append(f"{_name(peer)} on {table} at {epsilon} ({theirs.figures[0].failure})")
            elif found := [w for w in range(len(WAYS)) if theirs.distance(w) < ours.distance(w)]:
                of = ", ".join(f"{WAYS[w]} {_show(theirs.distance(w))} for {_show(ours.distance(w))}" for w in found)
                ahead.append(f"- {_name(peer)} on {table} at epsilon {epsilon}: {of}")
            else:
                behind += 1
    first = (
        ["**A peer is ahead of `synth.fit`** (its distance, for ours):", "", *ahead]
        if ahead
        else ["No peer is ahead of `synth.fit` here."]
    )
    rest = [
        f"In {behind} of the {behind + len(ahead)} comparisons that ended, `synth.fit` is ahead in columns, pairs and triples."
    ]
    if none:
        rest.append(f"No rows to compare: {'; '.join(none)}.")
    if absent:
        rest.append(f"{absent} combinations of table, epsilon and peer were not run.")
    return "\n".join([*first, "", *rest])


def machine() -> str:
    """Return on what it ran."""
    return (
        f"Measured on {os.cpu_count()} {platform.machine()} cores with Python {platform.python_version()}, beside other work:\n"
        "compare seconds by their ratio."
    )


def _section(table: str, described: str, figures: Sequence[Figure], peers: Sequence[str]) -> str:
    epsilons = sorted({f.epsilon for f in figures if f.table == table}, key=float)
    lines = [
        f"## {table}", "", described, "",
        f"| columns/pairs/triples at epsilon | {' | '.join(epsilons)} | seconds | MB |", "|---|" + "---|" * (len(epsilons) + 2),
    ]  # fmt: skip
    for peer in (OURS, *_draws(peers), FLOOR):
        cells = [_cell(figures, table, epsilon, peer) for epsilon in epsilons]
        if any(c.figures for c in cells):
            costs = [
                "; ".join(dict.fromkeys(filter(None, (c.cost(name) for c in cells)))) for name in ("cpu", "memory")
            ]
            lines.append(f"| {_name(peer)} | {' | '.join(c.text() for c in cells)} | {costs[0]} | {costs[1]} |")
    return "\n".join([*lines, ""])


def _draws(peers: Sequence[str]) -> list[str]:
    """Return every line that may be there: a peer, and its own draw of rows where that is another."""
    return [name for peer in peers for name in (peer, f"{peer}-shipped")]


def _cell(figures: Sequence[Figure], table: str, epsilon: str, peer: str) -> Cell:
    return Cell(tuple(f for f in figures if (f.table, f.epsilon, f.peer) == (table, epsilon, peer)))


def _name(peer: str) -> str:
    return NAMES.get(peer) or " ".join(TITLES.get(word, word) for word in peer.split("-"))


def _show(distance: float) -> str:
    return f"{distance:.4f}".lstrip("0")
