"""`auto`, which nobody tunes, beside other learners: two classes, several, numbers, and tuning."""
