"""The command line of dpbt. Modules here import JAX only where a command computes with it."""
