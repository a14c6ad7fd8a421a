"""Predict with a saved model. It needs NumPy and no JAX; docs/tutorial.md has it as a step."""

import csv
import sys

import dpbt

model = dpbt.load("model.json")
with open(sys.argv[1]) as file:
    people = list(csv.DictReader(file))
print("class:", model.predict(people))
print(model.predict_proba(people))
print("JAX was imported:", "jax" in sys.modules)
