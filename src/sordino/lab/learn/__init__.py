"""The bare mechanisms, to learn with: NOT PRIVATE where they are fed real values. `sordino.learn` exports them."""
