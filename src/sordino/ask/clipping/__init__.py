"""Private search for clipping bounds, through a Queryable only. Sees no data."""
