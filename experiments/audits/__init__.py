"""Audit known mistakes, dpbt's own mechanisms, and other libraries' learners.

The museum re-creates each known kind of mistake of private learners, beside a twin that differs in
the line that is mended. The levels are compared on mechanisms whose truth is known. The peers are
the installed learners of other libraries; they need the extra `peers`.
"""

from experiments.audits.run import add_arguments, run_command

__all__ = ["add_arguments", "run_command"]
