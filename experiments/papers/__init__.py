"""One folder for each paper: settings, run, table, and what is special beside them."""
