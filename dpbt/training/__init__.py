"""Training: the steps of a round, the loops over rounds, and `fit`, which chooses among them."""
