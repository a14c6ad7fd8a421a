"""The learners of LazyBB (Asadi et al., 2022) under one name, for code outside of the library.

`trees.rule` has 1-rules, and `trees.top_down` has top-down trees.
"""

from dpbt.learners.trees.rule import RuleConfig as RuleConfig
from dpbt.learners.trees.rule import one_rule as one_rule
from dpbt.learners.trees.top_down import TopDownConfig as TopDownConfig
from dpbt.learners.trees.top_down import top_down_tree as top_down_tree
