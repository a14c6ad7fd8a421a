"""Asadi et al. (2022): smooth boosting of 1-rules and top-down trees."""
