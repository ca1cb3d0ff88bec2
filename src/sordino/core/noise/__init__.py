"""Exact samplers over the integers, the laws of what they draw, and the one source of random bits under them.

Everything here is stated in integers and Fractions, and nothing here knows what privacy is: a scale comes in, noise
of exactly that law goes out. Real values reach the samplers through the public grid of `lattice`.
"""

from __future__ import annotations

from sordino.core.noise.rng import Rng

__all__ = ["Rng"]
