"""The measures that costs of releases add up in, by name. No JAX is needed."""

MEASURES = {
    "epsilon": "epsilon of pure differential privacy",
    "rho": "rho of zCDP",
    "mu": "mu^2 of Gaussian differential privacy",
}
"""What is added up, by the name of the measure."""
