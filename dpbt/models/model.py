"""Models and their predictions. One class serves fitted and loaded models.

All of it is post-processing. A loaded model has arrays of NumPy and predicts without JAX, which is
imported here only for arrays of JAX. With arrays of JAX in the model or in the rows, all functions
are pure: they work under jit and vmap, and scores have gradients.

Functions read encoded rows, of the kind that the model was trained on:

- bins u8[N, F] (`domains.encode`) or exact numbers f32[N, F] (`domains.encode_positions`);
- a Table of either, or a table in blocks, whose absent rows are predicted, too;
- splits bool[N, S], if the model was trained on a table of raw splits (`splits.table_of_splits`).

N may be 0. The methods of a model with a domain also read raw columns.
"""

import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float32
from msgspec import structs

import dpbt
from dpbt.common.arithmetic import array_namespace
from dpbt.common.extras import package_version
from dpbt.common.preformatted_text import PreformattedText
from dpbt.common.validate import as_path, check_choice, check_positive_integer, is_traced
from dpbt.data import domains
from dpbt.data.cells import advice_for_lazy_data
from dpbt.data.column_types import Numeric
from dpbt.data.domains import Domain, frame_column_names
from dpbt.learners.kinds import KINDS
from dpbt.learners.model_parts import DIGITS, Hypotheses
from dpbt.models import file, scoring
from dpbt.models import statement as statements
from dpbt.models.contributions import Contributions, contributions_of_rows
from dpbt.models.file import PublicFacts, probabilities_of_scores, public_facts_of_recipe
from dpbt.models.scoring import predictions_of_scores, predictions_of_votes
from dpbt.privacy import ledger_lines
from dpbt.privacy.accounting import RELATION_TEXTS
from dpbt.public_types import AnyArray, DeclaredDomain, HoldsFunctions, Splits, have_same_splits

if TYPE_CHECKING:
    from dpbt.privacy.accounting import Ledger
    from dpbt.privacy.audit_bounds import Bound
    from dpbt.privacy.filter_protocol import PrivacyFilter
    from dpbt.types import LossFamily, ProperLoss, Recipe, Release, Table, Transcript


class FittedParts(NamedTuple):
    """The parts of a run that its model keeps: transcript, hypotheses and intercept.

    Attributes:
        transcript: without the sites that the learner withholds, which may be of many rows.
        hypotheses: after the epilogue, with a leading axis for rounds.
        intercept: where every score starts.
    """

    transcript: "Transcript"
    hypotheses: Hypotheses
    intercept: AnyArray


class Predictions(NamedTuple):
    """The scores, answers and probabilities of a model for N rows.

    Attributes:
        scores: as `Model.decision_function`.
        answers: as `Model.predict`.
        probabilities: as `Model.predict_proba`; None if scores define no probability.
    """

    scores: np.ndarray
    answers: np.ndarray
    probabilities: np.ndarray | None


