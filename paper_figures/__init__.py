"""One module for each figure or table: `draw()` returns it, from the library's own functions or saved results.

A module that draws one figure for each data set returns them by name, and they are saved as MODULE_NAME.
"""
