"""Fits that a filter pays for."""

from pathlib import Path

import jax

from dpbt import boosting, checks, chunked, forests
from dpbt.base import Array, Recipe, Table
from dpbt.data.blocks import BlockTable
from dpbt.learners.random_tree import GROVES
from dpbt.privacy import filter as privacy_filter
from dpbt.privacy import keys
from dpbt.privacy.pricing import ledger
from dpbt.release.model import Model
from dpbt.validate import flag


class Filter(privacy_filter.Filter):
    """A filter that fits, too."""

    def fit(
        self,
        key: Array,
        table: Table,
        recipe: Recipe,
        public_key: Array | None = None,
        *,
        keep_withheld: bool = False,
    ) -> Model:
        """Pay for a recipe and fit it: `dpbt.fit`, or `forests.fit` for random trees.

        What the purse does not pay for is refused before the table is read. What a fit refuses of
        its arguments costs nothing. Of private things that is one bit: whether the table has more
        rows than the purse's `rows`.

        Args:
            key: as `dpbt.fit`; a key of its own for each fit, also after one that failed.
            table: as `dpbt.fit`.
            recipe: as `take`.
            public_key: as `dpbt.fit`.
            keep_withheld: as `dpbt.fit`.

        Raises:
            ValueError: as `take` and as the function that fits.
        """
        flag("keep_withheld", keep_withheld)
        checks.check_run(table, recipe)
        self.check(recipe)
        checks.check(key, checks.on_device(table), recipe, public_key)
        public = [line.site for line in ledger(recipe).lines if line.mechanism.public]
        if public and public_key is None:
            raise ValueError(f"the recipe draws public structure ({public[0]}): give a public_key")
        self.take(recipe, key)
        fit = forests.fit if recipe.learner.hypotheses is GROVES else boosting.fit
        return fit(key, table, recipe, public_key, keep_withheld=keep_withheld)

    def fit_chunks(
        self,
        key: Array,
        table: BlockTable,
        recipe: Recipe,
        public_key: Array | None = None,
        *,
        memory: float = 4 * 2**30,
        checkpoint: str | Path | None = None,
        progress: chunked.Report | None = None,
        threads: int | None = None,
    ) -> Model:
        """Pay for a recipe and fit it to a table in chunks: `dpbt.fit_chunks`.

        The purse pays when all that can be refused has been, damaged chunks among it. A run that
        was stopped goes on with the same keys and the same checkpoint, and was paid for once.

        Args: as `dpbt.fit_chunks`, and as `fit`.

        Raises:
            ValueError: as `take` and as `dpbt.fit_chunks`. Also where several processes learn
                together, as each would pay.
            OSError: as `dpbt.fit_chunks`.
        """
        if jax.process_count() > 1:
            raise ValueError(
                "several processes would each pay for the same fit; let the first one take() the "
                "recipe with the key, and call dpbt.fit_chunks in all"
            )
        if not self.has_paid_for(key):  # else the run goes on, or is refused in `paying`
            self.check(recipe)  # before a row is counted
        run = key, table, recipe, public_key
        model = chunked.learn(
            *run,
            memory=memory,
            checkpoint=checkpoint,
            progress=progress,
            threads=threads,
            ready=self.paying(recipe, key),
        )
        keys.warn_of_research(key)
        return model
