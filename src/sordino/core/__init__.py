"""What a guarantee rests on: noise, accounting, mechanisms, estimates, the ledger, and the words that every package uses."""
