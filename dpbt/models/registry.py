"""Drafts of entries for the OpenDP Deployments Registry, from what is public about a model.

The fields are those of the registry's schema of July 2026, in its repository
opendp/deployments-registry-data. What no model knows is marked; the owner writes it, and checks the
rest, before the entry is sent as a pull request there.
"""

import datetime
import json
import math
import re
from typing import Any

import dpbt
from dpbt.models import statement
from dpbt.models.model import Model, ledger
from dpbt.privacy.accounting import EXACT_WORDS, RELATION_WORDS, people_words
from dpbt.public_types import ADD_REMOVE

_ENTRY = """\
url_slug: {slug}
status: Draft
tier: 3
deployment:
  basic:
    name: {name}
    data_curators:
      - {owner}
    intended_use: "TO BE FILLED IN: what the model is for"
    data_product_type: Machine learning model
    data_product_region: "TO BE FILLED IN: the region that the data describe"
    description: {description}
    publication_date: {date}
  dp_variant:
    variant_name: {variant}
    data_domain: {domain}
    unprotected_quantities: None. What is declared is public, and not computed from the rows.
  privacy_loss:
    privacy_unit: {unit}
    privacy_unit_details: {neighbours}
    privacy_parameters:
      epsilon: {epsilon:.6f}
      delta: {delta:.1e}
    privacy_parameters_details: {accountant}
  deployment_model:
    model_name: Central
    actors: "TO BE FILLED IN: who sees the rows, and who sees the model"
    release_type: {releases}
    release_type_details: {others}
    data_source_type: Static
    access_type: Non-interactive
  accounting:
    post_processing: The model and its predictions follow from what was released.
    composition: All draws of all rounds are composed in sequence, in one ledger.
  implementation:
    preprocessing_and_hyperparameter_tuning: {preparing}
    mechanisms: {mechanisms}
    justification: "TO BE FILLED IN: why this epsilon"
  administrative:
    notes: {notes}
    registry_authors:
      - "TO BE FILLED IN: who wrote this entry"
"""


def entry(
    model: Model,
    *,
    name: str = "TO BE FILLED IN: the name of the model",
    owner: str = "TO BE FILLED IN: who publishes the model",
    notes: str = "",
    filter: Any = None,
) -> str:
    """The draft of an entry, as YAML. It reads the ledger and the domain alone, and no rows.

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
    people, rows = book.max_rows_per_user, f"{book.rows or 'N'} rows"
    unit = "Row" if people == 1 else f"Person with at most {people} rows"
    unit = "User, by an id in the table" if book.limited else unit
    neighbours = f"Neighbours: {RELATION_WORDS[book.relation]}."
    bounded = "at most " if book.relation is ADD_REMOVE else ""
    mechanisms = [
        f"{line.mechanism}: {line.releases}, drawn {line.count} times, of scale {line.scale:.4g} "
        f"on sensitivity {line.sensitivity:.4g} {line.unit or 'steps'} ({line.theorem})."
        for line in book.lines
        if line.moved is not None
    ]
    bits = f"from {EXACT_WORDS}" if book.exact else "in floating point"
    version = about.versions.get("dpbt", dpbt.__version__)
    tuned = " The settings were chosen privately, and that is paid for." if book.choice else ""
    known = [f"{key}: {fact}." for key, fact in statement.of_model(about).items()]
    words = {
        "slug": re.sub("[^a-z0-9]+", "-", name.lower()).strip("-"),
        "name": name,
        "owner": owner,
        "description": " ".join([f"A model by {about.name}.", *known]),
        "date": datetime.date.today().isoformat(),
        "variant": "Approximate DP" if book.delta or book.sampler_delta else "Pure DP",
        "domain": f"Tables of {bounded}{rows}, of which each is read by itself.",
        "unit": unit,
        "neighbours": " ".join([neighbours, *people_words(people, book.limited)]),
        "accountant": f"Through {'Gaussian DP' if book.gaussian else 'zCDP'}, at this delta."
        if book.delta
        else "The delta is what samplers from finitely many bits cost.",
        "releases": "Many releases" if filter else "One release",
        "others": statement.of_filter(filter, book).partition("\n")[2]
        if filter
        else "No other release is known to dpbt.",
        "preparing": f"TO BE FILLED IN: what was done with the rows before.{tuned}",
        "mechanisms": " ".join([*mechanisms, f"Noise is drawn {bits}, by dpbt {version}."]),
        "notes": notes or "Drafted by dpbt from the ledger of the model.",
    }
    quoted = {key: json.dumps(said, ensure_ascii=False) for key, said in words.items()}
    return _ENTRY.format(**quoted, epsilon=book.epsilon, delta=book.delta or book.sampler_delta)
