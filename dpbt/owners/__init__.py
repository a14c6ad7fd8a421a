"""Tools for data owners around the research core: commands, estimators, filters, pictures."""
