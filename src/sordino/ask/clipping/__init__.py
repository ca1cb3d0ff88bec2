"""Private search for clipping bounds, through a Queryable only. Sees no data."""

from typing import Literal, get_args

# The ways to search for bounds.
Method = Literal["histogram", "ladder", "sparse_vector", "quantile"]
METHODS: tuple[str, ...] = get_args(Method)
