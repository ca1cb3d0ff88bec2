"""Numbers that one scan of a question has read, kept in memory for its further scans, which would read the same.

A scan that takes them answers as if it had read the rows: it reads the same text, over one state of the data, by the same steps.
What is kept, and when it is dropped, follows from what the question is sure to ask and from a public limit of memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sordino.core.primitives import ProductSums

    # Columns of whole numbers: (columns, rows).
    NumberBlock = npt.NDArray[np.integer[Any]]

# The most bytes that a question keeps: 26 million rows of 20 numbers of up to 65,000 steps, or half as many of more steps.
MOST_KEPT = 1 << 30


def reading_of(rows: str, sums: ProductSums) -> Hashable:
    """Return what tells the numbers that are read of a text's rows, whatever is added up of them."""
    steps = [
        None if how is None else (how.first, how.last, how.op, how.factor, how.origin, how.by) for how in sums.floats
    ]
    return rows, tuple(steps), sums.ends, sums.weight is None, sums.folds > 1


@dataclass(frozen=True, slots=True)
class KeptReading:
    """The columns of all rows, in blocks, and the sums of the products of their numbers where all have one weight."""

    blocks: Sequence[NumberBlock]
    alike: Any


class KeptNumbers:
    """What a question has read so far, of `room` bytes at most, for those of its `scans` that read the same.

    It belongs to the run of one question over one state of the data, whose scans come one after the other.
    """

    def __init__(self, scans: Iterable[tuple[str, ProductSums]], room: int) -> None:
        self._room = room
        self._readings: dict[Hashable, KeptReading] = {}
        # How many scans of each kind are to come.
        self._coming = Counter(reading_of(rows, sums) for rows, sums in scans)

    def room_for(self, reading: Hashable) -> int:
        """Return the bytes that a scan may keep: none where no further scan reads the same."""
        return self._room - self.size if self._coming[reading] > 1 else 0

    def keep(self, reading: Hashable, read: KeptReading) -> None:
        """Keep what a scan of all rows has read."""
        self._coming[reading] -= 1
        if self._coming[reading] > 0:
            self._readings[reading] = read

    def take(self, reading: Hashable) -> KeptReading | None:
        """Return what a scan has read, and drop it with the last scan that needs it; None where nothing is kept."""
        if reading not in self._readings:
            return None
        self._coming[reading] -= 1
        return self._readings[reading] if self._coming[reading] > 0 else self._readings.pop(reading)

    def clear(self) -> None:
        """Drop all, and keep nothing more."""
        self._readings.clear()
        self._coming.clear()

    @property
    def size(self) -> int:
        """The bytes of what is kept."""
        return sum(block.nbytes for read in self._readings.values() for block in read.blocks)