@dataclasses.dataclass(frozen=True, eq=False)
class Model(HoldsFunctions):
    """An ensemble: the release of a fit, and what follows from it.

    With JAX it is a pytree of its arrays, which may have an axis of settings (`jax.vmap`).

    Attributes:
        hypotheses: the hypotheses of all rounds, such as trees, with a leading axis for rounds. The
            score of a row is `intercept` plus the sum of their predictions.
        intercept: f32[], the start of every score; 0 for a learner without a prologue and without
            an epilogue. It is f32[K] with several classes.
        transcript: the released draws. The sites that the learner withholds are not in it, unless
            `fit` was asked for them. None in a loaded model.
        recipe: the recipe of the fit; None in a loaded model.
        splits: the splits of its table; None if it reads numbers.
        features: F, the number of features of its rows.
        dtype: the dtype of its rows: "uint8" for bins, "float32" for numbers.
        key_purpose: of the key that its noise came from, "release" or "research"; None if unknown.
            A model never holds the key itself.
        choice: for the best of several models (`dpbt.tune`) the public facts of the choice, and the
            ledger's line for its score; else None.
        loaded_facts: the public facts in the file of a loaded model; None if it was fitted.
        domain: the domain of the rows that it reads, which is compared with the domains of tables;
            None if the table and the recipe were made without one.
    """

    hypotheses: Hypotheses
    intercept: AnyArray
    transcript: "Transcript | None"
    recipe: "Recipe | None"
    splits: Splits | None
    features: int = dataclasses.field(metadata={"static": True})
    dtype: str = dataclasses.field(metadata={"static": True})
    key_purpose: str | None = dataclasses.field(default=None, metadata={"static": True})
    choice: Any = dataclasses.field(default=None, metadata={"static": True})
    loaded_facts: PublicFacts | None = dataclasses.field(default=None, metadata={"static": True})
    domain: DeclaredDomain | None = dataclasses.field(default=None, metadata={"static": True})

    _alternative = "model.hypotheses and model.transcript, and the arguments that made its recipe"

    _is_tree: ClassVar[bool] = False

    def __post_init__(self):
        jax = sys.modules.get("jax")
        if jax is not None and not Model._is_tree:
            Model._is_tree = True
            jax.tree_util.register_dataclass(Model)

    def __repr__(self) -> str:
        """The algorithm and the size of the model, without the numbers that it learned."""
        named_source = self.recipe if self.loaded_facts is None else self.loaded_facts
        kind = type(self.hypotheses).__name__
        count = np.shape(self.hypotheses[0])[:1]
        words = f"{named_source.name}, " if named_source is not None else ""
        words += f"{''.join(map(str, count))} of {kind}, {self.features} columns of {self.dtype}"
        words += ", predicts a constant" * self.predicts_constant
        return f"Model({words}; see dpbt.explain, dpbt.ledger and dpbt.statement)"

    def _repr_html_(self) -> str:
        """A list, in HTML, of its algorithm, its guarantee and its predictions."""
        facts = {"model": repr(self).removeprefix("Model(").partition(";")[0]}
        if self.recipe is None or np.ndim(self.recipe.rounds) == 0:  # no axis of settings
            model_ledger = ledger(self)
            facts["guarantee"] = statements.claim_in_words(model_ledger)
            facts["neighbours"] = RELATION_TEXTS[model_ledger.relation]
        facts |= statements.facts_on_columns_and_answers(
            self.about
        ) | _facts_on_constant_and_mean_error(self)
        facts["more"] = "dpbt.explain, dpbt.ledger, dpbt.statement, dpbt.plot"
        return statements.statement_of_facts(facts)._repr_html_()

    def __reduce__(self) -> Any:
        """Pickle a loaded model, with its kind of hypotheses stored by name."""
        facts = self.loaded_facts
        if facts is None or facts.kind.name not in KINDS:
            return super().__reduce__()
        without_kind = facts._replace(kind=None)  # type: ignore[arg-type]
        fields = {**vars(self), "loaded_facts": without_kind}
        return _unpickle_loaded_model, (fields, facts.kind.name)

    @classmethod
    def from_run(
        cls,
        fitted: "FittedParts",
        recipe: "Recipe",
        table: "Table",
        *,
        key_purpose: str | None = None,
    ) -> "Model":
        """Make the model of what a run leaves.

        Args:
            fitted: what the run leaves for its model. Rounds beyond the `max_rounds` of the recipe
                are dropped.
            recipe: the recipe of the run.
            table: the table of the run, or one absent row of the same form.
            key_purpose: of the key of the run, "release" or "research".
        """
        from dpbt.data.tables import first_entries_of_arrays  # these bring JAX
        from dpbt.types import TableForm

        transcript = fitted.transcript._replace(
            recorded_on=TableForm.of_table(table),
            rounds=first_entries_of_arrays(fitted.transcript.rounds, recipe.max_rounds),
        )
        return cls(
            hypotheses=first_entries_of_arrays(fitted.hypotheses, recipe.max_rounds),
            intercept=fitted.intercept,
            transcript=transcript,
            recipe=recipe.with_user_limit_of(table),
            splits=table.splits,
            features=table.bins.shape[1],
            dtype=str(table.bins.dtype),
            key_purpose=key_purpose,
            domain=recipe.domain if table.domain is None else table.domain,
        )

    @property
    def releases(self) -> "Release":
        """The stacked releases of all rounds.

        They are empty in a loaded model.
        """
        return {} if self.transcript is None else self.transcript.rounds

    @property
    def about(self) -> PublicFacts:
        """The public facts of the model besides its arrays."""
        if self.loaded_facts is not None:
            return self.loaded_facts
        assert self.recipe is not None
        return public_facts_of_recipe(self.recipe)._replace(domain=self.domain)

    @property
    def mean_error(self) -> float | None:
        """The estimated error of the mean prediction, in units of the number.

        It is about how far the mean prediction is from the mean of the rows.

        It is a standard deviation, of the noise of privacy and of what clips cut off. It is
        post-processing of what was released. None for classes, without the sums of final residuals
        (`scores_fraction`), and with an axis of settings.
        """
        if self.loaded_facts is not None:
            return self.loaded_facts.mean_error
        return _mean_error_of_fitted_model(self)

    @property
    def predicts_constant(self) -> bool:
        """Whether the model predicts one number for all rows.

        It does so where noise hides what columns tell.

        False for a model of classes, with an axis of settings, and within jit, vmap or grad.
        """
        added_numbers = self.about.kind.added_numbers
        is_one_number = isinstance(self.about.target, Numeric) and np.ndim(self.intercept) == 0
        if added_numbers is None or not is_one_number or is_traced(self.intercept):
            return False
        return not np.any(np.asarray(added_numbers(self.host_hypotheses_of_run_rounds())))

    def host_hypotheses_of_run_rounds(self) -> Hypotheses:
        """The hypotheses of the rounds that were run, as NumPy arrays.

        A loaded model has no others.
        """
        if self.recipe is None:
            return self.hypotheses
        rounds = int(self.recipe.rounds)
        return type(self.hypotheses)(*(np.asarray(array)[:rounds] for array in self.hypotheses))

    def decision_function(self, rows: Any) -> AnyArray:
        """The scores of rows, which may be raw columns.

        They are those of `dpbt.decision_function`.

        Args:
            rows: as `encode`.

        Raises:
            ValueError: for rows that the model cannot read. No raw cell is an error, and none is
                shown. An array is read as bins, and refused if the domain does not have them.
        """
        return decision_function(self, self.encode(rows))

    def predict(self, rows: Any) -> np.ndarray:
        """Predict the class of each row, or its number.

        A class is given by its name, and a tie is negative. If classes have no names, it is the
        array of `dpbt.predict`: bool[N], or the number of the class with several classes. A number
        is f64[N], in its units and inside the declared range.

        Raises:
            ValueError: as `decision_function`, and within jit, vmap or grad, where classes have no
                names: `dpbt.predict` is for these.
        """
        return self._named_answers(self.decision_function(rows))

    def predict_proba(self, rows: Any) -> Float32[AnyArray, "N K"]:
        """f32[N, K]: the probability of each class.

        Of two classes the negative one is first.

        Raises:
            ValueError: as `decision_function`, and if a score defines no probability.
        """
        probabilities = predict_proba(self, self.encode(rows))
        return probabilities if is_traced(probabilities) else np.asarray(probabilities)

    def predict_all(self, rows: Any) -> Predictions:
        """The scores, answers and probabilities of rows.

        The rows are read once.

        Raises:
            ValueError: as `decision_function`.
        """
        rows = self.encode(rows)
        about = self.about
        scores = _as_host_array(decision_function(self, rows))
        answers = self._named_answers(scores)
        if about.probability is None:
            return Predictions(scores, answers, None)
        if about.probability == "shares":
            probabilities = predict_proba(self, rows)
        else:
            probabilities = _with_column_per_class(probabilities_of_scores(about, scores))
        return Predictions(scores, answers, np.asarray(probabilities))

    def contributions(
        self,
        rows: Any,
        *,
        domain: Domain | None = None,
        background: Mapping[str, Any] | str | None = None,
    ) -> Contributions:
        """The amounts that each column of each row adds to its score, exactly.

        It needs no JAX.

        Contributions are the Shapley values of the model, where the cells that are not in a set of
        columns are drawn independently from a public background (`models.contributions`). In an
        additive model a column adds its curve less the mean of the curve, and a declared pair is an
        entry of its own. The score of a forest is the number of its trees that vote positive, less
        the number of the others.

        It is post-processing of the model, and spends nothing; but it shows the rows, as a
        prediction does, so it is as private as they are. It explains the model, noise and all, and
        not the person.

        Args:
            rows: as `encode`; a `dpbt.Table` is read as it is, absent rows included.
            domain: the domain that encoded the table of the fit. A saved model may have its own.
            background: by default each column has the same share for each of its bins. "released"
                takes the shares that the model itself released, as a tenth of the budget of `auto`
                buys where rows are many. Or for names of columns the shares of their bins, as
                `domains.encode` numbers these, which must be public, such as those of a census.

        Raises:
            ValueError: for rows that the model cannot read, for a model of exact numbers or of
                hypotheses that are neither trees nor curves, such as halfspaces, for a background
                of other columns or bins, or "released" where no shares were released, and for a
                domain as `explain`.
        """
        model_domain = resolve_domain_of_model(self, domain)
        if self.about.domain is None and not (hasattr(rows, "dtype") or hasattr(rows, "splits")):
            rows = domains.encode(model_domain, rows)
        if isinstance(background, str):
            background = _bin_shares_of_background(self, model_domain, background)
        return contributions_of_rows(self, self.encode(rows), model_domain, background)

    def _named_answers(self, scores: AnyArray) -> np.ndarray:
        """The predictions that follow from scores, as names of classes if they have any."""
        predicted = predictions_of_scores(self.about.target, _as_host_array(scores))
        classes = self.about.classes
        if classes is None:
            return predicted
        are_of_one_type = len({type(word) for word in classes}) == 1
        names = np.asarray(classes, None if are_of_one_type else object)
        return names[predicted.astype(np.int64)]

    def encode(self, rows: Any) -> Any:
        """Encode raw columns by the domain of the model.

        The rows are u8[N, F], or f32[N, F] for a model that reads exact numbers.

        Args:
            rows: raw columns: a mapping of names to cells, or a data frame. Encoded rows are
                returned as they are.

        Raises:
            ValueError: for columns that the domain does not describe, and for a model without a
                domain.
        """
        if hasattr(rows, "dtype") or hasattr(rows, "splits"):
            return rows
        domain = self.about.domain
        if domain is None:
            raise ValueError(
                "the model was made and saved without a domain, so it reads arrays of encoded rows "
                "alone; learn from dpbt.table(domain, ...), or save the model with domain=..."
            )
        if not isinstance(rows, Mapping) and frame_column_names(rows) is None:
            raise ValueError(
                "rows must be columns by name, a data frame or an array of encoded rows, got "
                f"{type(rows).__name__}{advice_for_lazy_data(rows)}"
            )
        rows = _columns_with_names_of_domain(rows, domain)
        if self.dtype == "uint8":
            return domains.encode(domain, rows)
        return domains.encode_positions(domain, rows)


