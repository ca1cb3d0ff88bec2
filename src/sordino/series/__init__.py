"""Series: counts and sums released period after period for one loss, and what follows from them at no cost."""
