"""Error bounds and sample sizes of the papers."""