def _columns_with_names_of_domain(rows: Any, domain: Domain) -> Any:
    """Rename raw columns to the names of a domain, if their own names are not text.

    A saved domain has the texts of names, such as that of 0 in a frame without names.
    """
    names = tuple(rows.keys() if hasattr(rows, "keys") else frame_column_names(rows) or ())
    label_of_text = {str(label): label for label in names}
    are_known = all(name in label_of_text for name in domain)
    if not are_known or set(domain) <= set(names) or len(label_of_text) < len(names):
        return rows
    return {name: rows[label_of_text[str(name)]] for name in domain}


def _unpickle_loaded_model(fields: dict[str, Any], kind: str) -> Model:
    """Make a loaded model of its fields and the name of its kind of hypotheses."""
    facts = fields["loaded_facts"]._replace(kind=KINDS[kind])
    return Model(**{**fields, "loaded_facts": facts})


# Predictions.


def checked_model(value: object) -> Model:
    """Return `value` itself, and refuse it unless it is a model.

    Raises:
        ValueError: for anything else.
    """
    if not isinstance(value, Model):
        raise ValueError(
            f"expected a model, as dpbt.fit returns it, got {type(value).__name__}; "
            + (_advice_on_estimator(value) or "the model comes first, before rows or a domain")
        )
    return value


