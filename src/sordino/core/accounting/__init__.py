"""What a run costs: events, composition, conversions, calibration and the durable ledger. Nothing here sees data."""
