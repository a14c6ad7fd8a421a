"""What models and recipes are like: exact audits, effects, pictures."""