def resolve_model(model_or_estimator: object) -> Model:
    """A model itself, or the model of a fitted estimator of scikit-learn.

    Raises:
        ValueError: for anything else; for an estimator that is not fitted it is scikit-learn's
            NotFittedError.
    """
    model = getattr(model_or_estimator, "model_", None)
    if isinstance(model, Model):
        return model
    advice = _advice_on_estimator(model_or_estimator)
    if isinstance(model_or_estimator, Model) or not advice:
        return checked_model(model_or_estimator)
    from sklearn.exceptions import NotFittedError  # only an estimator of it brings one here

    raise NotFittedError(f"{type(model_or_estimator).__name__} is not fitted; {advice}")


def _advice_on_estimator(value: object) -> str:
    """Advice on where an estimator of scikit-learn has its model.

    It is empty for other objects.
    """
    if isinstance(getattr(value, "model_", None), Model):
        return "the model of an estimator est is est.model_, and its domain est.domain_"
    if hasattr(value, "get_params") and hasattr(value, "fit"):
        words = "an estimator est of dpbt.sklearn has its model after est.fit, as est.model_"
        return f"{words}; in a pipeline it is est[-1].model_"
    return ""


def decision_function(model: Model, rows: Any) -> AnyArray:
    """f32[N]: the score H of each row.

    With several classes it is f32[N, K], a score for each class.

    A score above 0 means the positive class. Of several classes the one with the largest score is
    predicted. The score of a number is its predicted position in the declared range, which may lie
    outside of [0, 1], and that of a count is the logarithm of the position.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: bins u8[N, F], numbers f32[N, F], splits bool[N, S], a Table or a table in blocks, of
            the kind that the model was trained on. `domains.encode` makes bins of raw columns, and
            `domains.encode_positions` makes numbers of them.

    Raises:
        ValueError: if the rows are not of the kind that the model reads, or `model` is no model.
            Also for an array of bins that the model's domain does not have, as raw columns may be.
    """
    scores = scoring.evaluate_on_encoded_rows(checked_model(model), rows, scoring.scores_of_rows)
    return array_namespace(scores).moveaxis(scores, -1, 0)


def shares(model: Model, rows: Any) -> Float32[AnyArray, "k N"]:
    """f32[k, N]: the share of the positive class that each tree states for each row.

    Args:
        model: a model of hypotheses that state shares, such as a random forest.
        rows: as `decision_function`.

    Returns:
        The shares, with NaN for rounds beyond the recipe's number of rounds.

    Raises:
        ValueError: for a model of other hypotheses, and as `decision_function`.
    """
    about = checked_model(model).about
    if about.kind.shares is None:
        raise ValueError(f"the hypotheses of {about.name} state scores, and no shares to vote with")
    return scoring.evaluate_on_encoded_rows(model, rows, scoring.shares_of_rows)


