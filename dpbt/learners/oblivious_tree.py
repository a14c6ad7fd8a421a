"""Oblivious trees under one name, for code outside of the library; `oblivious` has their code."""

from dpbt.learners.bins.epilogue import score_line_epilogue as score_line_epilogue
from dpbt.learners.oblivious.config import ObliviousConfig as ObliviousConfig
from dpbt.learners.oblivious.learner import oblivious_tree as oblivious_tree
