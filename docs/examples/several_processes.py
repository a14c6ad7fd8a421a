"""Learn from one table whose rows lie in the folders of several processes.

Start it once for each process, with the number of the process and a folder of its own:

python docs/examples/several_processes.py first-machine:4321 4 0 share-0 1000000
"""

import sys

import jax

import dpbt
from dpbt import recipes
from dpbt.training.blocks import processes

address, count, number, folder, rows = sys.argv[1:]
jax.distributed.initialize(address, int(count), int(number))

table = dpbt.blocks.open_folder(folder)
key = processes.shared_key(dpbt.fresh_key())  # that of the first process, on all
recipe = recipes.auto(epsilon=1.0, delta=1e-6, rows=int(rows), domain=table.domain)
model = dpbt.fit(key, table, recipe)

if number == "0":
    dpbt.save(model, "model.json", domain=table.domain)
    print(dpbt.ledger(model))