def predict(model: Model, rows: Any, voting: str | None = None, key: Any = None) -> AnyArray:
    """The prediction for each row: bool[N], i32[N] or f[N].

    Of two classes it is bool[N]: whether the row is of the positive class (H > 0, or a vote). A tie
    is negative. With several classes it is i32[N], the number of the class with the largest score,
    the first of equal ones. For a number it is f[N], in its units and inside the declared range.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: as `decision_function`.
        voting: a rule of `predictions_of_votes`, for hypotheses that state shares. The default is
            H > 0, which for these is the majority. Other hypotheses take no rule.
        key: the key of the coins of a probabilistic vote.

    Raises:
        ValueError: as `decision_function` and `predictions_of_votes`.
    """
    if voting is None:
        return predictions_of_scores(
            checked_model(model).about.target, decision_function(model, rows)
        )
    return predictions_of_votes(shares(model, rows), voting, key)


def _with_column_per_class(probabilities: AnyArray) -> Float32[AnyArray, "N K"]:
    """f32[N, K]: the probabilities of all classes, in a column for each.

    They are made of the probabilities f32[N] of the positive class, or are those of all classes.
    """
    if probabilities.ndim == 2:
        return probabilities
    return array_namespace(probabilities).stack([1 - probabilities, probabilities], axis=1)


def _as_host_array(scores: AnyArray) -> np.ndarray:
    """Convert scores to a NumPy array, and refuse traced ones.

    Raises:
        ValueError: for traced scores.
    """
    if is_traced(scores):
        raise ValueError(
            "a model's own predict and predict_all name classes and run outside of jit, vmap and "
            "grad; dpbt.predict, dpbt.predict_proba and dpbt.decision_function run within"
        )
    return np.asarray(scores)


def predict_proba(model: Model, rows: Any) -> Float32[AnyArray, "N K"]:
    """f32[N, K]: the probability of each class.

    Of two classes the negative one is first.

    Probabilities of few boosted trees are close to 1/2, because each tree adds a small step to the
    score. They order rows as the score does.

    For hypotheses that state shares it is their mean share. For those that state scores it is the
    probability that the recipe's loss assigns to the score H (`ProperLoss.probability`), and with
    several classes the softmax of the scores.

    Args:
        model: from `fit`, or `dpbt.load`.
        rows: as `decision_function`.

    Raises:
        ValueError: as `decision_function`; and if the recipe has no link, or one whose surrogate
            has kinks (the 0/1 loss), where the inverse link is not a function. Also for a model
            that predicts a number.
    """
    about = checked_model(model).about
    if about.probability == "shares":
        tree_shares = shares(model, rows)
        return _with_column_per_class(array_namespace(tree_shares).nanmean(tree_shares, axis=0))
    return _with_column_per_class(probabilities_of_scores(about, decision_function(model, rows)))


# The file, the ledger and the statement of a model.


def save(
    model: Model,
    path: str | Path,
    *,
    domain: Domain | None = None,
    classes: Sequence[Any] | None = None,
) -> None:
    """Write a model to one JSON file, which `dpbt.load` reads without JAX.

    The file is written whole or not at all.

    All of it is post-processing of the release, and public declarations. A checksum finds accidents
    with the file. It is no signature. Of a loss of your own a file holds the name. The saved model
    then has scores and classes, and `dpbt.load(path, loss=...)` gives it probabilities again.

    Args:
        model: from `fit`, or `dpbt.load`.
        path: the file; one that exists is replaced.
        domain: the domain that encoded the rows, by which the saved model reads raw columns. A
            model that was learned from `dpbt.table`, or loaded, has a domain, and this must be the
            same. A model of a table without a domain needs it here to read raw columns.
        classes: the negative and the positive class, each text, a number or a Boolean. With them,
            the saved model predicts classes instead of Booleans. With several classes it is all of
            them in order, by default the declared ones. A model of a number has none.

    Raises:
        ValueError: for anything that is no model, and for another domain than the model's, naming
            the first difference. Also for hypotheses of your own, which are functions that no file
            holds, for hypotheses that are not finite, and a path that is a folder.
        OSError: if the file cannot be written.
    """
    file.write_model(
        as_path("path", path), without_training_parts(checked_model(model)), domain, classes
    )


def load(path: str | Path, *, loss: "ProperLoss | LossFamily | None" = None) -> Model:
    """Load a model from the file that `save` wrote.

    It needs no JAX, and nothing in the file is run.

    No file decides which code is imported or called: a loss of your own comes from you, as an
    argument. The checksum finds a file that was changed by accident. It is no signature, so load
    files of those whom you trust to state the model's privacy.

    Args:
        path: the file.
        loss: for a model that was boosted with a loss of your own, that loss, so that
            `predict_proba` is as before. It is checked as a recipe checks it, with JAX. None for a
            loss of dpbt, or for scores without probabilities.

    Raises:
        ValueError: naming the path and the reason, if the file is no saved model, was cut off or
            changed, or has another format. Also for a loss of another name than the model's, or for
            a model that takes none.
        OSError: if the file cannot be read.
    """
    saved = file.read_model(as_path("path", path))
    if loss is not None:
        saved = saved._replace(
            loaded_facts=file.with_probabilities_of_loss(saved.loaded_facts, loss)
        )
    return Model(transcript=None, recipe=None, **saved._asdict())


