"""One folder for each paper: its settings, `run`, `table`, and further programs."""
