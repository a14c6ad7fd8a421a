"""Public domains: all that declares the columns and the label of a table, under one name.

A domain is an ordered mapping from column names to `Numeric`, `Nominal` or `Boolean`, stated before
anyone looks at the rows. These are the names of `dpbt.domains`:

- `column_types` has the types of columns, their bins and their splits.
- `encoding` turns cells into bins by a domain.
- `labels` declares labels, weights and ids of users.
- `domain_files` reads and writes the JSON files that declare a domain and a label.
"""

from dpbt.data.cells import frame_column_names as frame_column_names
from dpbt.data.column_types import Boolean as Boolean
from dpbt.data.column_types import Column as Column
from dpbt.data.column_types import Nominal as Nominal
from dpbt.data.column_types import Numeric as Numeric
from dpbt.data.column_types import Objective as Objective
from dpbt.data.date_checks import refuse_undeclared_date_type as refuse_undeclared_date_type
from dpbt.data.date_checks import refuse_undeclared_dates as refuse_undeclared_dates
from dpbt.data.domain_files import COLUMN_TEMPLATES as COLUMN_TEMPLATES
from dpbt.data.domain_files import LABEL_TYPES as LABEL_TYPES
from dpbt.data.domain_files import UNDECLARED_COLUMN as UNDECLARED_COLUMN
from dpbt.data.domain_files import DomainFile as DomainFile
from dpbt.data.domain_files import column_of_entry as column_of_entry
from dpbt.data.domain_files import domain_file_text as domain_file_text
from dpbt.data.domain_files import read_domain as read_domain
from dpbt.data.domain_files import template as template
from dpbt.data.encoding import Columns as Columns
from dpbt.data.encoding import Domain as Domain
from dpbt.data.encoding import as_declared_domain as as_declared_domain
from dpbt.data.encoding import cells_by_column as cells_by_column
from dpbt.data.encoding import check_domain as check_domain
from dpbt.data.encoding import check_same_domain as check_same_domain
from dpbt.data.encoding import describe_difference as describe_difference
from dpbt.data.encoding import encode as encode
from dpbt.data.encoding import encode_positions as encode_positions
from dpbt.data.encoding import predicates as predicates
from dpbt.data.encoding import select_columns as select_columns
from dpbt.data.encoding import splits as splits
from dpbt.data.labels import Label as Label
from dpbt.data.labels import LabelOptions as LabelOptions
from dpbt.data.labels import UserColumn as UserColumn
from dpbt.data.labels import WeightColumn as WeightColumn
from dpbt.public_types import DeclaredDomain as DeclaredDomain