def without_training_parts(model: Model) -> Model:
    """Reduce a model to what `load` reads from its file.

    It has no recipe, and needs no JAX.
    """
    if model.loaded_facts is not None:
        return model
    model_ledger = ledger(model)
    about = model.about
    facts = about._replace(
        bin_shares=_released_bin_shares(model),
        mean_error=_mean_error_of_fitted_model(model),
        ledger=str(model_ledger),
        privacy=model_ledger,
        statement=statements.statement_of_ledger(model_ledger, about.name, dpbt.__version__),
        versions={"dpbt": dpbt.__version__, "jax": package_version("jax")},
    )
    return Model(
        hypotheses=model.host_hypotheses_of_run_rounds(),
        intercept=np.asarray(model.intercept),
        transcript=None,
        recipe=None,
        splits=None if model.splits is None else Splits(*map(np.asarray, model.splits[:5])),
        features=model.features,
        dtype=model.dtype,
        loaded_facts=facts,
        domain=model.domain,
    )


def _bin_shares_of_background(
    model: Model, domain: Domain, name: str
) -> dict[str, np.ndarray] | None:
    """The shares of bins of a background that is given by name, "uniform" or "released".

    They are None for "uniform".

    Raises:
        ValueError: for another name, and for a model that released no shares.
    """
    check_choice("background", name, ("uniform", "released"))
    if name == "uniform":
        return None
    bin_shares = _released_bin_shares(model)
    if bin_shares is None:
        raise ValueError(
            f"this model of {model.about.name} released no histograms of its rows, so it has no "
            "shares of bins; leave background out"
        )
    return {
        column: np.asarray(shares[: kind.n_bins])
        for (column, kind), shares in zip(domain.items(), bin_shares, strict=True)
    }


def _released_bin_shares(model: Model) -> tuple[tuple[float, ...], ...] | None:
    """The share of the rows in each bin, by the released histograms of a model.

    It is None for a model that released none.
    """
    if model.loaded_facts is not None:
        return model.loaded_facts.bin_shares
    if model.recipe is None or model.transcript is None:
        return None
    from dpbt.learners.bins.config import BinsConfig
    from dpbt.learners.bins.histograms import HISTOGRAM_SITE
    from dpbt.learners.bins.shares import estimate_bin_shares_of_noisy_histogram

    config = model.recipe.learner.config
    params = model.recipe.params
    if not isinstance(config, BinsConfig) or not config.draws_histograms:
        return None
    if HISTOGRAM_SITE not in model.transcript.prologue:
        return None
    histogram = np.asarray(model.transcript.prologue[HISTOGRAM_SITE])
    noise = {site: np.asarray(multiplier) for site, multiplier in params.noise.items()}
    shares = estimate_bin_shares_of_noisy_histogram(config, params._replace(noise=noise), histogram)
    return tuple(map(tuple, shares.tolist()))


def _mean_error_of_fitted_model(model: Model) -> float | None:
    """Estimate the error of the mean prediction of a fitted model, in units of the number.

    It is None where `Model.mean_error` is.
    """
    if model.recipe is None or model.transcript is None or np.ndim(model.recipe.rounds):
        return None
    from dpbt.learners.bins.config import BinsConfig
    from dpbt.learners.bins.histograms import SCORES_SITE
    from dpbt.learners.bins.number_line import estimate_mean_error

    learner = model.recipe.learner
    params = model.recipe.params
    target = model.about.target
    config = learner.config
    if not isinstance(config, BinsConfig) or not isinstance(target, Numeric):
        return None
    sums = model.transcript.epilogue.get(SCORES_SITE)
    if sums is None or learner.prologue is None or is_traced(sums) or is_traced(model.intercept):
        return None
    error = estimate_mean_error(
        config, learner.prologue, params=params, released=model.transcript.prologue, sums=sums
    )
    return float(error) * (target.high - target.low)


CONSTANT_WORDS = "this model predicts a constant: at this budget noise hides what the columns tell"
"""The words on a model that predicts one number."""


def describe_constant_and_mean_error(model: Model) -> list[str]:
    """Lines on whether a model of a number predicts a constant, and on the error of its mean.

    There are none for a model of classes.

    Args:
        model: fitted or loaded.
    """
    lines = [CONSTANT_WORDS] if model.predicts_constant else []
    if (error := model.mean_error) is not None:
        lines.append(
            f"the mean prediction is within about {error:.{DIGITS}g} of the mean of the rows, one "
            "standard deviation"
        )
    return lines


def _facts_on_constant_and_mean_error(model: Model) -> dict[str, str]:
    """Facts for a statement: whether a model predicts a constant, and the error of its mean.

    They are by name, and empty for a model of classes.
    """
    facts = {"Constant": CONSTANT_WORDS} if model.predicts_constant else {}
    if (error := model.mean_error) is not None:
        facts["Error of the mean"] = f"{error:.{DIGITS}g}, one standard deviation"
    return facts


