"""Tables to learn and measure with. `sordino.datasets` exports it."""
