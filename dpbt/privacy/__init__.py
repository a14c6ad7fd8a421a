"""What the guarantee rests on: the boundary, mechanisms, sensitivities, ledgers and keys."""
