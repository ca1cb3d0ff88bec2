"""Notes: what an answer is about, said beside its numbers. They follow from public facts alone."""

from __future__ import annotations

from bisect import bisect_left

from sordino.curator.allocation import Threshold
from sordino.neighbors import Neighbors

__all__ = ["contribution_notes", "key_note", "selection_note", "units_to_show"]


def contribution_notes(neighbors: Neighbors, *, private_keys: bool) -> tuple[str, ...]:
    """Return which rows of a unit take no part in an answer, where the declaration caps them."""
    rows = neighbors.describe_caps()
    if rows is None:
        return ()
    if not private_keys or neighbors.groups >= neighbors.contributions:
        return (rows,)
    unit = "" if neighbors.unit is None else neighbors.unit.column
    return (rows, f"at most {neighbors.groups:,} keys of one {unit} count; its rows under other keys are not counted")


def units_to_show(threshold: Threshold, chance: float) -> int:
    """Return the least number of units with which a private key shows with this chance."""
    return 1 + bisect_left(range(1, 2**62), chance, key=threshold.appears)  # it rises


def key_note(threshold: Threshold) -> str:
    """Return below which size private keys stay hidden."""
    half, sure = units_to_show(threshold, 0.5), units_to_show(threshold, 0.95)
    return (
        f"keys of fewer than about {half:,} units stay hidden: a key shows where its noisy count of units reaches "
        f"{threshold.threshold:,} (half of the keys of {half:,} units do, 95% of those of {sure:,})"
    )


def selection_note(groups: int | None) -> str:
    """Return how rows that noisy values chose are to be read; `groups` is how many there were, None where private."""
    together = "all groups" if groups is None else f"all {groups:,} groups"
    return (
        "HAVING or LIMIT chose these rows by noisy values, which lean towards being chosen; errors and intervals allow for "
        f"it: they hold for {together} together, so they are wider than those of one group by itself"
    )
