"""Choosing epsilon from disclosure risk and from other readings of it. `sordino.risk` exports it."""
