"""Models, and their predictions: one class for what was fitted and what was loaded.

All of it is post-processing. Models of arrays of NumPy, as `dpbt.load` makes them, predict without
JAX, which is never imported here but for arrays of it. With arrays of JAX in the model or in the
rows, all functions are pure: they work under jit and vmap, and scores have gradients.

Functions read encoded rows, of the kind that the model was trained on:

- bins u8[N, F] (`domains.encode`) or exact numbers f32[N, F] (`domains.positions`);
- a Table of either, or one in blocks, whose absent rows are predicted, too;
- splits bool[N, S], if the model was trained on a table of raw splits (`splits.table_of_splits`).

There may be no rows: N may be 0. The methods of a model with a domain read raw columns, too.
"""

import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import structs

import dpbt
from dpbt.common.arithmetic import Array, array_namespace
from dpbt.common.validate import as_path, check_whole_number, is_traced
from dpbt.data import domains
from dpbt.data.cells import advice_for_lazy_data
from dpbt.data.domains import Domain, frame_column_names
from dpbt.data.kinds import Numeric
from dpbt.learners.hypotheses import DIGITS, KINDS, Hypotheses
from dpbt.models import file, scoring
from dpbt.models import statement as statements
from dpbt.models.file import About, probability_of
from dpbt.models.file import about_recipe as about_models_of
from dpbt.models.scoring import answers_of_scores, answers_of_votes
from dpbt.privacy.accounting import RELATION_WORDS
from dpbt.public_types import DeclaredDomain, HoldsFunctions, Splits, have_same_splits

if TYPE_CHECKING:
    from dpbt.privacy.accounting import Ledger
    from dpbt.privacy.bounds import Bound
    from dpbt.privacy.payment import PrivacyFilter
    from dpbt.types import Recipe, Release, Table, Transcript


