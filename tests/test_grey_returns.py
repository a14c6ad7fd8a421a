"""What learners return to a grey box: no false certificate, and no leak that is missed."""

import collections
import dataclasses
import functools
import io
import math
import threading
import time
import types
import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpbt import audit
from dpbt.__main__ import main
from dpbt.audit.contents import describe_uncompared_parts, places_of_differences, snapshot_contents

MANY, FEW = np.ones(5), np.ones(4)
NOWHERE = "nowhere"


def grey(learn, epsilon=1.0, runs=20):
    return audit.grey_box_lower_bound(learn, MANY, FEW, claim=(epsilon, 0.0), num_runs=runs)


def returning(make):
    """A private learner: what it returns is made of a noisy count alone."""
    return lambda rows, noise: make(float(noise.laplace(len(rows), 1.0, 1.0)))


class Slots:
    __slots__ = ("empty", "value")

    def __init__(self, value):
        self.value = value


class Holder:
    def __init__(self, value):
        self.value = value

    def __call__(self, rows):
        return self.value

    def predict(self, rows):
        return self.value


def tree(y):
    sklearn = pytest.importorskip("sklearn.tree")
    return sklearn.DecisionTreeRegressor(random_state=0).fit([[0.0], [1.0]], [y, 0.0])


def frame(y):
    pandas = pytest.importorskip("pandas")
    words = pandas.Categorical(["a", None])
    cells = {"word": ["x", np.nan], "y": [y, np.nan], "none": [None, pandas.NaT], "kind": words}
    return pandas.DataFrame(cells)


def polars_frame(y):
    return pytest.importorskip("polars").DataFrame({"word": ["x", None], "y": [y, math.nan]})


def local_class(y):
    class Local:
        names = ("a",)

        def __init__(self):
            self.value = y

        def predict(self):
            return super().__init__()

    return [Local, Local(), collections.namedtuple("Pair", "a b")(y, math.nan)]


def cyclic(y):
    found = Holder(y)
    found.itself = [found, {"again": found}]
    return found


COMPARED = {
    "a tree": tree,
    "a frame": frame,
    "a frame of polars": polars_frame,
    "objects": lambda y: np.array(["x", np.nan, None, y], object),
    "a random state": lambda y: [np.random.RandomState(3), np.random.default_rng(3), y],
    "slots": Slots,
    "a local class": local_class,
    "a cycle": cyclic,
    "fields with padding": lambda y: np.array([(1, y)], np.dtype([("a", "i1"), ("b", "f8")], True)),
    "long floats": lambda y: np.array([np.nan, y], np.longdouble),
    "masked": lambda y: np.ma.array([y, np.nan], mask=[False, True]),
    "sparse": lambda y: sparse.csr_array([[0.0, y], [np.nan, 0.0]]),
    "containers": lambda y: [{1, y}, collections.deque([y]), collections.Counter("ab"), {y: y}],
    "functions": lambda y: [lambda x: y, functools.partial(max, y), Holder(y).predict, Holder(y)],
    "an identity": lambda y: [object(), [y], bytearray(b"x"), types.SimpleNamespace(y=y)],
    "a noise": lambda y: np.float32(y),
}
"""What can be compared, by what it is."""

UNKNOWN = {
    "an iterator": lambda y: iter([y]),
    "a generator": lambda y: (each for each in [y]),
    "a lock": lambda y: {"y": y, "lock": threading.Lock()},
    "a lock in a set": lambda y: {threading.Lock()},
    "a random state of its own": lambda y: np.random.RandomState(),
    "numbers of its own": lambda y: np.random.RandomState().random(3),
    "an address": lambda y: id(Holder(y)) ^ hash(uuid.uuid4()),
    "the time": lambda y: {"y": y, "at": time.perf_counter_ns()},
    "a cache": lambda y: functools.lru_cache(lambda x: y),
    "an open file": lambda y: io.BytesIO(b"x"),
    "too much": lambda y: [Slots(y)] * 1000,
}
"""What says nothing."""


@pytest.mark.parametrize("make", COMPARED.values(), ids=COMPARED)
def test_a_private_learner_may_return_what_compares_by_identity(make):
    found = grey(returning(make))
    assert found.epsilon == pytest.approx(1.0, rel=1e-9)
    assert found.epsilon <= 1
    assert not found.uncompared


