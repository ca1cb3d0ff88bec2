"""Mechanisms: each turns exact vectors into private ones, with its theorem, its event and its error."""
