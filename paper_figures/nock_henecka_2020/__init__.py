"""Figures and tables of Nock & Henecka (2020)."""