@pytest.mark.parametrize("make", UNKNOWN.values(), ids=UNKNOWN)
def test_values_that_cannot_be_compared_are_reported_and_give_no_certificate(make, monkeypatch):
    monkeypatch.setattr("dpbt.audit.contents.MAX_PARTS", 900)
    found = grey(returning(make), runs=8)
    assert found.epsilon <= 1
    assert not found.broken
    assert found.uncompared
    assert f"NOT COMPARED: {found.uncompared}." in found.words


_MAKERS = st.recursive(
    st.sampled_from([*list(COMPARED.values())[3:], *list(UNKNOWN.values())[:-1]]),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda makers: st.sampled_from(
            [
                lambda y: [make(y) for make in makers],
                lambda y: {k: make(y) for k, make in enumerate(makers)},
                lambda y: Holder(tuple(make(y) for make in makers)),
                lambda y: functools.partial(print, *(make(y) for make in makers)),
                lambda y: np.array([*(make(y) for make in makers), None], object),
            ]
        )
    ),
    max_leaves=4,
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None, derandomize=True)
@given(make=_MAKERS)
def test_no_private_learner_is_refuted_by_what_it_returns(make):
    found = grey(returning(make), runs=8)
    assert found.epsilon <= 1


def leaking(make):
    """A learner that adds the exact count to what it returns."""

    def learn(rows, noise):
        noise.laplace(len(rows), 1.0, 1.0)
        return make(len(rows))

    return learn


def _default(n):
    return lambda rows, n=n: n


def _closure(n):
    return lambda rows: n


def _inner_closure(n):
    def outer(rows):
        return lambda: n

    return outer


def _code(n):
    return eval(f"lambda rows: {n}")


def _global(n):
    global NOWHERE
    NOWHERE = n
    return lambda rows: NOWHERE


def _local_attribute(n):
    class Local:
        rows = n

    return Local


def _annotated(n):
    def predict(rows):
        return 0

    predict.rows = n
    return predict


LEAKS = {
    "a callable instance": Holder,
    "a partial": lambda n: functools.partial(max, n),
    "a partial by name": lambda n: functools.partial(max, default=n),
    "a default": _default,
    "a closure": _closure,
    "a closure of a function within": _inner_closure,
    "a constant of code": _code,
    "a global": _global,
    "a bound method": lambda n: Holder(n).predict,
    "a built-in method": lambda n: [n].index,
    "an attribute of a function": _annotated,
    "an attribute of a class": _local_attribute,
    "slots": Slots,
    "a set": lambda n: {n},
    "a key": lambda n: {n: 0},
    "objects": lambda n: np.array([None, n], object),
    "a mask": lambda n: np.ma.array([0, 1], mask=[n == 5, False]),
    "a sparse array": lambda n: sparse.csr_array([[n, 0]]),
    "a random state": np.random.RandomState,
    "bytes that change": lambda n: bytearray([n]),
    "a subclass of int": lambda n: type("Number", (int,), {})(n),
    "a deque": lambda n: collections.deque([n]),
    "beside a lock": lambda n: [threading.Lock(), n],
    "beside the time": lambda n: {"at": time.perf_counter_ns(), "n": n},
    "a wrapped function": lambda n: functools.lru_cache(lambda x: n),
    "a subclass of str": lambda n: type("Word", (str,), {})(n),
    "a tree": tree,
    "a frame": frame,
}


@pytest.mark.parametrize("make", LEAKS.values(), ids=LEAKS)
def test_an_exact_count_is_found_wherever_it_hides(make):
    found = grey(leaking(make), runs=8)
    assert found.epsilon == math.inf
    assert found.certain
    assert found.where.startswith("what is returned")


def test_a_leak_into_an_object_that_lives_on_is_found():
    state = {}

    def learn(rows, noise):
        noise.laplace(len(rows), 1.0, 1.0)
        state["rows"] = len(rows)
        return state

    assert grey(learn, runs=8).epsilon == math.inf


def test_the_order_of_keys_and_members_is_no_evidence_and_the_former_is_reported():
    ordered = [dict.fromkeys(names) for names in ("ab", "ba")]
    one, other = map(snapshot_contents, ordered)
    assert not places_of_differences(one, other)
    assert describe_uncompared_parts(one, other) == ["the order of keys"]
    one, other = snapshot_contents({"a", "b"}), snapshot_contents({"b", "a"})
    assert not places_of_differences(one, other)
    assert not describe_uncompared_parts(one, other)
    one, other = (snapshot_contents(collections.OrderedDict(each)) for each in ordered)
    assert places_of_differences(one, other)


# The draws.

EPSILONS = (1e-12, 1e-8, 1e-4, 0.5, 1.0, 16.0, 32.0, 34.0, 36.0, 37.0, 40.0, 100.0, 745.0, 800.0)

