"""What the experiments share: data sets, protocols, results, text tables, timing, peers."""
