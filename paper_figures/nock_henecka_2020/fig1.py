"""Nock & Henecka (2020), Figure 1: the M-alpha loss over alpha."""

import numpy as np
from matplotlib.figure import Figure

from dpbt import losses
from dpbt.privacy import sensitivity
from paper_figures.style import ALPHAS, DASHES, PALE, colour, finish, sheet


def draw() -> Figure:
    """Bayes risk, link, inverse link, surrogate, and both sensitivities of a split."""
    figure, axes = sheet(2, 3, 4.4)
    risk, link, inverse, surrogate, bound, legend = axes.flat
    q = np.linspace(0, 1, 801, dtype=np.float32)
    # Curves jump at 1/2 and end at infinity; no line is drawn across either.
    halves = [
        np.linspace(0.01, 0.4999, 300, dtype=np.float32),
        np.linspace(0.5001, 0.99, 300, dtype=np.float32),
    ]
    z = np.linspace(-6, 6, 1201, dtype=np.float32)
    m = np.geomspace(10, 20_000, 100).astype(np.float32)
    for alpha, dash in zip(ALPHAS, DASHES, strict=False):
        loss, style = losses.m_alpha(alpha), {"color": colour(alpha), "linestyle": dash}
        risk.plot(q, loss.bayes_risk(q), **style)
        for half in halves:
            link.plot(half, loss.link(half), **style)
        inverse.plot(z, loss.inverse_link(z), **style)
        surrogate.plot(z, loss.surrogate(z), **style)
        bound.plot(m, sensitivity.published_split(loss, m), color=colour(alpha), **PALE)
        bound.plot(m, sensitivity.perspective_bound(loss, m), **style)
        legend.plot([], [], **style, label=f"alpha = {alpha:g}")
    finish(risk, xlabel="q", title="Bayes risk L(q)")
    finish(link, xlabel="q", title="canonical link", ylim=(-6, 6))
    finish(inverse, xlabel="z", title="inverse canonical link")
    finish(surrogate, xlabel="z", title="convex surrogate F(z)")
    finish(bound, xlabel="rows m", xscale="log", yscale="log", title="sensitivity of a split")
    legend.plot(
        [], [], color="grey", label="wide and pale: published,\nmax{3, 1 + f(1, m)}", **PALE
    )
    legend.plot([], [], color="grey", label="thin: tight, f(1, m)")
    legend.legend(loc="center")
    legend.axis("off")
    figure.suptitle("The M-alpha loss: 0/1 loss at alpha = 0, Matsushita's at alpha = 1")
    return figure
