"""What the experiments share: commands, data sets, protocols, results, timing and peers."""
