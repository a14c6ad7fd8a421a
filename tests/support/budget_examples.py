"""Ledgers, recipes and filters that tests of sums and of budgets share."""

import functools
import inspect

from msgspec import structs

import dpbt
from dpbt import recipes
from dpbt.data.domains import Boolean, Numeric
from dpbt.privacy import accounting, mechanisms, recipe_ledger
from dpbt.types import ADD_REMOVE

DOMAIN = {"age": Numeric(0, 100, bins=8), "sex": Boolean("m", "f")}
RECIPES = recipes.NAMED
ROWS = 1000


def recipe_by_name(name, *, delta=0.0, epsilon=1.0, rows=ROWS, **options):
    """A recipe by its name, with a domain where it takes one."""
    build = RECIPES[name]
    if "domain" in inspect.signature(build).parameters:
        options["domain"] = DOMAIN
    return build(epsilon=epsilon, rows=rows, delta=delta, **options)


def ledger_line(epsilon, count=1, mechanism="discrete laplace", site="x", tail=0.0, gap=0.0):
    """A line of sensitivity 1 and scale 1 / epsilon, with the costs of its sampler."""
    terms = recipe_ledger.DrawTerms(
        site=site,
        mechanism=mechanisms.BY_NAME[mechanism],
        releases="counts",
        sensitivity=1.0,
        scale=1 / epsilon,
        theorem="none",
        num_payments=count,
        moved_outputs=1,
    )
    line = recipe_ledger.ledger_line(terms)
    return structs.replace(line, tail=tail, gap=gap, exact=True)


def ledger_of(*lines, **fields):
    return accounting.Ledger(relation=ADD_REMOVE, lines=lines, **fields)


def new_filter(measure, epsilon=2.0, **options):
    delta = 0.0 if measure == "epsilon" else 1e-6
    return dpbt.Filter(epsilon, delta, rows=ROWS, measure=measure, **options)


POOL = (("rf_l", 0.0), ("bdpe", 0.0), ("rf_e", 0.0), ("rf_l", 1e-6), ("bdpe", 1e-6))


@functools.cache
def recipe_of_pool(index, epsilon):
    """A recipe of the pool, which is built once."""
    name, delta = POOL[index]
    return recipe_by_name(name, delta=delta, epsilon=epsilon)
