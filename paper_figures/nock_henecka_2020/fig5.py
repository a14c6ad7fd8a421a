"""Nock & Henecka (2020), Figure 5: second derivative of the M-alpha surrogate over alpha."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from dpbt import losses
from paper_figures.style import ALPHAS, DASHES, PALE, colour, finish, sheet


def draw() -> Figure:
    """The library's surrogate; the wide pale lines are equation (133), which is twice as large."""
    figure, panel = sheet(1, 1, 3.6)
    side = np.geomspace(1e-4, 4, 400).astype(np.float32)
    for alpha, dash in zip(ALPHAS[1:], DASHES[1:], strict=False):
        loss, flat = losses.m_alpha(alpha), 2 * (1 - alpha)
        style: dict[str, Any] = {"color": colour(alpha), "linestyle": dash}
        second = np.asarray(jax.vmap(jax.grad(jax.grad(loss.surrogate)))(jnp.asarray(flat + side)))
        printed = 4 * alpha**2 / (4 * alpha**2 + side**2) ** 1.5
        for sign in (-1, 1):
            label = f"{alpha:g}" if sign > 0 else None
            panel.plot(sign * (flat + side), printed, color=colour(alpha), **PALE)
            panel.plot(sign * (flat + side), second, label=label, **style)
        panel.plot([-flat, flat], [0, 0], **style)
    panel.plot([], [], color="grey", label="eq. (133), twice F''", **PALE)
    finish(panel, xlabel="z", ylabel="F''(z)", ylim=(0, 3), xlim=(-4, 4))
    panel.legend(title="alpha", loc="upper center")
    panel.set_title("Second derivative of the M-alpha surrogate; at most 1 / (4 alpha)")
    return figure