def ledger(model: "Recipe | Model", key: AnyArray | None = None) -> "Ledger":
    """The privacy ledger of one setting: the cost of each draw over all rounds, and the total.

    The ledger of a model is that of the recipe it was fitted with, and of a loaded model the one in
    its file. The ledger of a model that was chosen among several includes the choice
    (`Ledger.choice`).

    Args:
        model: one setting of a recipe, or a model.
        key: the key of a release; the ledger then names its kind. A model knows the kind of its
            own key.

    Raises:
        ValueError: as `recipe_ledger.ledger`.
    """
    if not isinstance(model, Model):
        if words := _advice_on_estimator(model):
            raise ValueError(
                f"a ledger needs a recipe or a model, got {type(model).__name__}; {words}"
            )
        from dpbt.privacy import recipe_ledger

        return recipe_ledger.ledger(model, key)
    key_purpose = model.key_purpose
    if key is not None:
        from dpbt.privacy import keys

        key_purpose = keys.key_purpose(key)
    if model.loaded_facts is not None:
        model_ledger = ledger_lines.recompute_ledger_costs(
            model.loaded_facts.privacy
        )  # without JAX
    else:
        from dpbt.privacy import recipe_ledger

        assert model.recipe is not None
        model_ledger = recipe_ledger.ledger(model.recipe)
    if model.choice is not None:
        choice, score_line = model.choice
        lines = (*model_ledger.lines, score_line)
        model_ledger = structs.replace(model_ledger, lines=lines, choice=choice)
    if key_purpose is None:
        return model_ledger
    return structs.replace(model_ledger, key_purpose=key_purpose)


def statement(
    model: "Model | Recipe | Ledger",
    *,
    max_rows_per_user: int | None = None,
    audits: Sequence["Bound"] = (),
    facts: Mapping[str, str] | None = None,
    filter: "PrivacyFilter | None" = None,
) -> statements.Statement:
    """Write a page on what the guarantee of a model means.

    It is for a data-protection officer.

    It reads the ledger alone, and no rows. A statement of a model names the kind of its key, and
    for a model with a domain the columns that it reads. A statement of a sum of ledgers is about
    all of its releases together. It is Markdown, `page()` is HTML, and `pdf(path)` writes a PDF.

    Args:
        model: a model, one setting of a recipe, or a ledger.
        max_rows_per_user: state the guarantee for people with up to so many rows, instead of as
            many as the recipe was made for. The noise stays as it is, so epsilon grows.
        audits: the results of `dpbt.audit` on this recipe, on tables that are public or made up. A
            result on private rows is private, and must not be in a statement.
        facts: further lines by name, such as {"Data": "people of 1994", "Owner": "the registry"}.
            They must be public.
        filter: the filter that paid for the model. The statement names all releases that it paid
            for.

    Raises:
        ValueError: as `dpbt.ledger`, or for rows that are no whole number of at least 1. Also for a
            filter that did not pay for such a model, or is damaged.
    """
    text = _statement_of_guarantee(model, max_rows_per_user)
    model_facts = {}
    if isinstance(model, Model):
        model_facts = statements.facts_on_columns_and_answers(
            model.about
        ) | _facts_on_constant_and_mean_error(model)
    text = statements.add_facts(text, {**(facts or {}), **model_facts})
    if filter is not None:
        text += f"\n\n{statements.section_on_other_releases(filter, _as_ledger(model))}"
    if audits:
        text += f"\n\n{_section_on_audits(audits, _as_ledger(model))}"
    return statements.Statement(text)


def _as_ledger(value: "Model | Recipe | Ledger") -> "Ledger":
    """Return the ledger of a model or a recipe, or a ledger itself."""
    from dpbt.privacy.accounting import Ledger

    return value if isinstance(value, Ledger) else ledger(value)


def _statement_of_guarantee(model: "Model | Recipe | Ledger", max_rows_per_user: int | None) -> str:
    """The text of a statement on the guarantee alone.

    Further facts, audits and other releases are not in it.
    """
    from dpbt.privacy.accounting import Ledger

    loaded_facts = model.loaded_facts if isinstance(model, Model) else None
    if loaded_facts is not None and max_rows_per_user is None:
        return loaded_facts.statement  # without JAX
    stated_ledger = _as_ledger(model)
    if max_rows_per_user is not None:
        max_rows_per_user = check_positive_integer("max_rows_per_user", max_rows_per_user)
        stated_ledger = ledger_lines.recompute_ledger_costs(stated_ledger, max_rows_per_user)
    named_source: Any = model.about if isinstance(model, Model) else model
    name = None if isinstance(model, Ledger) else named_source.name
    version = loaded_facts.versions.get("dpbt", "") if loaded_facts else dpbt.__version__
    return statements.statement_of_ledger(stated_ledger, name, version)


