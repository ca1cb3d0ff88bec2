"""Tabulations: which tables to measure, and what follows from their noisy values; all through a Queryable."""
