"""Synthetic data: tables of the same shape that answer the questions of the original, at a stated loss."""
