"""A question from the call to its Release: queries, engines, the curator, bounds, the project file."""
