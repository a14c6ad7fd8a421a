"""What the guarantee rests on: boundary, mechanisms and prices, sensitivities, ledgers, keys."""
