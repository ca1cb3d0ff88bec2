"""Audits and attacks: how much loss is seen. `sordino.audit` exports it."""
