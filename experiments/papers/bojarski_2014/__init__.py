"""Bojarski et al. (2014): random decision forests, with and without privacy."""
