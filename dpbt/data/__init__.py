"""From the bins of a private file to a table, each row by itself."""
