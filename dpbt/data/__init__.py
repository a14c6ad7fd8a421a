"""Reads private files and encodes them as tables of bins, each row on its own."""
