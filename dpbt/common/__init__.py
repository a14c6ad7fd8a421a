"""What all rooms share: the nouns, checks of arguments, arithmetic, and files with their formats.

A loaded model needs no JAX, so everything here but `types` imports none.
"""
