"""From the cells of a private file to a table, each row by itself."""
