"""How a private program asks for its random draws, and the keys that they have."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from dpbt.base import Array, Program, View
from dpbt.privacy.mechanism import Mechanism, Numbers, Value
from dpbt.public import without_values


class Draw(Protocol):
    """How a program asks for its outputs."""

    def __call__(
        self,
        site: str,
        mechanism: Mechanism,
        value: "Value | Total",
        scale: Numbers,
        scale_unit: Numbers = 1.0,
    ) -> Array:
        """The output of a mechanism on a private value.

        Args:
            site: the name of the draw, unique in its program.
            mechanism: the mechanism that makes the output of the value.
            value: the private statistic, an array or `mechanisms.Scores`; it leaves through the
                mechanism alone. A `Total` says that it is a sum over rows.
            scale: public, the mechanism's noise.
            scale_unit: public, the unit in which the ledger measures the scale. It is for a scale
                that follows what has been released, in proportion to a public number such as a
                sensitivity.
        """
        ...


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


def check_draw(site: str, mechanism: Mechanism, known: Mapping[str, object]) -> None:
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
    read, one = value_of(value), jnp.float32(1)
    output = jax.eval_shape(mechanism.sample, jax.random.key(0), read, one)
    return jnp.zeros(output.shape, output.dtype)


class Request(NamedTuple):
    """What a program asks `draw` for; its fields are the arguments of `Draw`."""

    site: str
    mechanism: Mechanism
    value: Value | Total
    scale: Numbers
    scale_unit: Numbers

    __repr__ = without_values


def run(program: Program, answer: Callable[[Request], Any], view: View) -> None:
    """Run a program on a view, and answer each of its requests.

    Raises:
        ValueError: as `check_draw`.
    """
    known: dict[str, None] = {}

    def draw(
        site: str,
        mechanism: Mechanism,
        value: Value | Total,
        scale: Numbers,
        scale_unit: Numbers = 1.0,
    ) -> Any:
        check_draw(site, mechanism, known)
        known[site] = None
        return answer(Request(site, mechanism, value, scale, scale_unit))

    program(draw, *view)
