"""The secret is drawn once, whole, for its owner alone; fingerprints tell content apart."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dpbt.sweeps import fingerprints


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A file that $DPBT_SECRET names and that is not there yet."""
    monkeypatch.setenv("DPBT_SECRET", str(tmp_path / "state" / "key"))
    return tmp_path / "state" / "key"


def test_the_secret_is_drawn_once_and_is_its_owners(path, tmp_path):
    secret = fingerprints.local_secret(tmp_path / "results")
    assert len(secret) == 32
    assert path.read_bytes() == secret == fingerprints.local_secret(tmp_path / "results")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [found.name for found in path.parent.iterdir()] == ["key"]
    path.unlink()
    assert fingerprints.local_secret(tmp_path / "results") != secret  # false alarm: 2**-256


def test_those_who_start_at_one_time_agree(path, tmp_path):
    for _ in range(20):
        path.unlink(missing_ok=True)
        with ThreadPoolExecutor(8) as pool:
            found = set(pool.map(fingerprints.local_secret, [tmp_path / "results"] * 8))
        assert found == {path.read_bytes()}


def test_the_file_is_in_the_users_state_unless_named(monkeypatch, tmp_path):
    monkeypatch.delenv("DPBT_SECRET", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert fingerprints.secret_path() == tmp_path / "dpbt" / "fingerprint.key"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert fingerprints.secret_path() == Path.home() / ".local/state/dpbt/fingerprint.key"
    monkeypatch.setenv("DPBT_SECRET", str(tmp_path / "key"))
    assert fingerprints.secret_path() == tmp_path / "key"


def test_bad_secrets_are_refused(path, tmp_path):
    secret = fingerprints.local_secret(tmp_path / "results")
    link = tmp_path / "link"
    link.symlink_to(path.parent)
    for folder in (tmp_path, path.parent, tmp_path / "results" / ".." / "state", link):
        with pytest.raises(ValueError, match="lies in the results folder"):
            fingerprints.local_secret(folder)
    for mode in (0o640, 0o604):
        os.chmod(path, mode)
        with pytest.raises(ValueError, match="others may read the secret"):
            fingerprints.local_secret(tmp_path / "results")
    os.chmod(path, 0o600)
    for content in (b"", secret[:31], secret + b"x"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="does not hold 32 bytes") as refused:
            fingerprints.local_secret(tmp_path / "results")
        assert secret[:31].hex() not in str(refused.value)


def test_fingerprints_tell_words_arrays_types_shapes_and_secrets_apart():
    bits = np.zeros((4, 2), bool)
    flipped = bits.copy()
    flipped[3, 1] = True
    cases = [
        (b"k" * 32, "a", [bits]),
        (b"l" * 32, "a", [bits]),
        (b"k" * 32, "b", [bits]),
        (b"k" * 32, "a", [flipped]),
        (b"k" * 32, "a", [bits.astype(np.int8)]),
        (b"k" * 32, "a", [bits.T]),
        (b"k" * 32, "a", [bits[:2], bits[2:]]),
        (b"k" * 32, "a", [bits, bits]),
        (b"k" * 32, "a", []),
    ]
    found = [fingerprints.fingerprint(*case) for case in cases]
    assert len(set(found)) == len(cases)
    assert all(len(mark) == 64 for mark in found)
    assert found[0] == fingerprints.fingerprint(b"k" * 32, "a", [bits.copy(order="F")])
