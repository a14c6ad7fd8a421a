"""Mechanisms: sampler, density, divergence and price of every draw that leaves the private side.

`scale` is the noise: the Laplace or Gaussian scale, or the temperature of the exponential mechanism
(p proportional to exp(score / scale)). Scale 0 is the noise-free limit, which the non-private mode
uses. Its log probability is 0 for the limit's output and -inf for every other output.

With s = sensitivity / scale, one draw costs:

| Mechanism                       | Sensitivity   | epsilon  | rho (zCDP) |
|---------------------------------|---------------|----------|------------|
| `discrete_laplace`              | L1 norm       | s        | s^2 / 2    |
| `rounded_gaussian`              | L2 norm       | infinite | s^2 / 2    |
| `exponential`                   | range of the change of scores | s | s^2 / 8 |
| `noisy_max`                     | range of the change of scores | s | s^2 / 2 |
| `uniform`, `assignment`         | never read the rows | 0  | 0          |

Densities are exact formulas. Samplers draw from finitely many bits in double precision. Each
mechanism states how far its sampler can be from its law (`mechanism.Sampler`), and the ledger has a
line for it. A mechanism of your own that states no such bound marks its ledgers FLOAT. Real noise
in float32 is such a one: its reachable values depend on the private value (Mironov, 2012).
"""

from dpbt.privacy.mechanisms.additive import (
    MAX_DISCRETE_SCALE,
    SATURATION,
    discrete_laplace,
    rounded_gaussian,
    rounding_step,
)
from dpbt.privacy.mechanisms.selection import (
    FLOOR,
    MAX_CANDIDATES,
    Scores,
    behind_best,
    exponential,
    noisy_max,
    selection_noise,
)
from dpbt.privacy.mechanisms.structure import assignment, uniform

BY_NAME = {
    mechanism.name: mechanism
    for mechanism in (
        discrete_laplace,
        rounded_gaussian,
        exponential,
        noisy_max,
        uniform,
        assignment,
    )
}
"""Every mechanism of the library, by its name in ledgers."""