@dataclasses.dataclass(frozen=True, eq=False)
class Model(HoldsFunctions):
    """An ensemble: everything that was released, and what follows from it.

    With JAX it is a pytree of its arrays, which may have an axis of settings (`jax.vmap`).

    Attributes:
        hypotheses: the hypotheses of all rounds, such as trees, with a leading axis for rounds. The
            score of a row is `intercept` plus the sum of their predictions.
        intercept: f32[], where every score starts; 0 for a learner without a prologue and without
            an epilogue. It is f32[K] with several classes.
        transcript: what was released. The sites that the learner withholds are not in it, unless
            `fit` was asked for them. None in a loaded model.
        recipe: the recipe that made it; None in a loaded model.
        splits: the splits of its table; None if it reads numbers.
        features: F, how many features its rows have.
        dtype: the dtype of its rows: "uint8" for bins, "float32" for numbers.
        key: the kind of key that its noise came from, "release" or "research", where it is known.
            The key itself is never kept.
        choice: if it is the best of several (`dpbt.tune`), what is public about the choice, and the
            ledger's line for its score.
        kept: what its file says, if it was loaded.
        domain: the public domain of the rows that it reads, with which those of tables are
            compared; None if the table and the recipe were made without one.
    """

    hypotheses: Hypotheses
    intercept: Array
    transcript: "Transcript | None"
    recipe: "Recipe | None"
    splits: Splits | None
    features: int = dataclasses.field(metadata={"static": True})
    dtype: str = dataclasses.field(metadata={"static": True})
    key: str | None = dataclasses.field(default=None, metadata={"static": True})
    choice: Any = dataclasses.field(default=None, metadata={"static": True})
    kept: About | None = dataclasses.field(default=None, metadata={"static": True})
    domain: DeclaredDomain | None = dataclasses.field(default=None, metadata={"static": True})

    _keep = "model.hypotheses and model.transcript, and the arguments that made its recipe"

    _is_tree: ClassVar[bool] = False

    def __post_init__(self):
        jax = sys.modules.get("jax")
        if jax is not None and not Model._is_tree:
            Model._is_tree = True
            jax.tree_util.register_dataclass(Model)

    def __repr__(self) -> str:
        """What it is and how large, without the numbers that it learned."""
        known = self.recipe if self.kept is None else self.kept
        kind, count = type(self.hypotheses).__name__, np.shape(self.hypotheses[0])[:1]
        about = f"{known.name}, " if known is not None else ""
        about += f"{''.join(map(str, count))} of {kind}, {self.features} columns of {self.dtype}"
        return f"Model({about}; see dpbt.explain, dpbt.ledger and dpbt.statement)"

    def _repr_html_(self) -> str:
        """What it is, what it predicts and what it cost, as a list of HTML."""
        rows = {"model": repr(self).removeprefix("Model(").partition(";")[0]}
        if self.recipe is None or np.ndim(self.recipe.rounds) == 0:  # no axis of settings
            book = ledger(self)
            rows["guarantee"] = statements.claim_of_ledger(book)
            rows["neighbours"] = RELATION_WORDS[book.relation]
        rows |= statements.facts_of_model(self.about)
        rows["more"] = "dpbt.explain, dpbt.ledger, dpbt.statement, dpbt.plot"
        return statements.statement_of_facts(rows)._repr_html_()

    def __reduce__(self) -> Any:
        """A loaded model can be pickled; its kind is found again by its name."""
        if self.kept is None or self.kept.kind.name not in KINDS:
            return super().__reduce__()
        kept = self.kept._replace(kind=None)  # type: ignore[arg-type]
        return _unpickled, ({**vars(self), "kept": kept}, self.kept.kind.name)

    @classmethod
    def of(
        cls, learned: Sequence[Any], recipe: "Recipe", table: "Table", key: str | None = None
    ) -> "Model":
        """The model of a run.

        Args:
            learned: its transcript, hypotheses and intercept, perhaps with room for more rounds.
            recipe: of the run.
            table: that was learned from, or one absent row of its kind.
            key: the kind of its key.
        """
        from dpbt.data.tables import first_entries  # these bring JAX
        from dpbt.types import TableForm

        transcript, hypotheses, intercept = learned
        transcript = transcript._replace(recorded_on=TableForm.of(table))
        transcript = transcript._replace(rounds=first_entries(transcript.rounds, recipe.capacity))
        hypotheses, rows = first_entries(hypotheses, recipe.capacity), table.bins
        kind = rows.shape[1], str(rows.dtype)
        ran = recipe.on(table)
        domain = recipe.domain if table.domain is None else table.domain
        parts = hypotheses, intercept, transcript, ran, table.splits
        return cls(*parts, *kind, key=key, domain=domain)

    @property
    def releases(self) -> "Release":
        """The stacked releases of all rounds; none in a loaded model."""
        return {} if self.transcript is None else self.transcript.rounds

    @property
    def about(self) -> About:
        """What is public about it, besides its arrays."""
        if self.kept is not None:
            return self.kept
        assert self.recipe is not None
        return about_models_of(self.recipe)._replace(domain=self.domain)

    def on_host(self) -> Hypotheses:
        """The hypotheses as NumPy arrays, without room beyond the number of rounds."""
        if self.recipe is None:
            return self.hypotheses
        rounds = int(self.recipe.rounds)
        return type(self.hypotheses)(*(np.asarray(array)[:rounds] for array in self.hypotheses))

    def decision_function(self, rows: Any) -> Array:
        """`dpbt.decision_function`, of raw columns, too.

        Args:
            rows: as `encode`.

        Raises:
            ValueError: for rows that the model cannot read. No cell is shown, and none is an error.
        """
        return decision_function(self, self.encode(rows))

    def predict(self, rows: Any) -> np.ndarray:
        """The class of each row; a tie is negative.

        Classes have their names. Where they have none it is what `dpbt.predict` answers: bool[N],
        and the number of the class with several classes. For a number it is f64[N], in its units
        and inside the declared range.

        Raises:
            ValueError: as `decision_function`, and within jit, vmap or grad, where classes have no
                names: `dpbt.predict` is for these.
        """
        return self._answers(self.decision_function(rows))

    def predict_proba(self, rows: Any) -> np.ndarray:
        """f32[N, K]: the probability of each class, the negative one first.

        Raises:
            ValueError: as `decision_function`, and if a score defines no probability.
        """
        probabilities = predict_proba(self, self.encode(rows))
        return probabilities if is_traced(probabilities) else np.asarray(probabilities)

    def predict_all(self, rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """What `decision_function`, `predict` and `predict_proba` say of rows, which it reads once.

        The last is None for a model whose scores define no probability.

        Raises:
            ValueError: as `decision_function`.
        """
        rows, known = self.encode(rows), self.about
        scores = _on_host(decision_function(self, rows))
        if known.probability is None:
            return scores, self._answers(scores), None
        by_trees = known.probability == "shares"
        if by_trees:
            probabilities = predict_proba(self, rows)
        else:
            probabilities = _one_column_per_class(probability_of(known, scores))
        return scores, self._answers(scores), np.asarray(probabilities)

    def _answers(self, scores: Array) -> np.ndarray:
        found, classes = answers_of_scores(self.about.target, _on_host(scores)), self.about.classes
        if classes is None:
            return found
        one_type = len({type(word) for word in classes}) == 1
        return np.asarray(classes, None if one_type else object)[found.astype(np.int64)]

    def encode(self, rows: Any) -> Any:
        """Rows as the hypotheses read them: u8[N, F] or f32[N, F].

        Args:
            rows: raw columns: a mapping of names to cells, or a data frame. They are read by the
                domain of the model. Encoded rows stay as they are.

        Raises:
            ValueError: for columns that the domain does not describe, and without a domain.
        """
        if hasattr(rows, "dtype") or hasattr(rows, "splits"):
            return rows
        domain = self.about.domain
        if domain is None:
            raise ValueError(
                "the model was made and saved without a domain, so it reads arrays of encoded rows "
                "alone; learn from dpbt.table(domain, ...), or save the model with domain=..."
            )
        names = rows if isinstance(rows, Mapping) else frame_column_names(rows)
        if names is None:
            raise ValueError(
                "rows must be columns by name, a data frame or an array of encoded rows, got "
                f"{type(rows).__name__}{advice_for_lazy_data(rows)}"
            )
        columns = {name: rows[name] for name in domain if name in names}
        if self.dtype == "uint8":
            return domains.encode(domain, columns)
        return domains.positions(domain, columns)


def _unpickled(fields: dict[str, Any], kind: str) -> Model:
    return Model(**{**fields, "kept": fields["kept"]._replace(kind=KINDS[kind])})


# What is known of a model.


def model_of(value: object) -> Model:
    """`value`, if it is a model.

    Raises:
        ValueError: for anything else.
    """
    if not isinstance(value, Model):
        raise ValueError(
            f"expected a model, as dpbt.fit returns it, got {type(value).__name__}; "
            + (_model_within(value) or "the model comes first, before rows or a domain")
        )
    return value


def _model_within(value: object) -> str:
    """Where an estimator of scikit-learn has its model, in words; nothing of other objects."""
    if isinstance(getattr(value, "model_", None), Model):
        return "the model of an estimator est is est.model_, and its domain est.domain_"
    if hasattr(value, "get_params") and hasattr(value, "fit"):
        words = "an estimator est of dpbt.sklearn has its model after est.fit, as est.model_"
        return f"{words}; in a pipeline it is est[-1].model_"
    return ""


def decision_function(model: Model, rows: Any) -> Array:
    """f32[N], or f32[N, K] with several classes: the score H of each row.

    Above 0 it means the positive class; the largest of several is the row's class. For a number
    it is its predicted position in the declared range, which may lie outside of [0, 1]. For a count
    it is the logarithm of that.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: bins u8[N, F], numbers f32[N, F], splits bool[N, S], a Table or a table in blocks, of
            the kind that the model was trained on. `domains.encode` makes bins of raw columns, and
            `domains.positions` makes numbers of them.

    Raises:
        ValueError: if the rows are not of the kind that the model reads, or `model` is no model.
    """
    found = scoring.predict_in_blocks(model_of(model), rows, scoring.scores_of_rows)
    return array_namespace(found).moveaxis(found, -1, 0)


def shares(model: Model, rows: Any) -> Array:
    """f32[k, N]: the share of the positive class that each tree states for each row.

    Args:
        model: of hypotheses that state shares, such as a random forest.
        rows: as `decision_function`.

    Returns:
        The shares, with NaN for rounds beyond the recipe's number of rounds.

    Raises:
        ValueError: for a model of other hypotheses, and as `decision_function`.
    """
    known = model_of(model).about
    if known.kind.shares is None:
        raise ValueError(f"the hypotheses of {known.name} state scores, and no shares to vote with")
    return scoring.predict_in_blocks(model, rows, scoring.shares_of_rows)


def predict(model: Model, rows: Any, voting: str | None = None, key: Any = None) -> Array:
    """bool[N], or i32[N] or f[N]: whether each row is of the positive class (H > 0, or a vote).

    A tie is negative. With several classes it is i32[N], the number of the class with the largest
    score, the first of equal ones. For a number it is f[N], in its units and inside the declared
    range.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: as `decision_function`.
        voting: a rule of `answers_of_votes`, for hypotheses that state shares. The default is H >
            0, which for these is the majority. Other hypotheses take no rule.
        key: of the coins of a probabilistic vote.

    Raises:
        ValueError: as `decision_function` and `answers_of_votes`.
    """
    if voting is None:
        return answers_of_scores(model_of(model).about.target, decision_function(model, rows))
    return answers_of_votes(shares(model, rows), voting, key)


def _one_column_per_class(probabilities: Array) -> Array:
    """f32[N, K], of f32[N] for the positive one of two classes, or of f32[N, K]."""
    if probabilities.ndim == 2:
        return probabilities
    return array_namespace(probabilities).stack([1 - probabilities, probabilities], axis=1)


def _on_host(scores: Array) -> np.ndarray:
    """Scores as an array of NumPy.

    Raises:
        ValueError: for scores that are traced.
    """
    if is_traced(scores):
        raise ValueError(
            "a model's own predict and predict_all name classes and run outside of jit, vmap and "
            "grad; dpbt.predict, dpbt.predict_proba and dpbt.decision_function run within"
        )
    return np.asarray(scores)


def predict_proba(model: Model, rows: Any) -> Array:
    """f32[N, K]: the probability of each class; of two classes the negative one is first.

    Probabilities of few boosted trees are close to 1/2, because each tree adds a small step to the
    score. They order rows as the score does.

    It is the mean share of hypotheses that state shares. Of those that state scores it is the
    probability that the recipe's loss gives the score H (`ProperLoss.probability`), and with
    several classes the softmax of the scores.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: as `decision_function`.

    Raises:
        ValueError: as `decision_function`; and if the recipe has no link, or one whose surrogate
            has kinks (the 0/1 loss), where the inverse link is not a function. Also for a model
            that predicts a number.
    """
    known = model_of(model).about
    if known.probability == "shares":
        stated = shares(model, rows)
        return _one_column_per_class(array_namespace(stated).nanmean(stated, axis=0))
    return _one_column_per_class(probability_of(known, decision_function(model, rows)))


# Its file, its ledger and its statement.


def save(
    model: Model,
    path: str | Path,
    *,
    domain: Domain | None = None,
    classes: Sequence[Any] | None = None,
) -> None:
    """Write a model to one JSON file, whole or not at all. `dpbt.load` reads it without JAX.

    All of it is post-processing of the release, and public declarations. A checksum finds accidents
    with the file. It is no signature.

    Args:
        model: from `fit`, or `dpbt.load`.
        path: the file; one that exists is replaced.
        domain: the domain that encoded the rows, by which the saved model reads raw columns. A
            model that was learned from `dpbt.table`, or loaded, has its own, and this must be the
            same. One of a table that was made without a domain is given it here.
        classes: the negative and the positive class, each text, a number or a Boolean. With them,
            the saved model predicts classes instead of Booleans. With several classes it is all of
            them in order, by default the declared ones. A number has none.

    Raises:
        ValueError: for anything that is no model, and for another domain than the model's, naming
            the first difference. Also for hypotheses or a loss of your own, which are functions
            that no file holds, for hypotheses that are not finite, and a path that is a folder.
        OSError: if the file cannot be written.
    """
    file.write_model(
        as_path("path", path), without_training_parts(model_of(model)), domain, classes
    )


def load(path: str | Path) -> Model:
    """A model from the file that `save` wrote, without JAX. Nothing in the file is run.

    The checksum finds a file that was changed by accident. It is no signature, so load files of
    those whom you trust to state the model's privacy.

    Args:
        path: the file.

    Raises:
        ValueError: naming the path and the reason, if the file is no saved model, was cut off or
            changed, or has another format.
        OSError: if the file cannot be read.
    """
    return Model(transcript=None, recipe=None, **file.read_model(as_path("path", path)))


def without_training_parts(model: Model) -> Model:
    """The model as `load` reads it from its file: without a recipe or JAX."""
    if model.kept is not None:
        return model
    book, splits, about = ledger(model), model.splits, model.about
    kept = about._replace(
        ledger=str(book),
        privacy=book,
        statement=statements.statement_of_ledger(book, about.name, dpbt.__version__),
        versions={"dpbt": dpbt.__version__, "jax": metadata.version("jax")},
    )
    asked = None if splits is None else Splits(*map(np.asarray, splits[:5]))
    reads = asked, model.features, model.dtype
    intercept = np.asarray(model.intercept)
    arrays = model.on_host(), intercept, None, None
    return Model(*arrays, *reads, kept=kept, domain=model.domain)


def ledger(model: "Recipe | Model", key: Array | None = None) -> "Ledger":
    """The ledger of one setting: what each draw costs over all rounds, and the total.

    A model has the ledger of the recipe that it was fitted with, and a loaded one that which was
    saved with it. The ledger of a model that was chosen among several is that of the choice
    (`Ledger.choice`).

    Args:
        model: one setting of a recipe, or a model.
        key: the key of a release; the ledger then names its kind. A model knows the kind of its
            own key.

    Raises:
        ValueError: as `pricing.ledger`.
    """
    from dpbt.privacy import keys, pricing

    if not isinstance(model, Model):
        if words := _model_within(model):
            given = type(model).__name__
            raise ValueError(f"a ledger needs a recipe or a model, got {given}; {words}")
        return pricing.ledger(model, key)
    kind = model.key if key is None else keys.kind_of_key(key)
    if model.kept is not None:
        book = pricing.reprice_ledger(model.kept.privacy)
    else:
        assert model.recipe is not None
        book = pricing.ledger(model.recipe)
    if model.choice is not None:
        choice, score = model.choice
        book = structs.replace(book, lines=(*book.lines, score), choice=choice)
    return book if kind is None else structs.replace(book, key=kind)


def statement(
    model: "Model | Recipe | Ledger",
    *,
    max_rows_per_user: int | None = None,
    audits: Sequence["Bound"] = (),
    facts: Mapping[str, str] | None = None,
    filter: "PrivacyFilter | None" = None,
) -> statements.Statement:
    """A page on what the guarantee of a model means, for a data-protection officer.

    It reads the ledger alone, and no rows. A statement of a model names the kind of its key, and
    that of a model with a domain the columns that it reads. One of a sum of ledgers is about all of
    its releases together. It is Markdown, `page()` is HTML, and `pdf(path)` writes a PDF.

    Args:
        model: a model, one setting of a recipe, or a ledger.
        max_rows_per_user: say what the guarantee means for people with up to so many rows, instead
            of as many as the recipe was made for. The noise stays as it is, so epsilon grows.
        audits: what `dpbt.audit` found of this recipe, on tables that are public or made up. What
            it finds on private rows is not private, and must not be in a statement.
        facts: further lines by name, such as {"Data": "people of 1994", "Owner": "the registry"}.
            They must be public.
        filter: the filter that paid for the model; the statement names all that it paid for.

    Raises:
        ValueError: as `dpbt.ledger`, or for rows that are no whole number of at least 1. Also for a
            filter that did not pay for such a model, or is damaged.
    """
    from dpbt.privacy.accounting import Ledger

    def own() -> Ledger:
        return model if isinstance(model, Ledger) else ledger(model)

    known: Any = model.about if isinstance(model, Model) else model
    kept = model.kept if isinstance(model, Model) else None
    if kept is not None and max_rows_per_user is None:
        text = kept.statement  # without JAX
    else:
        book = own()
        if max_rows_per_user is not None:
            from dpbt.privacy import pricing

            book = pricing.reprice_ledger(
                book, check_whole_number("max_rows_per_user", max_rows_per_user)
            )
        name = None if isinstance(model, Ledger) else known.name
        version = kept.versions.get("dpbt", "") if kept else dpbt.__version__
        text = statements.statement_of_ledger(book, name, version)
    read = statements.facts_of_model(known) if isinstance(model, Model) else {}
    text = statements.add_facts(text, {**(facts or {}), **read})

    # What else is known of this release.
    if filter is not None:
        text += f"\n\n{statements.statement_of_filter(filter, own())}"
    if audits:
        from dpbt.privacy.bounds import Bound

        text += "\n\n## Audits, on tables that are public or made up"
        claim = own().epsilon, own().delta
        for each in audits:
            if not isinstance(each, Bound) or not np.allclose(each.claim, claim, atol=0):
                raise ValueError("audits must be what dpbt.audit found of this very claim")
            text += f"\n- {each.words}"
    return statements.Statement(text)


# In words.


def explain(model: Model, domain: Domain | None = None, *, trees: int | None = None) -> str:
    """The model in words; post-processing of what was released.

    Trees are shown as rules, with the branches that a row can reach. Branches that say the same are
    shown as one leaf. Trees that say the same of every row are counted in one line. Of an additive
    model all curves and tables of pairs are shown, from those that move scores most, with the noise
    of a bin. Halfspaces are shown as the weight of each attribute. With several classes there is a
    line for each class. Of a number, values are in its units.

    Args:
        model: from `fit`, trained on bins; or from `dpbt.load`.
        domain: the domain that encoded the table it was fitted on. A saved model may have its own.
        trees: how many of the first trees are shown; by default all.

    Raises:
        ValueError: if the arguments are something else, or the domain is not that of the model.
            Also for trees below 1, or of a model that is made of none.
    """
    about, known = model_of(model).about, domain_of(model, domain)
    if about.kind.explain is None:
        raise ValueError(f"the hypotheses of {about.name} have no words")
    asked = model.splits
    assert asked is not None  # as `domain_of` says
    words = about.kind.explain(model.on_host(), asked, known, about.target, about.classes)
    if trees is not None:
        places = [each.start() for each in re.finditer(r"^tree \d+$", words, re.MULTILINE)]
        if not places:
            raise ValueError(f"the hypotheses of {about.name} are no trees; all of it is shown")
        left = len(places) - check_whole_number("trees", trees)
        if left > 0:
            words = f"{words[: places[trees]]}{left} more trees are not shown"
    if isinstance(about.target, Numeric) or np.any(np.asarray(model.intercept) != 0):
        odds = "; +1 doubles the odds" if about.probability in ("log", "softmax") else ""
        return f"every row starts with {_start_in_words(model)}{odds}\n{words}"
    return words


def _start_in_words(model: Model) -> str:
    """Where scores start, or a number in its units, or the logarithm of a count."""
    target, start = model.about.target, np.asarray(model.intercept)
    if isinstance(target, Numeric):
        scale, offset, _ = target.score_units
        return f"{offset + scale * float(start):.{DIGITS}g}"
    if start.ndim == 0:
        return f"{float(start):+.{DIGITS}f}"
    scores = zip(model.about.classes or range(len(start)), start, strict=True)
    return ", ".join(f"{word} {float(score):+.{DIGITS}f}" for word, score in scores)


def domain_of(model: Model, domain: Domain | None = None) -> Domain:
    """The domain of the bins that a model reads: what was given, or what a saved model has.

    Raises:
        ValueError: for anything that is no model, and for a model that reads exact numbers. Also if
            there is no domain, or it is another one than the model's, naming the first difference.
    """
    asked = model_of(model).splits
    if asked is None:
        raise ValueError("the model reads exact numbers, which a domain's bins do not describe")
    known: Any = model.about.domain if domain is None else domain
    if domain is not None:
        domains.check_domain(domain)
        domains.check_same_domain(domain, model.domain, "the given domain", "the model")
    if not have_same_splits(asked, domains.splits(known)):
        raise ValueError("the model was trained with other splits than the domain asks")
    return known
