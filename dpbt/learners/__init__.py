"""Weak learners: each module builds one from a private program and a hypothesis."""
