"""A chat server with files and batches; a batch is answered once `done` is set."""

from __future__ import annotations

import json
from typing import Any

from chat_server import ChatServer, _Handler


class BatchServer(ChatServer):
    """The server.

    Attributes:
        done: whether batches have ended.
        failed: whether they ended without results.
        lose: whether the answer to the next submission is lost on the way.
        failing: requests of a batch, by their number, that get an error.
        completion_tokens: tokens that each reply of a batch is counted with.
        files: contents by id.
        batches: batches by id, as they were submitted.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.done = self.failed = False
        self.lose = False
        self.failing: frozenset[str] = frozenset()
        self.completion_tokens = 100
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self._server.RequestHandlerClass = _BatchHandler

    def __enter__(self) -> BatchServer:
        super().__enter__()
        return self


class _BatchHandler(_Handler):
    def do_POST(self) -> None:  # noqa: N802 - named by http.server
        """Take a file or a batch; the rest is for the chat server."""
        server: Any = self.server.chat
        if self.path not in {"/v1/files", "/v1/batches"}:
            super().do_POST()
            return
        content = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/files":
            start = content.index(b'{"custom_id"')
            number = f"file-{len(server.files)}"
            server.files[number] = content[start : content.index(b"\n\r\n--", start)]
            self._send(200, json.dumps({"id": number, "object": "file", "purpose": "batch"}).encode())
            return
        number = f"batch-{len(server.batches)}"
        server.batches[number] = {"id": number, "object": "batch", **json.loads(content)}
        if server.lose:
            server.lose = False
            self._reset()
        else:
            self._send(200, json.dumps(self._batch(number)).encode())

    def do_GET(self) -> None:  # noqa: N802 - named by http.server
        """Show batches, and what came of them."""
        server: Any = self.server.chat
        path = self.path.partition("?")[0].removeprefix("/v1/").split("/")
        if path == ["batches"]:
            found = {"object": "list", "data": [self._batch(one) for one in server.batches], "has_more": False}
            self._send(200, json.dumps(found).encode())
        elif path[0] == "batches":
            self._send(200, json.dumps(self._batch(path[1])).encode())
        elif path[0] == "files":
            lines = server.files[server.batches[path[1].removeprefix("results-")]["input_file_id"]].splitlines()
            self._send(200, "\n".join(self._result(json.loads(line)) for line in reversed(lines)).encode())
        else:
            super().do_GET()

    def _batch(self, number: str) -> dict[str, Any]:
        server: Any = self.server.chat
        if server.failed:
            errors = {"object": "list", "data": [{"message": "the file is not to my liking"}]}
            return {**server.batches[number], "status": "failed", "errors": errors}
        state = {"status": "completed", "output_file_id": f"results-{number}"} if server.done else {}
        return {**server.batches[number], "status": "in_progress", **state}

    def _result(self, line: dict[str, Any]) -> str:
        server: Any = self.server.chat
        if line["custom_id"] in server.failing:
            response = {"status_code": 500, "body": {"error": {"message": "failed"}}}
        else:
            message = {"role": "assistant", "content": server.answer(line["body"])}
            body = {
                "model": line["body"]["model"],
                "choices": [{"message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1000, "completion_tokens": server.completion_tokens},
            }
            response = {"status_code": 200, "body": body}
        return json.dumps({"custom_id": line["custom_id"], "response": response, "error": None})
