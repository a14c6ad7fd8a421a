"""Downloads from a local server: whole, cut, wrong and refused ones, and their command."""

import dataclasses
import hashlib
import http.server
import threading
from pathlib import Path

import pytest

from experiments import __main__ as command_line
from experiments.common import data

TEXT = b"republican,y\ndemocrat,n\n" * 3


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; under /cut it promises more than it sends."""

    requested_paths: list[str]

    def do_GET(self):
        self.requested_paths.append(self.path)
        if self.path.startswith("/cut/"):
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(TEXT)
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Return a function that serves a folder, and returns the address and the requested paths.

    The folders in which data sets are looked for are empty.
    """
    monkeypatch.delenv("DPBT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    servers = []

    def start(folder: Path):
        requested_paths: list[str] = []
        handler = type("Served", (Handler,), {"requested_paths": requested_paths})
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), lambda *args: handler(*args, directory=str(folder))
        )
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", requested_paths

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def voting(monkeypatch):
    """The entry of a small file whose bytes are TEXT."""
    entry = data.ENTRIES["voting"]
    file = dataclasses.replace(entry.files[0], sha256=digest(TEXT))
    monkeypatch.setitem(data.ENTRIES, "voting", dataclasses.replace(entry, files=(file,)))
    return data.ENTRIES["voting"]


def write_file(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def relative_paths(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def command(*arguments) -> int:
    return command_line.main(["data", *map(str, arguments)])


def test_a_data_set_is_fetched_and_then_found_in_its_folder(tmp_path, serve, voting, capsys):
    name = voting.files[0].name
    write_file(tmp_path / "served" / "voting" / name, TEXT)
    address, requested_paths = serve(tmp_path / "served")
    for _ in range(2):
        options = ("--data", tmp_path / "mine", "--mirror", f"{address}/")
        assert command("fetch", "voting", *options) == 0
    assert requested_paths == [f"/voting/{name}"]
    assert relative_paths(tmp_path / "mine") == ["voting", f"voting/{name}"]
    assert (tmp_path / "mine" / "voting" / name).read_bytes() == TEXT
    output = capsys.readouterr().out.splitlines()
    assert output[0].startswith("voting: fetched ")
    assert output[1].startswith("voting: already there: ")

    write_file(tmp_path / "mine" / "voting" / name, b"spoilt")
    assert command("fetch", "voting", "--data", tmp_path / "mine", "--mirror", address) == 0
    assert (tmp_path / "mine" / "voting" / name).read_bytes() == TEXT


@pytest.mark.parametrize(
    ("path_prefix", "expected"),
    [
        ("/cut", f"the connection was cut after {len(TEXT)} of 5000 bytes"),
        ("/nowhere", "404 File not found"),
        ("/wrong", f"its sha256 is {digest(b'other')}, the registry has {digest(TEXT)}; nothing"),
    ],
    ids=["cut", "nowhere", "wrong"],
)
def test_a_failed_fetch_prints_one_line_and_leaves_no_file(
    tmp_path, serve, voting, capsys, path_prefix, expected
):
    write_file(tmp_path / "served" / "wrong" / "voting" / voting.files[0].name, b"other")
    address, _ = serve(tmp_path / "served")
    options = ("--data", tmp_path / "mine" / "deep", "--mirror", address + path_prefix)
    assert command("fetch", "voting", *options) == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert message.startswith(f"error: {address}{path_prefix}/voting/{voting.files[0].name}: ")
    assert expected in message
    assert not (tmp_path / "mine").exists()
