"""What the guarantee rests on: the boundary, mechanisms and prices, sensitivities, ledgers, keys."""
