"""The second signal of `up`: its exit code, its last report, its limits, and how people are told of
it.  In this process, against a cluster that answers, fails or hangs; nothing is signalled."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from signal import SIGHUP, SIGINT, SIGTERM
from typing import cast

import msgspec
import pytest
from msgspec import Struct

from cluster_reconciler.actors import LeftLease
from cluster_reconciler.actors.cli import up_forcing
from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.driven_cluster import DrivenCluster
from cluster_reconciler.actors.cli.jobs import bounded
from cluster_reconciler.actors.cli.output import Output
from cluster_reconciler.actors.cli.reports import UpReport
from cluster_reconciler.actors.cli.up_screen import UpScreen
from cluster_reconciler.messages import LogicalNodeId, NodeAttemptId, ProviderKind

SECONDS_MAX = 20
QUICKER = 20
"""The limits are cut to a part of this size where everything hangs."""
LEASE = LeftLease(
    LogicalNodeId("w-0"),
    NodeAttemptId(1),
    ProviderKind("process"),
    "lease-1",
    "run 7, node w-0, attempt 1",
    True,
    "stage x",
)
AT_ONCE = "SIGINT after SIGTERM: ends at once, without waiting for the drain"
NOT_KNOWN = "; whether leases are left is not known: the next `up` of this run names them"


class Cluster:
    """What is left as it was told; with None nobody knows.  While it `hangs`, nothing returns."""

    def __init__(self, left: tuple[LeftLease, ...] | None) -> None:
        self._left = left
        self.flows = threading.Event()
        self.flows.set()
        self.closed: list[bool] = []

    def possibly_left(self) -> tuple[LeftLease, ...]:
        self.flows.wait(SECONDS_MAX)
        if self._left is None:
            raise RuntimeError("a bug")
        return self._left

    def close(self, drain: bool = True) -> None:
        self.closed.append(drain)
        self.flows.wait(SECONDS_MAX)


class Told(Output):
    """Keeps the data; prose goes nowhere."""

    def __init__(self, flows: threading.Event) -> None:
        super().__init__(colour=False)
        self._flows = flows
        self.documents: list[str] = []

    def data(self, text: str) -> None:
        self._flows.wait(SECONDS_MAX)
        self.documents.append(text)

    def say(self, text: str) -> None:
        pass


class End(Struct, frozen=True):
    """How the process ended."""

    codes: list[int]
    reports: list[UpReport]
    closed: list[bool]


@pytest.fixture(autouse=True)
def log_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the news would hold for the tests after this one."""
    monkeypatch.setattr(up_forcing, "end_news", lambda: None)


def forced(cluster: Cluster | None, first: signal.Signals, number: signal.Signals) -> End:
    flows = cluster.flows if cluster is not None else threading.Event()
    output = Told(flows)
    if cluster is None:
        flows.set()
    screen = UpScreen(make_parser().parse_args(["up", "shape.toml", "--json"], UpOptions()), output)
    codes: list[int] = []
    ended = threading.Event()

    def end_process(code: int) -> None:
        codes.append(code)
        ended.set()

    def force() -> None:
        driven = cast(DrivenCluster | None, cluster)
        up_forcing.force_end(number, first, driven, screen, UpReport("shape.toml"), end_process)

    thread = threading.Thread(target=force)
    thread.start()
    in_time = ended.wait(SECONDS_MAX / 4)
    reports = [msgspec.json.decode(text, type=UpReport) for text in output.documents]
    closed = list(cluster.closed) if cluster is not None else []
    flows.set()  # What still hangs ends now, and is no part of the result.
    thread.join(SECONDS_MAX)
    return End(codes if in_time else [], reports, closed)


class TestTheEnd:
    def test_with_nothing_left_the_code_and_the_report_name_the_first_signal(self) -> None:
        assert forced(Cluster(()), SIGTERM, SIGINT) == End(
            [143],
            [UpReport("shape.toml", exit_code=143, signal="SIGTERM", drained=True, error=AT_ONCE)],
            [False],
        )

    def test_with_a_lease_left_it_is_named_and_the_code_is_1(self) -> None:
        assert forced(Cluster((LEASE,)), SIGTERM, SIGINT) == End(
            [1],
            [UpReport("shape.toml", exit_code=1, signal="SIGTERM", left=(LEASE,), error=AT_ONCE)],
            [False],
        )

    @pytest.mark.parametrize(
        ("cluster", "closed"), [(Cluster(None), [False]), (None, [])], ids=["fails", "no cluster"]
    )
    def test_when_it_is_not_known_what_is_left_the_code_is_1(
        self, cluster: Cluster | None, closed: list[bool]
    ) -> None:
        error = AT_ONCE + NOT_KNOWN
        assert forced(cluster, SIGTERM, SIGINT) == End(
            [1], [UpReport("shape.toml", exit_code=1, signal="SIGTERM", error=error)], closed
        )

    def test_the_same_signal_is_told_as_such(self) -> None:
        error = "SIGHUP again: ends at once, without waiting for the drain"
        assert forced(Cluster(()), SIGHUP, SIGHUP) == End(
            [129],
            [UpReport("shape.toml", exit_code=129, signal="SIGHUP", drained=True, error=error)],
            [False],
        )


class TestTheLimits:
    def test_it_ends_within_two_seconds_though_cluster_and_reader_hang(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # given limits that are written down, and a cluster and a reader that do nothing more
        limits: list[float] = []

        def quicker(work: Callable[[], object], seconds: float, default: object) -> object:
            limits.append(seconds)
            return bounded(work, seconds / QUICKER, default)

        monkeypatch.setattr(up_forcing, "bounded", quicker)
        cluster = Cluster(())
        cluster.flows.clear()

        # when a second signal comes
        end = forced(cluster, SIGINT, SIGINT)

        # then it waits for each a short while, tells that nothing is known, and ends
        assert (end, len(limits), sum(limits) < 2) == (End([1], [], [False]), 3, True)


class TestHowToForce:
    @pytest.fixture(params=["in front", "behind", "no terminal"])
    def place(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[str]:
        """Where we stand to a terminal that is not there: /dev/null is opened in its place."""
        place = str(request.param)
        open_file = os.open

        def opened(path: str, flags: int, mode: int = 0o777) -> int:
            if path != "/dev/tty":
                return open_file(path, flags, mode)
            if place == "no terminal":
                raise OSError("no such device")
            return open_file(os.devnull, flags)

        group = os.getpgrp() + (place == "behind")
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", opened)
            patch.setattr(os, "tcgetpgrp", lambda _: group)
            yield place

    def test_ctrl_c_is_named_only_where_it_reaches_us(self, place: str) -> None:
        kill = f"`kill {os.getpid()}`"
        end = " ends it at once and may leave machines behind"
        has_keyboard = place == "in front"
        told = [up_forcing.how_to_force(first) for first in (SIGINT, SIGTERM, SIGHUP)]
        assert told == [
            f"Ctrl-C again, or {kill},{end}",
            f"Ctrl-C, or {kill} again,{end}" if has_keyboard else f"{kill} again{end}",
            f"{kill}{end}",  # The terminal has gone: no key comes from it.
        ]
