"""A program of its own: runs on several devices of a processor, compared with runs on one.

    python -m tests.support.device_runs NUMBER_OF_DEVICES NAME...

It prints a line for each comparison that failed, and last "compared" with their number. Releases,
hypotheses and scores must have the same bits. Log densities are sums of floats, whose order follows
from how arrays are divided, so they must be the same within `LOG_DENSITY_TOLERANCE` of themselves.
"""

import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import dpbt
from dpbt import recipes
from dpbt.data.domains import Nominal, Numeric
from dpbt.types import Recipe, Table
from tests.support.contract_rows import ROWS

NUM_ROWS, NUM_KEYS = 64, 8

PUBLIC_KEY = jax.random.key(1)

LOG_DENSITY_TOLERANCE = 1e-6

DOMAIN = {f"x{number}": Numeric(0, 1, bins=8) for number in range(3)}

CLASSES = Nominal(("0", "1", "2"))


@dataclasses.dataclass(frozen=True)
class Case:
    """What runs: a recipe and a table of `NUM_ROWS` rows."""

    recipe: Recipe | recipes.MultiProgramRecipe
    table: Table


def case_of_contract_row(name: str) -> Case:
    """The case of a row of the contract."""
    row = next(row for row in ROWS if row.name == name)
    recipe = row.recipe("add_remove", epsilon=8.0, rows=NUM_ROWS, rounds=2, depth=2)
    return Case(recipe, row.table(seed=3, rows=NUM_ROWS, splits=3, absent=0))


def case_of_three_classes(make: Callable[..., Recipe]) -> Case:
    """The case of a whole recipe for three classes; a delta gives it histograms and scores."""
    rng = np.random.default_rng(0)
    columns = {name: rng.random(NUM_ROWS) for name in DOMAIN}
    label = np.digitize(columns["x0"], [0.3, 0.7]).astype(str)
    return Case(
        make(epsilon=20.0, delta=1e-6, rows=NUM_ROWS, domain=DOMAIN, target=CLASSES),
        dpbt.table(DOMAIN, columns, label, target=CLASSES),
    )


def case_of_two_programs() -> Case:
    """The case of one setting of a recipe that runs two programs, for two classes."""
    rng = np.random.default_rng(0)
    columns = {name: rng.random(NUM_ROWS) for name in DOMAIN}
    settings = recipes.auto(epsilon=[0.5, 20.0], rows=NUM_ROWS, domain=DOMAIN)
    assert len(settings.programs) == 2
    one_setting = jax.tree.map(lambda leaf: leaf[1], settings)
    return Case(one_setting, dpbt.table(DOMAIN, columns, columns["x0"] > 0.5))


def case_of_name(name: str) -> Case:
    """The case of a row of the contract, of `auto` or of `additive`."""
    if name == "auto of two programs":
        return case_of_two_programs()
    if name in ("auto", "additive of three classes"):
        return case_of_three_classes(recipes.auto if name == "auto" else recipes.additive)
    return case_of_contract_row(name)


def divide_rows(table: Table, mesh: jax.sharding.Mesh) -> Table:
    """The table with its rows divided over the axis "rows", and a copy of all else."""
    divisions = {"bins", "target", "present", "weight"}
    parts = {
        name: jax.device_put(
            part, NamedSharding(mesh, PartitionSpec(*(["rows"] if name in divisions else [])))
        )
        for name, part in table._asdict().items()
        if name in {*divisions, "splits", "declared"} and part is not None
    }
    return table._replace(**parts)


def divide_keys(keys: jax.Array, mesh: jax.sharding.Mesh) -> jax.Array:
    """The keys divided over the axis "keys"."""
    return jax.device_put(keys, NamedSharding(mesh, PartitionSpec("keys")))


def run(key: jax.Array, table: Table, recipe: Recipe) -> Any:
    """A run, and the log densities of its replay, which is of one program."""
    boosted = dpbt.boost(key, table, recipe, PUBLIC_KEY)
    if isinstance(recipe, recipes.MultiProgramRecipe):
        return boosted, {}
    return boosted, dpbt.replay(boosted.transcript, table, recipe).log_prob


