"""What a test hands in though its type forbids it, to see that it is refused."""

from __future__ import annotations

from typing import Any


def mistype(value: object) -> Any:
    """Return `value` as if it were of any type."""
    return value
