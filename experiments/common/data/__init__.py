"""The data sets of the papers, with their public domains.

`load(name)` reads a data set of the papers, and `breast_cancer()` the one that scikit-learn ships.
`from_csv` reads a person's own file.
"""

from experiments.common.data.dataset import Dataset as Dataset
from experiments.common.data.dataset import breast_cancer as breast_cancer
from experiments.common.data.dataset import from_csv as from_csv
from experiments.common.data.registry import ENTRIES as ENTRIES
from experiments.common.data.registry import NOCK_HENECKA as NOCK_HENECKA
from experiments.common.data.registry import is_available as is_available
from experiments.common.data.registry import load as load
