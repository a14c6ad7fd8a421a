"""How a private program asks for its random draws, and the keys that they have."""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpbt.base import Array, Program, View
from dpbt.privacy.mechanism import Mechanism, Numbers, Sensitivity, Value
from dpbt.public import without_values


class Total(NamedTuple):
    """A statistic that is a sum over rows, and then a public map of the sum.

    Attributes:
        parts: i32[...], or a pytree of such arrays: the sum over the rows of a table.
        after: (sum over all rows, *told) -> the value that is drawn. In memory the sum is i32. Of a
            table in parts, noise is added to what `after` makes of int64 of NumPy, and a selection
            is of what it makes of float64 within `variates.double_precision`. It is one function,
            and not a new one in each call, as programs are compiled for it.
        told: arrays that `after` reads, or None; public, as they follow from earlier releases.
    """

    parts: Any
    after: Callable[..., Any] = lambda total: total
    told: tuple[Any, ...] = ()

    __repr__ = without_values

    @property
    def value(self) -> Value:
        """The value that is drawn, of the rows that were summed."""
        return self.after(self.parts, *self.told)


def value_of(value: Value | Total) -> Value:
    """The private value of a draw, of the rows of this table."""
    return value.value if isinstance(value, Total) else value


def _site_word(site: str) -> int:
    return zlib.crc32(site.encode()) & 0x7FFFFFFF


def site_key(key: Array, site: str) -> Array:
    """The key of the draw called `site`: it depends on the round's key and on the name alone."""
    return jax.random.fold_in(key, _site_word(site))


def check_draw(site: str, mechanism: Mechanism, known: Collection[str]) -> None:
    """Refuse a second draw of one name or one key, and noise from the public key.

    Raises:
        ValueError: naming the sites.
    """
    if mechanism.public and mechanism.price.reads_rows:
        raise ValueError(
            f"the draw {site!r} reads rows, but {mechanism.name} draws with the public key, so "
            "everyone could subtract its noise"
        )
    if site in known:
        raise ValueError(f"two draws are called {site!r}")
    twins = [earlier for earlier in known if _site_word(earlier) == _site_word(site)]
    if twins:
        raise ValueError(
            f"the draws {site!r} and {twins[0]!r} would have one key; rename one of them"
        )


def no_public_key(site: str) -> ValueError:
    """The refusal of a public draw without a public key."""
    return ValueError(
        f"the draw {site!r} is public randomness: give public_key, a key that is "
        "independent of the noise's key, such as another dpbt.fresh_key()"
    )


def zeros_of(mechanism: Mechanism, value: Value | Total) -> Array:
    """An output of zeros, of the shape and the type that a draw from a value has."""
    output = shape_of(mechanism, value, np.float32(1))
    return jnp.zeros(output.shape, output.dtype)


def shape_of(mechanism: Mechanism, value: Value | Total, scale: Numbers) -> jax.ShapeDtypeStruct:
    """The shape and the type of what a draw from a value gives."""
    key = jax.eval_shape(functools.partial(jax.random.key, impl="threefry2x32"), 0)
    return jax.eval_shape(mechanism.sample, key, value_of(value), scale)


class Request(NamedTuple):
    """What a program asks `draw` for.

    Attributes:
        site, mechanism, value, theorem, releases, unit: as `Draw` has them.
        pays: `count`, how often a round pays for it.
        scale: the scale that the mechanism is given.
        sensitivity: in the norm of the mechanism.
        at_most: the largest sensitivity; public, and no release moves it.
        moves: how many outputs a row moves; None for a draw that never reads the rows.
        own_scale: whether it has a scale of its own, and the budget has no multiplier for it.
    """

    site: str
    mechanism: Mechanism
    value: Value | Total
    scale: Numbers
    sensitivity: Numbers
    at_most: Numbers
    moves: int | None
    theorem: str
    pays: int
    releases: str
    unit: str
    own_scale: bool

    __repr__ = without_values


def group_of(site: str, noise: Mapping[str, Any]) -> str:
    """The entry of a budget's noise that a site has: its own, or that of "leaf" for "leaf_3".

    Raises:
        ValueError: if there is none.
    """
    common, _, number = site.rpartition("_")
    for name in (site, common if number.isdecimal() else site):
        if name in noise:
            return name
    raise ValueError(
        f"the draw {site!r} has no fraction of the budget; there are fractions for {sorted(noise)}"
    )


@dataclasses.dataclass
class Draw:
    """How a program asks for its outputs. A draw is declared here, and nowhere else.

    Attributes:
        answer: from a request to the output.
        noise: site -> multiplier, the noise of the budget.
        known: the sites of the draws so far.
    """

    answer: Callable[[Request], Any]
    noise: Mapping[str, Numbers]
    known: list[str] = dataclasses.field(default_factory=list)

    def __call__(
        self,
        site: str,
        mechanism: Mechanism,
        value: Value | Total,
        *,
        theorem: str,
        sensitivity: Numbers | Sensitivity = 0.0,
        moves: int | None = None,
        at_most: Numbers | None = None,
        scale: Numbers | None = None,
        count: int = 1,
        releases: str = "",
        unit: str = "",
    ) -> Array:
        """The output of a mechanism on a private value.

        Its scale is the sensitivity times the multiplier that the budget holds for the site
        (`group_of`), so the ledger prices the multiplier that runs.

        Args:
            site: the name of the draw, unique in its program.
            mechanism: the mechanism that makes the output of the value.
            value: the private statistic, an array or `mechanisms.Scores`; it leaves through the
                mechanism alone. A `Total` says that it is a sum over rows.
            theorem: where the sensitivity is proved.
            sensitivity: how far one row moves the value, in the norm of `mechanism.price`: L1, L2,
                or for selections the range of the change of scores. A `Sensitivity` states both
                norms. It may follow from what was released, if `at_most` does not.
            moves: how many independent outputs one row moves, whatever `count` is; None for draws
                that never read the rows.
            at_most: public, the largest sensitivity, where that follows from what was released.
                The ledger shows it.
            scale: public, the scale in place of a multiplier, for draws that never read the rows
                and for noise that is stated as a number.
            count: how often a round pays for it.
            releases: what it publishes, in words.
            unit: the unit of the sensitivity, in words.

        Raises:
            ValueError: as `check_draw` and `group_of`.
        """
        check_draw(site, mechanism, self.known)
        self.known.append(site)
        if isinstance(sensitivity, Sensitivity):
            sensitivity = mechanism.bound(sensitivity)
        own_scale = scale is not None
        if scale is None:
            multiplier = self.noise[group_of(site, self.noise)]
            scale = jnp.asarray(sensitivity, jnp.float32) * jnp.asarray(multiplier, jnp.float32)
        most = sensitivity if at_most is None else at_most
        priced = scale, sensitivity, most, moves
        words = theorem, count, releases or site, unit
        return self.answer(Request(site, mechanism, value, *priced, *words, own_scale))


def run(program: Program, answer: Callable[[Request], Any], view: View) -> None:
    """Run a program on a view, and answer each of its requests.

    Raises:
        ValueError: as `Draw`.
    """
    program(Draw(answer, view.params.noise), *view)
