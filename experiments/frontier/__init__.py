"""`auto`, which nobody tunes, beside other private classifiers, data set by data set."""
