"""Plain loops over rows, written from papers and standards, with which the library must agree."""
