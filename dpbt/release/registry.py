"""Drafts of entries for the OpenDP Deployments Registry, from what is public about a model.

The fields are those of the registry's schema of July 2026, in its repository
opendp/deployments-registry-data. What no model knows begins with `FILL_IN`; the owner writes it,
and checks the rest, before the entry is sent as a pull request there.
"""

import datetime
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import dpbt
from dpbt.common.public import ADD_REMOVE
from dpbt.data.kinds import Numeric
from dpbt.privacy.accounting import EXACT_WORDS, RELATION_WORDS
from dpbt.release import statement
from dpbt.release.model import Model, ledger

FILL_IN = "TO BE FILLED IN"
"""How what the owner must write begins."""


def entry(
    model: Model,
    *,
    name: str | None = None,
    owner: str | None = None,
    notes: str | None = None,
    filter: Any = None,
) -> dict[str, Any]:
    """The draft of an entry, as nested fields of the registry's names.

    It reads the ledger and the domain alone, and no rows.

    Args:
        model: from `dpbt.fit`, or `dpbt.load`.
        name: of the model, as the registry shall list it.
        owner: who releases it.
        notes: anything else that is public.
        filter: the `dpbt.Filter` that paid for it, if there is one.

    Raises:
        ValueError: for a model without a proved and finite epsilon. Also for a filter that did not
            pay for it.
    """
    book, about = ledger(model), model.about
    if book.unprotected or not math.isfinite(book.epsilon):
        raise ValueError("the model has no guarantee that can be registered; see its statement")
    people, added, rows = book.max_rows_per_user, book.relation is ADD_REMOVE, book.rows or "N"
    what = "a number" if isinstance(about.target, Numeric) else "the class"
    facts, others = statement.of_model(about), "No other release is known to dpbt."
    if filter is not None:
        others = statement.of_filter(filter, book).split("\n", 1)[1]
    title = name or f"{FILL_IN}: the name of the model"
    basic = {
        "name": title,
        "data_curators": [owner or f"{FILL_IN}: who publishes the model"],
        "intended_use": f"{FILL_IN}: what the model is for",
        "data_product_type": "Machine learning model",
        "data_product_region": f"{FILL_IN}: the region that the data describe",
        "description": " ".join(
            [
                f"A model by {about.name}, which predicts {what} of a row.",
                *(f"{key}: {fact}." for key, fact in facts.items()),
            ]
        ),
        "publication_date": datetime.date.today().isoformat(),
    }
    mechanisms = [
        f"- {line.mechanism}: {line.releases}, drawn {line.count} times, of scale {line.scale:.4g} "
        f"on sensitivity {line.sensitivity:.4g} {line.unit or 'steps'} ({line.theorem})"
        for line in book.lines
        if line.moved is not None
    ]
    version = about.versions.get("dpbt", dpbt.__version__)
    bits = f"from {EXACT_WORDS}" if book.exact else "in floating point, and not exact"
    parameters = {
        "epsilon": float(f"{book.epsilon:.6g}"),
        "delta": float(f"{book.delta or book.sampler_delta:.2g}"),
    }
    deployment = {
        "basic": basic,
        "dp_variant": {
            "variant_name": "Approximate DP" if parameters["delta"] else "Pure DP",
            "data_domain": f"Tables of {'at most ' if added else ''}{rows} rows with the columns "
            "that are declared. No content of a cell is an error.",
            "unprotected_quantities": "None. Declared columns, classes, ranges and the bound on "
            "the number of rows are public, and not computed from the rows.",
        },
        "privacy_loss": {
            "privacy_unit": "Row" if people == 1 else f"Person with at most {people} rows",
            "privacy_unit_details": f"Neighbours: {RELATION_WORDS[book.relation]}."
            + (f" This holds for all rows of a person, up to {people}." if people > 1 else ""),
            "privacy_parameters": parameters,
            "privacy_parameters_details": (
                "The delta is the cost of samplers from finitely many bits alone."
                if book.delta == 0
                else f"Through {'Gaussian DP' if book.gaussian else 'zCDP'}, at this delta."
            ),
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": f"{FILL_IN}: who sees the rows, and who sees the model",
            "release_type": "One release" if filter is None else "Many releases",
            "release_type_details": others,
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "The model and its predictions follow from what was released.",
            "composition": "All draws of all rounds are composed in sequence, in one ledger.",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": f"{FILL_IN}: what was done with the rows "
            "before. dpbt reads each row by itself, by the declared columns."
            + (" The settings were chosen privately, which is paid for." if book.choice else ""),
            "mechanisms": "\n".join([*mechanisms, f"- dpbt {version}; noise is drawn {bits}."]),
            "justification": f"{FILL_IN}: why this epsilon",
        },
        "administrative": {
            "notes": notes or "Drafted by dpbt from the ledger of the model.",
            "registry_authors": [f"{FILL_IN}: who wrote this entry"],
        },
    }
    slug = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}


def to_yaml(fields: Mapping[str, Any], indent: str = "") -> str:
    """Nested fields as YAML, whose texts are in double quotes as in JSON."""
    lines = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name}:\n{to_yaml(value, indent + '  ')}")
        elif isinstance(value, list):
            lines.append(f"{indent}{name}:")
            lines += [f"{indent}  - {json.dumps(each, ensure_ascii=False)}" for each in value]
        elif "\n" in str(value) and value.replace("\n", "").isprintable() and value[0] != " ":
            lines.append(f"{indent}{name}: |")
            lines += [f"{indent}  {line}" for line in value.splitlines()]
        else:
            word = json.dumps(value, ensure_ascii=False)
            short = isinstance(value, float) and "e" in word and "." not in word
            lines.append(f"{indent}{name}: {word.replace('e', '.0e') if short else word}")
    return "\n".join(lines)
