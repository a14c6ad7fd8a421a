"""What all rooms share and what needs no JAX: nouns, checks, arithmetic and files."""
