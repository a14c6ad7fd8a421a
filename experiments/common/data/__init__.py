"""The data sets of the papers, with their public domains.

`load(name)` finds a data set of the papers; `breast_cancer()` is bundled; `from_csv` reads a
person's own file.
"""

from experiments.common.data.bundled import breast_cancer as breast_cancer
from experiments.common.data.dataset import Dataset as Dataset
from experiments.common.data.dataset import from_splits as from_splits
from experiments.common.data.own import from_csv as from_csv
from experiments.common.data.registry import ENTRIES as ENTRIES
from experiments.common.data.registry import NOCK_HENECKA as NOCK_HENECKA
from experiments.common.data.registry import load as load
