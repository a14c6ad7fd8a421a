"""Weak learners: each module builds `base.WeakLearner`s from a private program and a hypothesis."""
