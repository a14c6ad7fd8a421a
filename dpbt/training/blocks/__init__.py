"""Fits of tables in blocks, which may be larger than memory."""
