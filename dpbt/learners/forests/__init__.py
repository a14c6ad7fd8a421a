"""Random trees: a structure drawn without the rows, and private leaves."""
