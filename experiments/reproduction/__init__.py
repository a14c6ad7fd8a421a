"""Every table, figure and claim of the papers beside our results, and the runs behind them."""

PROGRAMS = ("page", "results")
