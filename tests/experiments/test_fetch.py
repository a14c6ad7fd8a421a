"""Downloads against a local server: whole, cut, wrong, refused; and the command that drives
them.
"""

import dataclasses
import hashlib
import http.server
import io
import json
import tarfile
import threading
from pathlib import Path

import pytest

from experiments import __main__ as command_line
from experiments.common import data
from experiments.common.data.entry import File
from experiments.common.data.fetch import fetch
from experiments.common.data.unpack import uncompress, untar

TEXT = b"republican,y\ndemocrat,n\n" * 3
ROWS = b"".join(party + b",y" * 16 + b"\n" for party in (b"republican", b"democrat"))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; under /cut and /chunks it promises more than it sends, under /hangup it says
    nothing.
    """

    asked: list[str]

    def do_GET(self):
        self.asked.append(self.path)
        if self.path.startswith("/cut/"):
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(TEXT)
        elif self.path.startswith("/hangup/"):
            self.close_connection = True
        elif self.path.startswith("/chunks/"):  # no length, and no last chunk
            self.protocol_version = "HTTP/1.1"
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s" % (2 * len(TEXT), TEXT))
            self.close_connection = True
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """serve(folder) starts a server and returns (address, requested paths); the places are empty
    folders.
    """
    monkeypatch.delenv("DPBT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    servers = []

    def start(folder: Path):
        asked: list[str] = []
        handler = type("Served", (Handler,), {"asked": asked})
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), lambda *args: handler(*args, directory=str(folder))
        )
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def voting(monkeypatch):
    """The entry of a small file whose bytes are TEXT."""
    found = data.ENTRIES["voting"]
    file = dataclasses.replace(found.files[0], sha256=digest(TEXT))
    monkeypatch.setitem(data.ENTRIES, "voting", dataclasses.replace(found, files=(file,)))
    return data.ENTRIES["voting"]


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def command(*arguments) -> int:
    return command_line.main(["data", *map(str, arguments)])


def test_fetch_and_fetch_again(tmp_path, serve, voting, capsys):
    name = voting.files[0].name
    put(tmp_path / "served" / "voting" / name, TEXT)
    address, asked = serve(tmp_path / "served")
    for _ in range(2):
        words = ("--data", tmp_path / "mine", "--mirror", f"{address}/")
        assert command("fetch", "voting", *words) == 0
    assert asked == [f"/voting/{name}"]
    assert files(tmp_path / "mine") == ["voting", f"voting/{name}"]
    assert (tmp_path / "mine" / "voting" / name).read_bytes() == TEXT
    output = capsys.readouterr().out.splitlines()
    assert output[0].startswith("voting: fetched ")
    assert output[1].startswith("voting: already there: ")

    put(tmp_path / "mine" / "voting" / name, b"spoilt")
    assert command("fetch", "voting", "--data", tmp_path / "mine", "--mirror", address) == 0
    assert (tmp_path / "mine" / "voting" / name).read_bytes() == TEXT


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("/cut", f"the connection was cut after {len(TEXT)} of 5000 bytes"),
        ("/chunks", "IncompleteRead"),
        ("/hangup", "Remote end closed connection"),
        ("/nowhere", "404 File not found"),
        ("/wrong", f"its sha256 is {digest(b'other')}, the registry has {digest(TEXT)}; nothing"),
    ],
)
def test_what_goes_wrong_is_one_line_and_leaves_nothing(
    tmp_path, serve, voting, capsys, where, words
):
    put(tmp_path / "served" / "wrong" / "voting" / voting.files[0].name, b"other")
    address, _ = serve(tmp_path / "served")
    given = ("--data", tmp_path / "mine" / "deep", "--mirror", address + where)
    assert command("fetch", "voting", *given) == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert message.startswith(f"error: {address}{where}/voting/{voting.files[0].name}: ")
    assert words in message
    assert not (tmp_path / "mine").exists()


def test_a_server_that_is_not_there(tmp_path, serve, voting, capsys):
    address, _ = serve(tmp_path)
    closed = address.rpartition(":")[0] + ":1"
    assert command("fetch", "voting", "--mirror", closed) == 2
    assert "Connection refused" in capsys.readouterr().err
    assert command("fetch", "voting", "--mirror", "nonsense") == 2
    assert "unknown url type" in capsys.readouterr().err
    assert not (tmp_path / "cache" / "dpbt" / "data").exists()


def compressed(content: bytes) -> bytes:
    """What `compress` could write: codes of nine bits, one for each byte."""
    assert len(content) < 255
    bits = "".join(f"{byte:09b}"[::-1] for byte in content)
    bits += "0" * (-len(bits) % 8)
    return b"\x1f\x9d\x90" + bytes(int(bits[k : k + 8][::-1], 2) for k in range(0, len(bits), 8))


def archived(content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("contest/rows.data")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


UNPACK = {
    "rows.data.Z": (compressed(TEXT), uncompress),
    "rows.tar.gz": (
        archived(TEXT),
        lambda download, file: untar(download, file, member="rows.data"),
    ),
}


@pytest.mark.parametrize("name", UNPACK)
def test_archives_are_unpacked(tmp_path, serve, voting, name):
    packed, unpacker = UNPACK[name]
    put(tmp_path / "served" / name, packed)
    address, asked = serve(tmp_path / "served")
    file = File("rows.data", digest(TEXT), f"{address}/{name}", True, unpacker, digest(packed))

    def entry(**changes):
        return dataclasses.replace(voting, files=(dataclasses.replace(file, **changes),))

    fetch(entry(), tmp_path / "mine")
    assert (tmp_path / "mine" / "voting" / "rows.data").read_bytes() == TEXT
    assert files(tmp_path / "mine") == ["voting", "voting/rows.data"]
    put(tmp_path / "byhand" / "voting" / name, packed)  # a download by hand spares the connection
    fetch(entry(), tmp_path / "byhand")
    assert asked == [f"/{name}"]

    third = tmp_path / "third"
    with pytest.raises(ValueError, match="its sha256 is"):
        fetch(entry(sha256=digest(b"other")), third)
    put(tmp_path / "served" / name, b"nonsense")
    with pytest.raises(ValueError, match=r"rows\..*its sha256 is"):
        fetch(entry(), third)
    with pytest.raises(ValueError, match=r"^rows\."):
        fetch(entry(download_sha256=""), third)
    assert not third.exists()


def test_another_copy_is_kept_if_it_can_be_read(tmp_path, serve, voting, capsys):
    """Where the registry's bytes may not be the source's; a mirror has to have our bytes."""
    put(tmp_path / "served" / "voting" / "rows", ROWS)
    put(tmp_path / "served" / "voting" / "rows.gz", b"packed")
    put(tmp_path / "served" / "voting" / "sorry", b"<html>this page has moved</html>")
    address, asked = serve(tmp_path / "served")
    file = File("rows", digest(b"our copy"), f"{address}/voting/rows", exact=False)

    def entry(**changes):
        return dataclasses.replace(voting, files=(dataclasses.replace(file, **changes),))

    with pytest.raises(ValueError, match="its sha256 is"):
        fetch(entry(), tmp_path / "mine", mirror=address)
    fetch(entry(), tmp_path / "mine")
    assert "it can be read, and was kept" in capsys.readouterr().err
    assert fetch(entry(), tmp_path / "mine") == [(tmp_path / "mine" / "voting" / "rows", False)]
    words = "sorry: rows, line 1: 1 cells, expected 17; nothing was kept"
    with pytest.raises(ValueError, match=words):
        fetch(entry(url=f"{address}/voting/sorry"), tmp_path / "third")
    assert not (tmp_path / "third").exists()

    packed = entry(name="absent", copies={"rows.gz": digest(b"packed")})
    [(path, _)] = fetch(packed, tmp_path / "fourth", mirror=address)
    assert path.name == "rows.gz"
    assert asked[-2:] == ["/voting/absent", "/voting/rows.gz"]


def test_fetch_all_goes_on_after_a_failure(tmp_path, serve, voting, capsys, monkeypatch):
    other = dataclasses.replace(voting, name="other", folder="other")
    for name in [name for name in data.ENTRIES if name not in ("voting", "covertype")]:
        monkeypatch.delitem(data.ENTRIES, name)
    monkeypatch.setitem(data.ENTRIES, "voting", other)
    last = dataclasses.replace(voting, name="last", folder="last")
    monkeypatch.setitem(data.ENTRIES, "last", last)
    put(tmp_path / "served" / "last" / voting.files[0].name, TEXT)
    address, _ = serve(tmp_path / "served")
    assert command("fetch", "all", "--data", tmp_path / "mine", "--mirror", address) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("last: fetched")
    assert captured.err.strip().endswith("2 of 3 data sets were not fetched: other, covertype")


def test_check_and_show(tmp_path, serve, voting, capsys):
    put(tmp_path / "mine" / "voting" / voting.files[0].name, TEXT)
    put(tmp_path / "mine" / "sonar" / "sonar.all-data", b"spoilt")
    put(tmp_path / "mine" / "page-blocks" / "page-blocks.data", b"not ours")
    assert command("check", "--data", tmp_path / "mine", "--json") == 0
    lines = {item["name"]: item for item in json.loads(capsys.readouterr().out)}
    assert set(lines) == set(data.ENTRIES)
    expected = {"voting": "ok", "sonar": "CHANGED", "page-blocks": "other copy", "adult": "absent"}
    assert {name: lines[name]["status"] for name in expected} == expected
    values = ["adult", 48842, 14, 156, "absent", "", "CC BY 4.0"]
    assert list(lines["adult"].values()) == values
    assert command("check", "--data", tmp_path / "mine") == 0
    assert "3 of 28 are there" in capsys.readouterr().out
    for name, found in data.ENTRIES.items():
        assert command("show", name) == 0
        text = capsys.readouterr().out
        assert found.rule in text
        assert found.page in text
    assert command("show", "iris") == 2
    assert command("fetch", "covertype") == 2
    assert "this sample of rows is not at the source" in capsys.readouterr().err
