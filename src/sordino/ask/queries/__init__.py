"""Questions as frozen trees: what can be asked, how far one unit can move the answer, and what it says in words."""
