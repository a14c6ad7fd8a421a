"""One module for each figure or table: `draw()` returns it, from the library's own functions or saved results."""
