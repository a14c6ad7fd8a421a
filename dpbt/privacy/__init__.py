"""All code that the guarantee depends on: boundary, mechanisms, sensitivities, ledgers, keys."""
