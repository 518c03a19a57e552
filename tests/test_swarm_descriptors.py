"""A listener whose process has run out of descriptors: it neither spins nor shuts nodes out."""

import json
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

from cluster_reconciler.actors.swarm_frames import Hello, encode

PATIENCE_S = 20.0

LISTENER = """
import json, resource, sys, time
from datetime import timedelta
from cluster_reconciler.actors.swarm import SwarmListener
from cluster_reconciler.messages import AttemptIdentity

listener = SwarmListener(hello_timeout=timedelta(hours=1))
listener.start(lambda *joined: None, lambda *lost: None)
ticket = listener.ticket(AttemptIdentity(7, "worker-0", 1))
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, most))
print(json.dumps([ticket.address, ticket.token]), flush=True)
for line in sys.stdin:
    print(time.process_time(), flush=True)
listener.close(timedelta(seconds=5))
"""


def test_a_crowd_that_takes_every_descriptor_keeps_no_node_out_and_costs_no_time() -> None:
    # Given a listener that may hold 40 descriptors, and 80 silent connections to it
    crowd = 80
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 2 * crowd
    with ExitStack() as ends:
        child = ends.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", LISTENER],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
        )  # fmt: skip
        ends.callback(child.kill)
        assert child.stdin is not None
        assert child.stdout is not None
        stdin, stdout = child.stdin, child.stdout
        address, token = json.loads(stdout.readline())
        host, _, port = address.rpartition(":")

        def connect() -> socket.socket:
            connected = socket.create_connection((host, int(port)), PATIENCE_S)
            return ends.enter_context(connected)

        def processor_s() -> float:
            stdin.write("\n")
            stdin.flush()
            return float(stdout.readline())

        for _ in range(crowd):
            connect()

        # When a node comes behind them
        before, began = processor_s(), time.monotonic()
        node = connect()
        node.sendall(encode(Hello(1, 7, "worker-0", 1, 5, "me", token)))
        welcome = node.recv(1000)
        spent, took = processor_s() - before, time.monotonic() - began

        # Then it is let in, and the listener slept most of that time
        assert b'"type":"welcome"' in welcome
        assert spent < 0.1 + took / 2
        stdin.close()
        assert child.wait(PATIENCE_S) == 0