def _section_on_audits(audits: Sequence["Bound"], audited_ledger: "Ledger") -> str:
    """The section of a statement on audits of its guarantee.

    Raises:
        ValueError: for an audit of another claim.
    """
    from dpbt.privacy.audit_bounds import Bound

    lines = ["## Audits, on tables that are public or made up"]
    claim = audited_ledger.epsilon, audited_ledger.delta
    for audit in audits:
        if not isinstance(audit, Bound) or not np.allclose(audit.claim, claim, atol=0):
            raise ValueError("audits must be what dpbt.audit found of this very claim")
        lines.append(f"- {audit.words}")
    return "\n".join(lines)


# The model in words.


def explain(
    model: Model | Any, domain: Domain | None = None, *, trees: int | None = None
) -> PreformattedText:
    """Describe a model in words: its rules, curves or weights.

    It is post-processing of what was released.

    Trees are shown as rules, with the branches that a row can reach. Branches with equal values are
    shown as one leaf. Trees with one value for all rows are counted in one line. Of an additive
    model all curves and tables of pairs are shown, from those that move scores most, with the noise
    of a bin. Halfspaces are shown as the weight of each attribute. With several classes there is a
    line for each class. Predicted numbers are in their units.

    Args:
        model: from `fit`, trained on bins; from `dpbt.load`; or a fitted estimator.
        domain: the domain that encoded the table of the fit. A saved model may have its own.
        trees: the number of trees to show, from the first; None for all.

    Returns:
        The text, which a notebook shows with its lines.

    Raises:
        ValueError: if the arguments are something else, or the domain is not that of the model.
            Also for trees below 1, or of a model that is made of none.
        sklearn.exceptions.NotFittedError: for an estimator before `fit`; it is a ValueError.
    """
    model = resolve_model(model)
    about = model.about
    model_domain = resolve_domain_of_model(model, domain)
    if about.kind.describe is None:
        raise ValueError(_reason_for_no_description(model))
    hypotheses = model.host_hypotheses_of_run_rounds()
    splits = model.splits
    assert splits is not None  # `resolve_domain_of_model` refuses a model without
    words = about.kind.describe(hypotheses, splits, model_domain, about.target, about.classes)
    if trees is not None:
        titles = [match.start() for match in re.finditer(r"^tree \d+$", words, re.MULTILINE)]
        if not titles:
            raise ValueError(f"the hypotheses of {about.name} are no trees; all of it is shown")
        num_hidden = len(titles) - check_positive_integer("trees", trees)
        if num_hidden > 0:
            words = f"{words[: titles[trees]]}{num_hidden} more trees are not shown"
    if isinstance(about.target, Numeric) or np.any(np.asarray(model.intercept) != 0):
        odds = "; +1 doubles the odds" if about.probability in ("log", "softmax") else ""
        words = f"every row starts with {_describe_intercept(model)}{odds}\n{words}"
    words = "\n".join([*describe_constant_and_mean_error(model), words])
    return PreformattedText(words)


def _reason_for_no_description(model: Model) -> str:
    """The reason why the hypotheses of a model cannot be described in words.

    `explain` shows it.
    """
    trained_kind = None if model.recipe is None else model.recipe.learner.kind
    if trained_kind is None or trained_kind.describe is None:
        return f"the hypotheses of {model.about.name} have no words: their kind has no `describe`"
    name = trained_kind.name
    if name not in KINDS:
        fault = f"has no kind of the name {name!r}; add yours, with a name"
    else:
        fault = f"has another kind of the name {name!r}; give yours a name of its own, and add it"
    return (
        f"the hypotheses of {model.about.name} have a `describe` that models do not use, because "
        f"dpbt.learners.kinds.KINDS {fault}"
    )


def _describe_intercept(model: Model) -> str:
    """Describe the intercept, where all scores start.

    For a number it is in its units, and for a count its logarithm.
    """
    target = model.about.target
    start = np.asarray(model.intercept)
    if isinstance(target, Numeric):
        scale, offset, _ = target.score_units
        return f"{offset + scale * float(start):.{DIGITS}g}"
    if start.ndim == 0:
        return f"{float(start):+.{DIGITS}f}"
    scores = zip(model.about.classes or range(len(start)), start, strict=True)
    return ", ".join(f"{word} {float(score):+.{DIGITS}f}" for word, score in scores)


def resolve_domain_of_model(model: Model, domain: Domain | None = None) -> Domain:
    """The domain of the bins that a model reads.

    It is the argument, or else the model's own.

    Raises:
        ValueError: for anything that is no model, and for a model that reads exact numbers. Also if
            there is no domain, or it is another one than the model's, naming the first difference.
    """
    model_splits = checked_model(model).splits
    if model_splits is None:
        raise ValueError("the model reads exact numbers, which a domain's bins do not describe")
    described: Any = model.about.domain if domain is None else domain
    if described is None:
        raise ValueError("the model has no domain of its own; give that of its rows as domain=")
    if domain is not None:
        domains.check_domain(domain)
        domains.check_same_domain(domain, model.domain, "the given domain", "the model")
    if not have_same_splits(model_splits, domains.splits(described)):
        raise ValueError("the model was trained with other splits than the domain asks")
    return described
