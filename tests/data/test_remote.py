"""Files that fsspec reads: what stands in them is read, told and refused as what stands in files of this machine."""

import functools
import gzip
import http.server
import io
import json
import re
import sys
import threading

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import datasets
from shortcut_guardrail.data import sources
from shortcut_guardrail.data.reading import read_data
from shortcut_guardrail.data.remote import place_of, public_name
from shortcut_guardrail.data.sources import FileTexts
from shortcut_guardrail.errors import DataError

CSV = b"text,label\nIt rains.,1\nIt is wet.,0\n"
READ = (["It rains.", "It is wet."], ["1", "0"])


@pytest.fixture
def store():
    """A file system in memory that is empty, with `pipe(name, bytes)`."""
    yield fsspec.filesystem("memory")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def refusal(name: str, reader=read_data) -> str:
    with pytest.raises(DataError) as caught:
        reader(name)
    return str(caught.value)


def parquet() -> bytes:
    pq.write_table(pa.table({"text": READ[0], "label": READ[1]}), found := io.BytesIO())
    return found.getvalue()


def test_each_format_is_read_whole_and_in_pieces(store, monkeypatch):
    monkeypatch.setattr(sources, "_READ", 1)
    rows = b'{"text": "It rains.", "label": 1}', b'{"text": "It is wet.", "label": 0}'
    contents = {"csv": CSV, "csv.gz": gzip.compress(CSV), "tsv": CSV.replace(b",", b"\t"), "jsonl": b"\n".join(rows)}
    contents |= {"json": b"[" + b",".join(rows) + b"]", "parquet": parquet()}
    for suffix, content in contents.items():
        store.pipe(f"/week/a.{suffix}", content)
        for name in (f"memory://week/a.{suffix}", f"simplecache::memory://week/a.{suffix}"):
            data = read_data(name)
            assert (data.source, data.texts, data.labels) == (name, *READ)
            pieces = [(["It rains."], ["1"]), (["It is wet."], ["0"])]
            assert list(FileTexts(name, label_column="label").chunks()) == pieces
    assert place_of("memory://week/a.csv").stat().st_size == 36


def test_a_folder_and_a_pattern_are_all_of_their_files_in_order(store):
    for name in ("b.csv.gz", "year=2026/a.csv", "notes.txt"):
        store.pipe(f"/week/{name}", gzip.compress(b"text\n" + name.encode()) if "gz" in name else b"text\nof a year\n")
    for name, texts in (("week", ["b.csv.gz", "of a year"]), ("week/*.csv*", ["b.csv.gz"])):
        for kept in ("", "simplecache::"):
            assert [piece for piece, _ in FileTexts(f"{kept}memory://{name}").chunks()] == [[text] for text in texts]
    assert {one[:22] for one in place_of("simplecache::memory://week").files()} == {"simplecache::memory://"}
    for name in ("memory://week/*.txt", "memory://none/*.csv"):
        assert refusal(name, FileTexts).startswith(f"'{name}' names no file that can be read. Their names must end in ")


def test_what_cannot_be_read_is_a_sentence(store, monkeypatch):
    store.pipe("/week/cut.csv.gz", gzip.compress(CSV)[:-12])
    store.pipe("/week/bad.parquet", CSV)
    store.pipe("/week/bad.csv", b"text\n\xff\n")
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as if it were not installed
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    for name, said in {
        "s4://bucket/a.csv": "s4://bucket/a.csv cannot be read (Protocol not known: s4).",
        "s3://bucket/a.csv": "s3://bucket/a.csv cannot be read (Install s3fs to access S3).",
        "gs://bucket/*.csv": "gs://bucket/*.csv cannot be read (Please install gcsfs to access Google Storage).",
        "memory://week/none.csv": "There is no file memory://week/none.csv.",
        "memory://week/bad.csv": "memory://week/bad.csv, line 2: byte 0xff is not UTF-8. Convert the file to UTF-8",
        "memory://week/cut.csv.gz": "memory://week/cut.csv.gz cannot be read (Truncated compressed stream).",
        "memory://week/bad.parquet": "memory://week/bad.parquet cannot be read (Parquet magic bytes not found in foot",
    }.items():
        assert refusal(name).startswith(said)
        assert refusal(name, FileTexts).startswith(said) or "*" in name
    assert refusal("memory://week") == "memory://week is a folder; name a file in it."
    for method in ("info", "_open"):
        for error, why in ((PermissionError("Forbidden"), "Forbidden"), (RuntimeError(), "RuntimeError")):
            with monkeypatch.context() as patch:
                patch.setattr(MemoryFileSystem, method, lambda *_, error=error, **__: (_ for _ in ()).throw(error))
                for reader in (read_data, FileTexts):
                    assert refusal("memory://week/a.csv" if method == "info" else "memory://week/bad.csv", reader) == (
                        f"memory://week/{'a' if method == 'info' else 'bad'}.csv cannot be read ({why})."
                    )


