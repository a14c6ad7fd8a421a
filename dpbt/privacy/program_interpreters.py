"""Interpreters of private programs: six functions that run a program, and answer its draws.

- `sample_release` draws every output.
- `log_prob_by_site` reads the outputs in a recorded release, and returns their exact log densities.
- `compare_views` reads them so on two views, and returns log ratios and worst cases over outputs.
- `describe_draws` records every draw without its private value. Ledgers are made of these
  descriptions, so each line prices the draw that runs. It reads no private row.
- `sample_public_draws` samples public randomness alone, which depends on no private row either.
- `sum_rows_of_stage` adds up some rows of a table in blocks. `draws_from_sums` draws once from the
  sums over all rows, and `pass_stages.stages_of_phase` finds which sums one pass over the rows can
  serve.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpbt.privacy.boundary import (
    DrawSpec,
    is_static,
    missing_public_key_error,
    run_program,
    site_key,
)
from dpbt.privacy.isolation import evaluate_in_isolated_trace
from dpbt.privacy.mechanism_types import WorstCaseLoss
from dpbt.privacy.price_comparison import PricedDraw, PricedDraws, trace_then_check_prices_then_run
from dpbt.types import Array, Program, Release, Site, StageInputs, View


def sample_release(
    program: Program,
    key: Array,
    public_key: Array | None,
    view: View,
    priced_draws: Sequence[PricedDraw] | None = None,
) -> Release:
    """Run a program with fresh draws, and return its release: site -> output.

    Args:
        program: the private program.
        key: the secret key of the noise.
        public_key: the key of public draws, independent of `key`; None without public draws.
        view: the inputs of the program.
        priced_draws: the draws of the ledger, to compare with those that run; None to compare
        nothing.

    Raises:
        ValueError: for a public draw without a public key, and as
            `trace_then_check_prices_then_run`.
    """

    def answer_draw(spec: DrawSpec) -> tuple[Array, Array]:
        root = public_key if spec.mechanism.public else key
        if root is None:
            raise missing_public_key_error(spec.site)
        output = spec.mechanism.sample(site_key(root, spec.site), spec.statistic, spec.scale)
        return output, output

    return trace_then_check_prices_then_run(program, answer_draw, view, priced_draws)


def replay_draws(program: Program, release: Release, view: View) -> dict[Site, DrawSpec]:
    """Run a program on recorded outputs, and return the draws that it requests, by site.

    The private values in the draws are those of this view.

    Raises:
        ValueError: if the recorded release and the program have different sites or shapes.
    """
    specs: dict[Site, DrawSpec] = {}

    def answer_draw(spec: DrawSpec) -> Array:
        specs[spec.site] = spec
        recorded = release.get(spec.site, jnp.zeros_like(spec.output))
        if jnp.shape(recorded) != spec.output.shape:
            raise ValueError(
                f"the release at {spec.site!r} has shape {jnp.shape(recorded)}, and the program "
                f"draws {spec.output.shape} there; it is of another recipe or table"
            )
        return recorded

    run_program(program, answer_draw, view)
    if set(specs) != set(release):
        raise ValueError(
            f"the release has sites {sorted(release)}, the program draws {sorted(specs)}"
        )
    return specs


def log_prob_by_site(program: Program, release: Release, view: View) -> dict[Site, Array]:
    """The log density of the recorded output at each site, given earlier outputs.

    Each is f32[], and exact.
    """

    def log_density_by_site(release: Release, view: View) -> dict[Site, Array]:
        specs = replay_draws(program, release, view)
        return {
            site: jnp.sum(spec.mechanism.log_prob(release[site], spec.statistic, spec.scale))
            for site, spec in specs.items()
        }

    return evaluate_in_isolated_trace(log_density_by_site, release, view)


class DrawComparison(NamedTuple):
    """The privacy loss of one draw between two views, given the earlier outputs.

    Attributes:
        log_ratio: f32[], the exact log ratio of the densities of the recorded output.
        worst_loss: the loss in the worst case over all outputs.
    """

    log_ratio: Array
    worst_loss: WorstCaseLoss


def compare_views(
    program: Program, release: Release, view: View, other: View
) -> dict[Site, DrawComparison]:
    """The privacy loss of each draw between two views, at the output and in the worst case.

    The program runs on the recorded outputs with each of the views.
    """

    def compare(release: Release, view: View, other: View) -> dict[Site, DrawComparison]:
        other_specs = replay_draws(program, release, other)
        specs = replay_draws(program, release, view)
        return {
            site: _compare_draws(spec, other_specs[site], release[site])
            for site, spec in specs.items()
        }

    return evaluate_in_isolated_trace(compare, release, view, other)


def _compare_draws(spec: DrawSpec, other: DrawSpec, output: Array) -> DrawComparison:
    """The privacy loss of one draw between two views.

    They request it as `spec` and `other`.
    """
    mechanism = spec.mechanism
    statistic = spec.statistic
    other_statistic = other.statistic
    log_density = mechanism.log_prob(output, statistic, spec.scale)
    other_log_density = mechanism.log_prob(output, other_statistic, other.scale)
    return DrawComparison(
        log_ratio=jnp.sum(log_density - other_log_density),
        worst_loss=mechanism.divergence(statistic, spec.scale, other_statistic, other.scale),
    )


def describe_draws(
    program: Program,
    view: View,
    release: Mapping[Site, Array] | None = None,
    priced_draws: PricedDraws | None = None,
) -> dict[Site, DrawSpec]:
    """Describe the draws of a program by site, without private values.

    Nothing is drawn. The program reads the outputs of the release, and zeros for sites that it
    lacks. Descriptions depend on public inputs and on the release alone, so a view of one absent
    row suffices.

    Args:
        program: the private program.
        view: the inputs of the program.
        release: site -> its output.
        priced_draws: the draws of the ledger, to compare with those described; None to compare
            nothing.

    Raises:
        ValueError: as `trace_then_check_prices_then_run`.
    """
    recorded = release or {}

    def answer_draw(spec: DrawSpec) -> tuple[Array, DrawSpec]:
        output = recorded.get(spec.site, jnp.zeros_like(spec.output))
        return output, _remove_private_value(spec)

    if priced_draws is not None:
        return trace_then_check_prices_then_run(
            program, answer_draw, view, priced_draws, outputs_are_released=False
        )
    specs: dict[Site, DrawSpec] = {}

    def answer_and_record(spec: DrawSpec) -> Array:
        output, specs[spec.site] = answer_draw(spec)
        return output

    run_program(program, answer_and_record, view)
    return specs


def _remove_private_value(spec: DrawSpec) -> DrawSpec:
    """Replace the private value of a draw by shapes, and its other numbers by float32."""
    numbers = {
        name: number if is_static(number) else jnp.asarray(number, jnp.float32)
        for name, number in (("scale", spec.scale), ("max_sensitivity", spec.max_sensitivity))
    }
    return dataclasses.replace(
        spec, private_input=jax.eval_shape(lambda: spec.private_input), **numbers
    )


def sample_public_draws(program: Program, public_key: Array, view: View) -> Release:
    """Sample the public draws of a program alone, and return their outputs by site.

    They are those of `sample_release` under this public key, whatever the rows are.

    All other draws return zeros. `pass_stages.stages_of_phase` refuses a program in which a public
    draw depends on them.
    """
    outputs: Release = {}

    def answer_draw(spec: DrawSpec) -> Array:
        if not spec.mechanism.public:
            return jnp.zeros_like(spec.output)
        key = site_key(public_key, spec.site)
        outputs[spec.site] = spec.mechanism.sample(key, spec.statistic, spec.scale)
        return outputs[spec.site]

    run_program(program, answer_draw, view)
    return outputs


def sum_rows_of_stage(
    program: Program,
    stage: tuple[Site, ...],
    stage_inputs: StageInputs,
    view: View,
    priced_draws: Sequence[PricedDraw] | None = None,
) -> dict[Site, Any]:
    """Run a program on some rows, and return the sums over them for the draws of one stage.

    Public draws and draws of earlier stages return the outputs of `stage_inputs`. Draws of
    one output for each row index (`Mechanism.sample_at_row_indices`) return those of these rows.
    All other draws return zeros, on which no sum of this stage depends.

    Args:
        program: a program with `pass_stages.stages_of_phase`.
        stage: the sites of one of its stages.
        stage_inputs: earlier outputs, the key of the noise, and the index of the first row.
        view: some rows, and the public inputs.
        priced_draws: the draws of the ledger, as `sample_release` takes them.

    Raises:
        ValueError: for a public draw with an axis of rows, and as
            `trace_then_check_prices_then_run`.
    """

    def answer_draw(spec: DrawSpec) -> tuple[Array, Any]:
        if spec.mechanism.public and spec.output.shape != stage_inputs.outputs[spec.site].shape:
            raise ValueError(
                f"the draw {spec.site!r} is public randomness for each row, and a table that is "
                "read in parts has one draw for all of them; draw it by mechanisms.assignment"
            )
        if spec.has_output_per_row_index:
            assert spec.mechanism.sample_at_row_indices is not None
            key = site_key(stage_inputs.key, spec.site)
            return spec.mechanism.sample_at_row_indices(
                key, spec.statistic, spec.scale, stage_inputs.first_row_index
            ), None
        output = stage_inputs.outputs.get(spec.site, jnp.zeros_like(spec.output))
        return output, spec.private_input if spec.site in stage else None

    sums = trace_then_check_prices_then_run(
        program, answer_draw, view, priced_draws, outputs_are_released=False
    )
    return {site: sums[site] for site in stage}