def run_keys(keys: jax.Array, table: Table, recipe: Recipe) -> Any:
    """The runs of some keys, side by side."""
    return jax.vmap(functools.partial(run, table=table, recipe=recipe))(keys)


def run_settings(key: jax.Array, table: Table, recipe: Recipe) -> Any:
    """The runs of some settings under one key, side by side."""
    return jax.vmap(functools.partial(run, key, table))(recipe)


def divide_settings(recipe: Recipe, mesh: jax.sharding.Mesh) -> Recipe:
    """`NUM_KEYS` settings that are all this recipe, divided over the axis "keys"."""
    of_settings = NamedSharding(mesh, PartitionSpec("keys"))
    return jax.tree.map(
        lambda leaf: jax.device_put(np.stack([leaf] * NUM_KEYS), of_settings), recipe
    )


def run_on_devices(case: Case, keys: jax.Array) -> dict[str, Any]:
    """In words how arrays were divided -> what the runs of all keys then returned."""
    over_keys, over_rows = (jax.make_mesh((jax.device_count(),), (n,)) for n in ("keys", "rows"))
    over_both = jax.make_mesh((jax.device_count() // 2, 2), ("keys", "rows"))
    spec = PartitionSpec("keys")
    in_shard_map = jax.jit(
        jax.shard_map(
            run_keys,
            mesh=over_keys,
            in_specs=(spec, PartitionSpec(), PartitionSpec()),
            out_specs=spec,
        )
    )
    settings_in_shard_map = jax.jit(
        jax.shard_map(
            run_settings,
            mesh=over_keys,
            in_specs=(PartitionSpec(), PartitionSpec(), spec),
            out_specs=spec,
        )
    )
    table, recipe = case.table, case.recipe
    return {
        "rows": run_keys(keys, divide_rows(table, over_rows), recipe),
        "keys": run_keys(divide_keys(keys, over_keys), table, recipe),
        "rows and keys": run_keys(
            divide_keys(keys, over_both), divide_rows(table, over_both), recipe
        ),
        "settings": run_settings(keys[0], table, divide_settings(recipe, over_keys)),
        "settings in shard_map": settings_in_shard_map(
            keys[0], table, divide_settings(recipe, over_keys)
        ),
        "keys in shard_map": in_shard_map(divide_keys(keys, over_keys), table, recipe),
    }


def have_same_log_densities(expected: np.ndarray, log_densities: np.ndarray) -> bool:
    """Whether log densities differ by rounding alone."""
    return np.allclose(log_densities, expected, rtol=LOG_DENSITY_TOLERANCE, atol=0, equal_nan=True)


def have_same_bits(expected: np.ndarray, array: np.ndarray) -> bool:
    """Whether two arrays are equal."""
    return np.array_equal(array, expected, equal_nan=True)


def main(num_devices: int, names: list[str]) -> None:
    """Compare runs on several devices with runs on one."""
    warnings.simplefilter("ignore", UserWarning)  # the keys are of seeds
    assert jax.device_count() == num_devices, "set XLA_FLAGS for this number of devices"
    keys, compared = jax.random.split(jax.random.key(0), NUM_KEYS), 0
    for name in names:
        case = case_of_name(name)
        on_one = run_keys(keys, case.table, case.recipe)
        for words, on_several in run_on_devices(case, keys).items():
            boosted, log_prob = on_several
            is_same = jax.tree.leaves(
                (
                    jax.tree.map(lambda _: have_same_bits, boosted),
                    jax.tree.map(lambda _: have_same_log_densities, log_prob),
                )
            )
            if len(boosted.scores.sharding.device_set) != num_devices:
                print(f"{name}, {words}: the scores are not on all devices")
            for (path, expected), array, is_same_array in zip(
                jax.tree.leaves_with_path(on_one),
                jax.tree.leaves(on_several),
                is_same,
                strict=True,
            ):
                compared += 1
                if not array.size:  # JAX cannot read an empty array that is divided
                    continue
                if words.startswith("settings"):  # each of them is the run of the first key
                    expected = np.broadcast_to(np.asarray(expected)[:1], expected.shape)
                if not is_same_array(np.asarray(expected), np.asarray(array)):
                    print(f"{name}, {words}: {jax.tree_util.keystr(path)} differs")
    print("compared", compared)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
