"""Mutants of the command line."""

from mutation import Mutant


def command(test: str) -> str:
    return f"tests/test_command_line.py::test_{test}"


COMMANDS = [
    Mutant(
        "a command that fits with a key of a number",
        "dpbt/cli/fit.py",
        "keys.noise_and_public(options.seed)\n        with of_input():",
        "keys.noise_and_public(0)\n        with of_input():",
        (command("a_release_draws_a_fresh_key"),),
    ),
    Mutant(
        "a fit that pays before its owner looks",
        "dpbt/cli/fit.py",
        '    check.ask(options.file, domain, label, options.yes, "Learn and pay")',
        "    pass",
        ("tests/test_owner.py::test_a_fit_that_learns_noise_is_asked_about_before_it_pays",),
    ),
    Mutant(
        "counts of private rows in a pipe",
        "dpbt/cli/check.py",
        "if not output.is_terminal(sys.stdout):",
        "if False:",
        ("tests/test_owner.py::test_check_prints_on_a_terminal_alone",),
    ),
    Mutant(
        "a command that shows the number of rows",
        "dpbt/cli/fit.py",
        'f"{options.file}: more rows than',
        'f"{options.file}: {len(labels)} is more rows than',
        (command("too_many_rows_are_refused_without_their_number"),),
    ),
    Mutant(
        "a command whose table shows the number of rows",
        "dpbt/cli/fit.py",
        'capacity=options.rows if options.relation == "add_remove" else None,',
        "capacity=None,",
        (command("no_shape_shows_the_number_of_rows"),),
    ),
    Mutant(
        "a fit that learns before it knows where to write",
        "dpbt/cli/output.py",
        "if path.exists() and not options.force:",
        "if False:",
        (command("where_a_model_cannot_be_written_nothing_is_learned"),),
    ),
    Mutant(
        "a command that forgets the weights of rows",
        "dpbt/cli/fit.py",
        "sample_weight=weights,",
        "sample_weight=None,",
        (command("predictions_are_those_of_the_library"),),
    ),
]
