"""Attacks on the guarantee from outside, kept as tests.

They share no formula with the library: likelihoods, laws and inversions are written here anew.
"""
