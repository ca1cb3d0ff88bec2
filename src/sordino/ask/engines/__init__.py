"""Engines: each runs our SQL trees on one kind of store and returns exact answers, to the curator alone."""
