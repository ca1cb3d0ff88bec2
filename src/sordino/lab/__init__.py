"""To learn, to choose and to check: sensitivity, risk, audits, example data."""
