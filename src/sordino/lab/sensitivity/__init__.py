"""The sensitivity laboratory: how far an answer can move. `sordino.sensitivity` exports it."""
