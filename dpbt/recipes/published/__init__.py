"""The papers' own calibrations, which a recipe takes with `calibration="published"` alone.

They cost more for the same budget, and some leave unprotected what the ledger names. New code has
no use for them: they are for comparison with the papers.
"""
