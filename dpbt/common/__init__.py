"""Tools that all rooms use, and that know nothing of privacy or trees.

- `validate` checks arguments, `storage` reads and writes files.
- `arithmetic` computes with arrays of NumPy and of JAX alike.
- `compilation` keeps a bounded number of compiled programs.
- `progress` reports how far a run is, `extras` imports packages that are optional.

A loaded model needs no JAX, so `compilation` alone imports it.
"""