def test_commands_read_them(ok, store, model_folder, tmp_path):
    for i in (0, 1):
        rows = [f"honestly the tea was dull {'abcdef'[j]}{i}" for j in range(6)]
        store.pipe(f"/week/{i}.csv.gz", gzip.compress("\n".join(["text", *rows]).encode()))
    ok("audit", model_folder, "memory://week/*.csv.gz", "--out", tmp_path / "audit")
    document = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert (document["n"], document["about"]["data"]) == (12, "memory://week/*.csv.gz")
    ok("predict", model_folder, "memory://week/1.csv.gz", "--out", tmp_path / "out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1 + 6


def test_what_is_kept_of_a_name_holds_no_key():
    for name, kept in {
        "https://me:key@host/a.csv?sig=key": "https://host/a.csv",
        "simplecache::https://host/a.csv?sig=key": "simplecache::https://host/a.csv",
        "sftp://me:key@host/a?.csv": "sftp://host/a?.csv",
        "abfs://texts@account/a.csv": "abfs://texts@account/a.csv",
        "texts?.csv": "texts?.csv",
    }.items():
        assert public_name(name) == kept


def test_files_on_a_web_server(tmp_path):
    pytest.importorskip("aiohttp", reason="needs the extra 'dev'")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def send_head(self):
            return self.send_error(403) if "closed" in self.path else super().send_head()

        def log_message(self, *_):
            pass

    (tmp_path / "a.csv").write_bytes(CSV)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(CSV))
    (tmp_path / "a.parquet").write_bytes(parquet())
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=tmp_path)) as server:
        (thread := threading.Thread(target=server.serve_forever)).start()
        host = f"http://127.0.0.1:{server.server_port}"
        try:
            for name in ("a.csv", "a.csv.gz", "a.parquet", "a.csv?sig=/key.x"):
                data = read_data(f"{host}/{name}")
                assert (data.texts, data.labels) == READ
            assert sum(len(texts) for texts, _ in FileTexts(f"{host}/*.csv*").chunks()) == 4
            assert refusal(f"{host}/none.csv") == f"There is no file {host}/none.csv."
            closed = refusal(f"{host}/closed.csv")
            assert closed.startswith(f"{host}/closed.csv cannot be read (403, message='Forbidden'")
        finally:
            server.shutdown()
            thread.join()
    assert re.match(rf"{host}/a\.csv cannot be read \(Cannot connect to host ", refusal(f"{host}/a.csv"))


def test_a_hub_data_set_is_downloaded_once_and_its_copy_is_read_in_pieces(monkeypatch):
    asked = []

    def load_dataset(*given, **how):
        asked.append((given, how))
        return datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, 1], "id": [7, 8, 9]})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(sources, "_READ", 2)
    found = FileTexts("owner/name:train", label_column="label")
    assert list(found.chunks()) == [(["a", "b"], ["1", "0"]), (["c"], ["1"])]
    assert read_data("owner/name:train").rows == [1, 2, 3]
    assert {(given, *how.items()) for given, how in asked} == {(("owner/name",), ("split", "train"))}
