"""Nock & Henecka (2020), Figure 5: second derivative of the M-alpha surrogate over alpha."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dpbt import losses
from paper_figures.style import ALPHAS, colour, finish


def draw() -> Figure:
    """The library's surrogate; the dotted lines are equation (133), which is twice as large."""
    figure, panel = plt.subplots(figsize=(7, 4.4), layout="constrained")
    side = np.geomspace(1e-4, 4, 400).astype(np.float32)
    for alpha in ALPHAS[1:]:
        loss, flat = losses.m_alpha(alpha), 2 * (1 - alpha)
        second = np.asarray(jax.vmap(jax.grad(jax.grad(loss.surrogate)))(jnp.asarray(flat + side)))
        printed = 4 * alpha**2 / (4 * alpha**2 + side**2) ** 1.5
        for sign in (-1, 1):
            panel.plot(
                sign * (flat + side),
                second,
                color=colour(alpha),
                label=f"{alpha:g}" if sign > 0 else None,
            )
            panel.plot(
                sign * (flat + side), printed, color=colour(alpha), linestyle=":", linewidth=0.9
            )
        panel.plot([-flat, flat], [0, 0], color=colour(alpha))
    panel.plot([], [], color="grey", linestyle=":", label="eq. (133), twice F''")
    finish(panel, xlabel="z", ylabel="F''(z)", ylim=(0, 3), xlim=(-4, 4))
    panel.legend(frameon=False, title="alpha")
    panel.set_title("Second derivative of the M-alpha surrogate; at most 1 / (4 alpha)")
    return figure
