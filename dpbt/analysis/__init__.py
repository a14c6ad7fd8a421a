"""What models and recipes are like: exact audits, diagnostics, models in words."""
