"""Oblivious trees under one name, for code outside of the library; `oblivious` has their code."""

from dpbt.learners.oblivious.learner import oblivious_tree as oblivious_tree
from dpbt.learners.oblivious.learner import score_line_epilogue as score_line_epilogue
from dpbt.learners.oblivious.splits import ObliviousConfig as ObliviousConfig
