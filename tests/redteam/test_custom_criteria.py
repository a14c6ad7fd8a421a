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


def perspective_of_risk(risk):
    """The perspective of a Bayes risk."""
    return lambda w1, w0: (w1 + w0) * risk(share(w1, w0))


def criterion_of_perspective(perspective, name="own"):
    """A criterion with the Bayes risk of a perspective."""
    return losses.square._replace(
        name=name, perspective=perspective, bayes_risk=lambda u: perspective(u, 1 - u)
    )


def gini(q):
    return 4 * q * (1 - q)


FAULTY_PERSPECTIVES = {
    "no factor": lambda w1, w0: gini(share(w1, w0)),
    "negated": perspective_of_risk(lambda q: -gini(q)),
    "not monotone": perspective_of_risk(lambda q: 4 * q * (1 - q) * (1 + 4 * q * (1 - q))),
    "a dent at an eighth": perspective_of_risk(
        lambda q: gini(q) * (1 - 0.3 * jnp.exp(-(((jnp.minimum(q, 1 - q) - 0.1) / 0.03) ** 2)))
    ),
    "asymmetric": perspective_of_risk(lambda q: gini(q) * (1 + 0.2 * q)),
    "not 0 at the ends": perspective_of_risk(lambda q: 0.1 + 0.9 * gini(q)),
    "nan at 0": lambda w1, w0: (w1 + w0) * gini(w1 / (w1 + w0)),
    "shifted": lambda w1, w0: 4 * w1 * w0 / (w1 + w0 + 1),
}


SMALL = {"epsilon": 1.0, "rows": 50}
MAKERS = {
    "loss": lambda criterion: recipes.bdpe(
        criterion=criterion, alpha=1.0, loss=losses.log, **SMALL
    ),
    "family": lambda criterion: recipes.bdpe(
        criterion=lambda alpha: criterion, loss=losses.log, **SMALL
    ),
    "top-down": lambda criterion: recipes.lazybb_trees(criterion=criterion, **SMALL),
}


@pytest.mark.parametrize(
    ("way", "name"),
    [*(("loss", name) for name in FAULTY_PERSPECTIVES), *((way, "no factor") for way in MAKERS)],
)
def test_criteria_without_a_sensitivity_are_refused(way, name):
    with pytest.raises(ValueError, match="the perspective"):
        MAKERS[way](criterion_of_perspective(FAULTY_PERSPECTIVES[name]))


def test_a_valid_custom_criterion_is_accepted():
    assert dpbt.ledger(
        recipes.bdpe(
            epsilon=1.0,
            rows=50,
            criterion=criterion_of_perspective(perspective_of_risk(gini)),
            alpha=1.0,
        )
    )


def lone_row_loss(recipe, *, rows, max_positive, num_negative):
    """The worst case of a split where the first row comes or goes, over the numbers of class 1.

    They and `num_negative` rows of class 0 are set apart by all splits but one.
    """
    max_loss, boost = 0.0, jax.jit(dpbt.boost)
    divergences = jax.jit(log_ratios_by_site)
    for num_positive in range(1, max_positive + 1):
        satisfied = np.ones((rows, 300), bool)
        satisfied[: num_positive + num_negative, 1:] = False
        table = table_of_splits(satisfied, np.arange(rows) < num_positive, np.ones(rows, bool))
        neighbour = table._replace(present=table.present.at[0].set(False))
        release = boost(jax.random.key(0), table, recipe).transcript
        steps = divergences(release, table, neighbour, recipe)
        max_loss = max(max_loss, float(steps["split_0"][1].pure.max()))
    return max_loss


def criterion_with_spike(alpha):
    """A criterion with a spike at 7 of 400 rows, between the points that are checked."""
    return criterion_of_perspective(
        perspective_of_risk(
            lambda q: gini(q) + jnp.exp(-(((jnp.minimum(q, 1 - q) - 0.0175) / 5e-4) ** 2))
        )
    )


def faulty_between_checked_alphas(alpha):
    """A family that is bad at 0.3, where no alpha of the check is."""
    is_near_fault = (jnp.abs(jnp.asarray(alpha, jnp.float32) - 0.3) < 1e-3).astype(jnp.float32)

    def perspective(w1, w0):
        share = is_near_fault.astype(w1.dtype)
        return perspective_of_risk(gini)(w1, w0) * (1 - share) + share * FAULTY_PERSPECTIVES[
            "no factor"
        ](w1, w0)

    return criterion_of_perspective(perspective)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "max_positive", "num_negative"),
    [(criterion_with_spike, 8, 0), (faulty_between_checked_alphas, 1, 1)],
)
def test_an_audit_catches_a_criterion_whose_fault_the_checks_miss(
    family, max_positive, num_negative
):
    """The check looks at a grid of points, and the proof is left to the author."""
    recipe = recipes.bdpe(
        epsilon=1.0, rows=400, rounds=1, depth=1, alpha=0.3, criterion=family, loss=losses.log
    )
    loss = lone_row_loss(recipe, rows=400, max_positive=max_positive, num_negative=num_negative)
    assert loss > 10 * dpbt.ledger(recipe).epsilon


def test_two_criteria_of_one_name_do_not_share_noise():
    """They agree at 0.1, 0.3 and 0.45 and differ between; their leaves then differ by counts."""
    knots = jnp.asarray([0, 0.1, 0.3, 0.45, 0.5], jnp.float32)
    values = gini(knots)

    def interpolated(q):
        return jnp.interp(jnp.minimum(q, 1 - q), knots.astype(q.dtype), values.astype(q.dtype))

    interpolated_criterion = criterion_of_perspective(perspective_of_risk(interpolated))
    parabola_criterion = criterion_of_perspective(perspective_of_risk(gini))
    interpolated_recipe, parabola_recipe = (
        recipes.bdpe(epsilon=1.0, rows=50, rounds=1, depth=1, criterion=criterion, loss=losses.log)
        for criterion in (interpolated_criterion, parabola_criterion)
    )
    keys = [
        run_keys.derive_recipe_key(jax.random.key(0), recipe_of_criterion)
        for recipe_of_criterion in (interpolated_recipe, parabola_recipe)
    ]
    assert not np.array_equal(*map(jax.random.key_data, keys))
