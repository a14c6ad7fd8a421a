"""Predict with a saved model. It needs NumPy and no JAX; docs/tutorial.md has it as a step."""

import csv
import sys

import dpbt

model = dpbt.load("model.json")
with open(sys.argv[1]) as file:
    columns = {name: cells for name, *cells in zip(*csv.reader(file), strict=True)}
print("class:", model.predict(columns))
print(model.predict_proba(columns))
print("JAX was imported:", "jax" in sys.modules)
