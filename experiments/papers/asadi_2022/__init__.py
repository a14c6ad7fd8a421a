"""Asadi et al. (2022): smooth boosting of 1-rules and top-down trees."""

PROGRAMS = (
    *("run", "series", "grid", "sparsity", "baselines", "rivals", "margins"),
    *("shared_budget", "tables", "aggregate"),
)
