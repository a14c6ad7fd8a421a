"""What data owners need around the research core: commands, estimators, filters, pictures."""
