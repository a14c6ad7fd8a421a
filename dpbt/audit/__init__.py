"""Audits of a guarantee: exact losses of dpbt's own programs, and bounds on any learner.

- `exact_loss` compares what a run released on two tables, draw by draw; it needs dpbt's programs.
- `neighbour_masks` lists the neighbours of a table, and `worst_table_search` looks for the tables
  on which a step comes closest to its claim.
- `grey_box` replays a learner of any library whose draws go through its hooks.
- `black_box` sees a learner's outputs alone.
- `mechanism_check` and `learner_check` check a mechanism or a learner in one call, for those who
  write one.
"""

from dpbt.audit.black_box import black_box_lower_bound as black_box_lower_bound
from dpbt.audit.black_box import make_worst_table_pairs as make_worst_table_pairs
from dpbt.audit.black_box import one_run_lower_bound as one_run_lower_bound
from dpbt.audit.check_report import CheckError as CheckError
from dpbt.audit.check_report import CheckLine as CheckLine
from dpbt.audit.check_report import CheckReport as CheckReport
from dpbt.audit.exact_loss import ROUNDING as ROUNDING
from dpbt.audit.exact_loss import Audit as Audit
from dpbt.audit.exact_loss import audit_transcripts as audit_transcripts
from dpbt.audit.exact_loss import exact_lower_bound as exact_lower_bound
from dpbt.audit.exact_loss import largest_loss_between_tables as largest_loss_between_tables
from dpbt.audit.grey_box import Hooks as Hooks
from dpbt.audit.grey_box import grey_box_lower_bound as grey_box_lower_bound
from dpbt.audit.learner_check import check_learner as check_learner
from dpbt.audit.mechanism_check import check_mechanism as check_mechanism
from dpbt.audit.neighbour_masks import Neighbours as Neighbours
from dpbt.audit.neighbour_masks import all_rows_of_domain as all_rows_of_domain
from dpbt.audit.neighbour_masks import labels_of_target as labels_of_target
from dpbt.audit.neighbour_masks import neighbours as neighbours
from dpbt.audit.worst_table_search import search_worst_table as search_worst_table
from dpbt.privacy.bounds import Bound as Bound
