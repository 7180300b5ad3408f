"""A stand-in for the Hub's API, as far as a client needs it to write and read the repository of a model."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Files = dict[str, bytes]


class Hub(ThreadingHTTPServer):
    """`repos` has the versions of each repository, the last one last; `asked` what came in."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repos: dict[str, list[Files]] = {}
        self.private: dict[str, bool] = {}
        self.asked: list[str] = []
        self.address = f"http://127.0.0.1:{self.server_port}"


@contextmanager
def hub():
    """Within the block it answers, until somebody posts to `/stop`."""
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_):
        pass

    def answer(self, content, status=200, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append(f"POST {self.path}")
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts == ["stop"]:
            self.answer({})
            self.server.shutdown()
            self.server.server_close()
        elif parts == ["api", "validate-yaml"]:
            self.answer({"errors": [], "warnings": []})
        elif self.headers.get("Authorization") != "Bearer mine":
            self.answer({"error": "Invalid username or password."}, 401)
        elif parts == ["api", "repos", "create"]:
            asked = json.loads(body)
            repo = f"{asked['organization']}/{asked['name']}"
            known = repo in self.server.repos
            self.server.repos.setdefault(repo, [{}])
            self.server.private.setdefault(repo, asked.get("private") or asked.get("visibility") == "private")
            self.answer({"url": f"{self.server.address}/{repo}"}, 409 if known else 200)
        elif parts[4] == "preupload":
            how = {"uploadMode": "regular", "shouldIgnore": False}
            files = [{"path": f["path"], **how} for f in json.loads(body)["files"]]
            self.answer({"files": files})
        else:
            versions = self.server.repos["/".join(parts[2:4])]
            files = dict(versions[-1])
            for line in body.splitlines():
                step = json.loads(line)
                if step["key"] == "file":
                    files[step["value"]["path"]] = base64.b64decode(step["value"]["content"])
                elif step["key"] == "deletedFile":
                    del files[step["value"]["path"]]
            versions.append(files)
            address = f"{self.server.address}/{'/'.join(parts[2:4])}/commit/{len(versions):040x}"
            self.answer({"commitOid": f"{len(versions):040x}", "commitUrl": address})

    def do_GET(self):
        self.server.asked.append(f"{self.command} {self.path}")
        parts = self.path.partition("?")[0].strip("/").split("/")
        api = parts[0] == "api"
        repo = "/".join(parts[2:4] if api else parts[:2])
        versions = self.server.repos.get(repo)
        if versions is None:
            self.answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
            return
        revision = (parts[5:] if api else parts[3:])[:1] or ["main"]
        number = len(versions) if revision == ["main"] else int(revision[0], 16)
        files, commit = versions[number - 1], f"{number:040x}"
        if api and parts[4:5] == ["tree"]:
            self.answer([{"type": "file", "path": n, "size": len(c), "oid": _oid(c)} for n, c in files.items()])
        elif api:
            self.answer({"id": repo, "sha": commit, "siblings": [{"rfilename": name} for name in files]})
        elif (name := "/".join(parts[4:])) in files:
            self.answer(files[name], ETag=f'"{_oid(files[name])}"', X_Repo_Commit=commit)
        else:
            self.answer({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)

    do_HEAD = do_GET


def _oid(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()
