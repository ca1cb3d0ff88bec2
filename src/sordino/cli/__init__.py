"""The command line: one file a command, and what they share. It sees Releases, plans and the ledger, never an engine."""
