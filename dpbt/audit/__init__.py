"""Audits of a guarantee: exact losses of dpbt's own programs, and bounds on any learner.

- `exact_loss` compares what a run released on two tables, draw by draw; it needs dpbt's programs.
- `grey_box` replays a learner of any library whose draws go through its hooks.
- `black_box` sees a learner's outputs alone.
- `mechanism_check` and `learner_check` check a mechanism or a learner in one call, for those who
  write one.
"""

from dpbt.audit.black_box import black as black
from dpbt.audit.black_box import one_run as one_run
from dpbt.audit.black_box import worst_pairs as worst_pairs
from dpbt.audit.check_report import CheckError as CheckError
from dpbt.audit.check_report import CheckLine as CheckLine
from dpbt.audit.check_report import CheckReport as CheckReport
from dpbt.audit.exact_loss import ROUNDING as ROUNDING
from dpbt.audit.exact_loss import Audit as Audit
from dpbt.audit.exact_loss import Neighbours as Neighbours
from dpbt.audit.exact_loss import audit as audit
from dpbt.audit.exact_loss import exact as exact
from dpbt.audit.exact_loss import labels_of_target as labels_of_target
from dpbt.audit.exact_loss import neighbours as neighbours
from dpbt.audit.exact_loss import pair_loss as pair_loss
from dpbt.audit.exact_loss import search as search
from dpbt.audit.exact_loss import whole_domain as whole_domain
from dpbt.audit.grey_box import Hooks as Hooks
from dpbt.audit.grey_box import grey as grey
from dpbt.audit.learner_check import check_learner as check_learner
from dpbt.audit.mechanism_check import check_mechanism as check_mechanism
from dpbt.privacy.audit_bounds import Bound as Bound
