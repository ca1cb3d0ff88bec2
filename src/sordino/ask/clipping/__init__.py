"""Private search for clipping bounds, through a Queryable only. Sees no data."""

from typing import Literal, get_args

Method = Literal["histogram", "ladder", "sparse_vector", "quantile"]  # the ways to search for bounds
METHODS: tuple[str, ...] = get_args(Method)