DRAWS = {
    "respond": lambda rows, noise, e: noise.respond(len(rows) > 4, e),
    "laplace": lambda rows, noise, e: noise.laplace(len(rows), 1.0, 1 / e),
    "far from 0": lambda rows, noise, e: noise.laplace(1e15 + len(rows), 1.0, 1 / e),
    "integers": lambda rows, noise, e: noise.integer_laplace(len(rows), 1.0, 1 / e),
    "choose": lambda rows, noise, e: noise.choose([0.0, float(len(rows) > 4)], 1.0, e),
    "choose far from 0": lambda rows, noise, e: noise.choose(
        [1e12, 1e12 + (len(rows) > 4), 1e12], 1.0, e
    ),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_bound_is_above_the_truth_by_rounding(name, epsilon):
    found = grey(lambda rows, noise: DRAWS[name](rows, noise, epsilon), epsilon, runs=8)
    assert found.epsilon <= epsilon
    if name == "respond":
        assert found.epsilon >= epsilon * (1 - 1e-9) - 1e-14


def test_the_mu_of_tiny_steps_is_not_rounded_up():
    def learn(rows, noise):
        return noise.gaussian(len(rows), 1.0, 1e9 / 0.6)

    found = audit.grey_box_lower_bound(
        learn, MANY, FEW, claim=(1.0, 1e-5), num_runs=8, nonadaptive=True
    )
    assert found.mu <= 0.6e-9
    assert found.mu == pytest.approx(0.6e-9, rel=1e-6)


def test_a_learner_that_does_not_repeat_itself_is_not_judged():
    def subsampled(rows, noise):
        kept = np.random.default_rng().random(len(rows)) < 0.5
        return noise.laplace(np.sum(kept), 1.0, 0.1)

    found = grey(subsampled)
    assert (found.epsilon, found.mu, found.certain) == (0, 0, False)
    assert "one table does not repeat" in found.uncompared

    def consuming(rows, noise):
        return noise.laplace(len(rows.pop()) if rows else 0.0, 1.0, 1.0)

    found = audit.grey_box_lower_bound(
        consuming, ["aaaaa"] * 30, ["a"] * 30, claim=(1.0, 0.0), num_runs=40
    )
    assert found.epsilon == 0
    assert "changes its table" in found.words


def test_exact_values_of_any_kind_are_compared_by_what_they_hold():
    for value in ("a word", np.array(["x", np.nan, None], object), {"a": math.nan}, Holder(1)):
        assert grey(lambda rows, noise, kept=value: noise.exactly(kept), runs=8).epsilon == 0
    assert grey(lambda rows, noise: noise.exactly(Holder(1)), runs=8).epsilon == 0
    assert grey(lambda rows, noise: noise.exactly(Holder(len(rows))), runs=8).epsilon == math.inf
    found = grey(lambda rows, noise: noise.exactly(threading.Lock()), runs=8)
    assert found.epsilon == 0
    assert "lock" in found.uncompared


def test_a_value_that_changes_after_it_was_put_out_is_compared_as_it_was():
    def learn(rows, noise):
        steps = Holder([0])
        noise.exactly(steps)
        steps.value.append(noise.laplace(len(rows), 1.0, 1.0))

    assert grey(learn).epsilon <= 1


def test_the_command_does_not_take_rounding_for_a_loss(tmp_path, capsys, monkeypatch):
    """A loss of float32 may be a few millionths above a tiny claim."""
    columns = '{"a": {"type": "numeric", "low": 0, "high": 1, "bins": 4}}'
    label = '{"column": "y", "positive": "1", "negative": "0"}'
    (tmp_path / "domain.json").write_text(f'{{"columns": {columns}, "label": {label}}}')
    result = audit.Audit(
        claimed_epsilon=1e-4,
        largest_loss=1.03e-4,
        loss_by_site={"sums": 1.03e-4},
        num_neighbours=1,
        num_transcripts=1,
        max_step_ratio_by_site={},
    )
    monkeypatch.setattr("dpbt.audit.audit_transcripts", lambda *arguments: result)
    command = ["audit", "--domain", str(tmp_path / "domain.json"), "--rows", "100"]
    assert main([*command, "--epsilon", "1e-4"]) == 0
    assert "ABOVE THE CLAIM" not in capsys.readouterr().out
    result = dataclasses.replace(result, largest_loss=3.1e-4)
    assert main([*command, "--epsilon", "1e-4"]) == 1
    assert "ABOVE THE CLAIM" in capsys.readouterr().out
