"""Criteria of one's own that no sensitivity is known for, and what a grid of checks cannot see."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpbt
from dpbt import losses, recipes
from dpbt.data.splits import table_of_splits
from dpbt.training import run_keys
from dpbt.training.replay import log_ratios_by_site

pytestmark = pytest.mark.unoptimized


def share(w1, w0):
    total = w1 + w0
    return jnp.where(total > 0, w1 / jnp.where(total > 0, total, 1), 0.0)


def of_risk(risk):
    """The perspective of a Bayes risk."""
    return lambda w1, w0: (w1 + w0) * risk(share(w1, w0))


def own(perspective, name="own"):
    """A criterion with the Bayes risk of a perspective."""
    return losses.square._replace(
        name=name, perspective=perspective, bayes_risk=lambda u: perspective(u, 1 - u)
    )


def gini(q):
    return 4 * q * (1 - q)


BAD = {
    "no factor": lambda w1, w0: gini(share(w1, w0)),
    "negated": of_risk(lambda q: -gini(q)),
    "not monotone": of_risk(lambda q: 4 * q * (1 - q) * (1 + 4 * q * (1 - q))),
    "a dent at an eighth": of_risk(
        lambda q: gini(q) * (1 - 0.3 * jnp.exp(-(((jnp.minimum(q, 1 - q) - 0.1) / 0.03) ** 2)))
    ),
    "asymmetric": of_risk(lambda q: gini(q) * (1 + 0.2 * q)),
    "not 0 at the ends": of_risk(lambda q: 0.1 + 0.9 * gini(q)),
    "nan at 0": lambda w1, w0: (w1 + w0) * gini(w1 / (w1 + w0)),
    "shifted": lambda w1, w0: 4 * w1 * w0 / (w1 + w0 + 1),
}


SMALL = {"epsilon": 1.0, "rows": 50}
WAYS = {
    "loss": lambda own: recipes.bdpe(criterion=own, alpha=1.0, loss=losses.log, **SMALL),
    "family": lambda own: recipes.bdpe(criterion=lambda alpha: own, loss=losses.log, **SMALL),
    "top-down": lambda own: recipes.lazybb_trees(criterion=own, **SMALL),
}


@pytest.mark.parametrize(
    ("way", "name"), [*(("loss", name) for name in BAD), *((way, "no factor") for way in WAYS)]
)
def test_criteria_without_a_sensitivity_are_refused(way, name):
    with pytest.raises(ValueError, match="the perspective"):
        WAYS[way](own(BAD[name]))


def test_a_valid_custom_criterion_is_accepted():
    assert dpbt.ledger(recipes.bdpe(epsilon=1.0, rows=50, criterion=own(of_risk(gini)), alpha=1.0))


def lone_row_loss(recipe, rows, most, others):
    """The worst case of a split where the first row comes or goes, over the numbers of class 1.

    They and `others` of class 0 are set apart by all splits but one.
    """
    worst, boost = 0.0, jax.jit(dpbt.boost)
    divergences = jax.jit(log_ratios_by_site)
    for number in range(1, most + 1):
        satisfied = np.ones((rows, 300), bool)
        satisfied[: number + others, 1:] = False
        table = table_of_splits(satisfied, np.arange(rows) < number, np.ones(rows, bool))
        other = table._replace(present=table.present.at[0].set(False))
        release = boost(jax.random.key(0), table, recipe).transcript
        steps = divergences(release, table, other, recipe)
        worst = max(worst, float(steps["split_0"][1].pure.max()))
    return worst


def spike(alpha):
    """At 7 of 400 rows, between the points of the grid of checks."""
    return own(
        of_risk(lambda q: gini(q) + jnp.exp(-(((jnp.minimum(q, 1 - q) - 0.0175) / 5e-4) ** 2)))
    )


def bad_between(alpha):
    """A family that is bad at 0.3, where no alpha of the check is."""
    wrong = (jnp.abs(jnp.asarray(alpha, jnp.float32) - 0.3) < 1e-3).astype(jnp.float32)

    def perspective(w1, w0):
        share = wrong.astype(w1.dtype)
        return of_risk(gini)(w1, w0) * (1 - share) + share * BAD["no factor"](w1, w0)

    return own(perspective)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "most", "others"), [(spike, 8, 0), (bad_between, 1, 1)])
def test_an_audit_catches_a_criterion_whose_fault_the_checks_miss(family, most, others):
    """The check is of a grid, the proof its author's."""
    recipe = recipes.bdpe(
        epsilon=1.0, rows=400, rounds=1, depth=1, alpha=0.3, criterion=family, loss=losses.log
    )
    assert lone_row_loss(recipe, 400, most, others) > 10 * dpbt.ledger(recipe).epsilon


def test_two_criteria_of_one_name_do_not_share_noise():
    """They agree at 0.1, 0.3 and 0.45 and differ between; their leaves then differ by counts."""
    knots = jnp.asarray([0, 0.1, 0.3, 0.45, 0.5], jnp.float32)
    values = gini(knots)

    def interpolated(q):
        return jnp.interp(jnp.minimum(q, 1 - q), knots.astype(q.dtype), values.astype(q.dtype))

    line = own(of_risk(interpolated))
    parabola = own(of_risk(gini))
    recipe, other = (
        recipes.bdpe(epsilon=1.0, rows=50, rounds=1, depth=1, criterion=criterion, loss=losses.log)
        for criterion in (line, parabola)
    )
    keys = [run_keys.derive_recipe_key(jax.random.key(0), one) for one in (recipe, other)]
    assert not np.array_equal(*map(jax.random.key_data, keys))
