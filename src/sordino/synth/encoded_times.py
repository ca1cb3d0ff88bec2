"""Datetimes of a table given or made up, as whole steps of the declared resolution, and back. Knows no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.core.domain import DateTime
from sordino.core.time_zones import offsets

if TYPE_CHECKING:
    import pyarrow as pa

_MICROS = 1_000_000


def moment_steps_of(cells: Any, declared: DateTime) -> npt.NDArray[np.int64]:
    """Return the steps of an Arrow array of timestamps, days or text in ISO form; 0 where a cell is missing.

    What has no offset from UTC is read by the declared zone's clock.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    aware = pa.types.is_timestamp(cells.type) and cells.type.tz is not None
    moments = cells.cast(pa.timestamp("us", cells.type.tz if aware else None), safe=False)
    micros = np.asarray(pc.fill_null(moments.cast(pa.int64()), 0))
    low, high = (end * declared.resolution for end in declared.steps)
    if not aware:
        found = offsets(declared.zone, int(low), int(high))
        starts = np.array([start * _MICROS for start in found.local_starts], dtype=np.int64)
        away = np.array(found.values, dtype=np.int64) * _MICROS
        micros = micros - away[np.searchsorted(starts, micros, side="right")]
    steps: npt.NDArray[np.int64] = micros // int(declared.resolution * _MICROS)
    return steps


def moment_cells(steps: npt.NDArray[np.int64], declared: DateTime, absent: Any) -> pa.Array:
    """Return steps as an Arrow array of timestamps of the declared zone, null where `absent`."""
    import pyarrow as pa

    micros = steps.astype(np.int64) * int(declared.resolution * _MICROS)
    return pa.array(micros, mask=absent).cast(pa.timestamp("us", declared.zone))
