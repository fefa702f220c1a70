"""Who connected before a service ends is served; who comes later is refused, and nobody is reset."""

import socket
import sys
import threading

import pytest

from turnwise.serve.server import turn_away


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is done")
def test_who_connects_late_is_refused_once_nobody_listens():
    opened = socket.create_server(("127.0.0.1", 0))
    address = opened.getsockname()
    with socket.create_connection(address) as early:
        turn_away(opened)
        refused = []

        def come_late():
            try:
                socket.create_connection(address, timeout=30).close()
            except ConnectionRefusedError as error:
                refused.append(error)

        late = threading.Thread(target=come_late)
        late.start()
        accepted, _ = opened.accept()
        late.join(0.2)
        opened.setblocking(False)
        with pytest.raises(BlockingIOError):
            opened.accept()
        opened.close()
        early.sendall(b"still here")
        with accepted:
            assert accepted.recv(32) == b"still here"
        late.join(30)
    assert len(refused) == 1
