"""What docs/guard.md shows works."""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from urllib.request import Request, urlopen

import pytest

from turnwise import Conversation, GuardrailPipeline

PAGE = (Path(__file__).parents[2] / "docs/guard.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_examples_in_python_run():
    names = {"call_model": lambda messages: "Thank you."}
    for block in blocks("python"):
        exec(compile(block, "docs/guard.md", "exec"), names)
    assert names["result"].pipeline_type == "output"


REPLY = [
    "We wrote to jane@exam",
    "ple.com about card 4111 1111 ",
    "1111 1111, as you",
    " asked. ",
    "Anything else? " * 30,
]


class Model(BaseHTTPRequestHandler):
    """Streams a reply as server-sent events, in the shape of OpenAI's chat completions."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta in [{"role": "assistant"}, *({"content": piece} for piece in REPLY), {}]:
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


@pytest.fixture
def model():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


class PlainClient:
    """A client in the shape of OpenAI's that reads server-sent events by itself."""

    def __init__(self, url):
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))
        self.url = url

    def create(self, **body):
        request = Request(f"{self.url}/chat/completions", json.dumps(body).encode(), method="POST")
        with urlopen(request, timeout=30) as events:
            for line in events:
                data = line.decode().strip().removeprefix("data: ")
                if data and data != "[DONE]":
                    choice = json.loads(data)["choices"][0]
                    delta = SimpleNamespace(content=choice["delta"].get("content"))
                    yield SimpleNamespace(choices=[SimpleNamespace(delta=delta)])


@pytest.mark.parametrize("kind", ["plain", "openai"])
def test_the_streaming_client_shows_nothing_that_is_replaced(kind, model):
    if kind == "openai":
        openai = pytest.importorskip("openai")
        client = openai.OpenAI(base_url=model, api_key="none", max_retries=0)
    else:
        client = PlainClient(model)
    (block,) = (block for block in blocks("python") if "stream_output" in block)
    names = {"pipeline": GuardrailPipeline({"guardrails": [{"pii": {"action": "redact"}}]})}
    exec(compile(block, "docs/guard.md", "exec"), names)
    chat, shown = Conversation.human_ai("user_123", "gpt-4"), []
    names["pipeline"].check_input("Did you write to her?", chat)
    result = names["show_reply"](client, chat, shown.append)
    told = "We wrote to [EMAIL] about card [CARD], as you asked. " + "Anything else? " * 30
    assert "".join(shown) == told == result.text == chat.turn(1).response
    assert len(shown) > 1


@pytest.mark.parametrize("block", blocks("yaml"))
def test_the_examples_in_yaml_are_configurations(block, tmp_path):
    if "guardrails:" not in block:
        listed = block.lstrip().startswith("- ")
        block = f"guardrails:\n{block}" if listed else f"{block}\nguardrails: [drift]"
    (tmp_path / "guard.yaml").write_text(block, encoding="utf-8")
    assert GuardrailPipeline(tmp_path / "guard.yaml").steps
