"""Mutants of saved models, of statements and of people with several rows, for `mutants`."""

_PEOPLE = ("tests/test_statement.py::test_people_with_several_rows_are_paid_for_draw_by_draw",)

SAVED = (
    (
        "rho of a person as if costs grew with the rows, and not with their square",
        "dpbt/recipes/building.py",
        "allowance.rho / float(rows_per_person) ** 2",
        "allowance.rho / float(rows_per_person)",
        _PEOPLE,
    ),
    (
        "a ledger that prices one row of a person",
        "dpbt/privacy/accounting/events.py",
        "sensitivity = np.asarray(event.sensitivity, np.float64)[()] * rows_per_person",
        "sensitivity = np.asarray(event.sensitivity, np.float64)[()]",
        _PEOPLE,
    ),
    (
        "bits of one row of a person",
        "dpbt/privacy/accounting/events.py",
        "event.moved * rows_per_person",
        "event.moved",
        _PEOPLE,
    ),
    (
        "a statement that does not name the key",
        "dpbt/boosting.py",
        "    kind = keys.kind(key)\n    return model_of(",
        "    kind = None\n    return model_of(",
        ("tests/test_statement.py::test_a_statement_names_the_kind_of_the_key",),
    ),
    (
        "a checksum that is not compared",
        "dpbt/modelfiles.py",
        'if content.get("checksum") != checksum(content):',
        'if checksum(content) == "":',
        ("tests/test_saving.py::test_every_changed_digit_is_noticed",),
    ),
)
"""Name, file, text, what takes its place, and tests of which at least one must fail."""
