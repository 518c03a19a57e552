"""A node's life through the provider's own API, on real processes, in both containments."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_reconciler.executors.provider import LeaseState, ProviderError, Stream
from cluster_reconciler.executors.providers.process import Containment
from cluster_reconciler.executors.providers.process.processes import identify
from cluster_reconciler.messages import (
    BootSpec,
    BootstrapSessionId,
    EndpointLookup,
    LeaseAbsent,
    LeaseFacts,
    LocalEndpoint,
    RunId,
    SwactorId,
)
from tests.containments import CONTAINMENTS
from tests.process_kit import KIND, STUBBORN, Ground, is_living, wait_until


@pytest.fixture(params=CONTAINMENTS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    containment: Containment = request.param
    ground = Ground(tmp_path / "a state", containment)
    yield ground
    ground.close()


def test_a_whole_life(ground: Ground) -> None:
    # Given a lease
    node = ground.create(ground.node())
    assert ground.provider.find_bootstrap(node.identity) is None
    assert ground.create(node).directory == node.directory

    # When it is bootstrapped
    command = STUBBORN + "echo one; echo two >&2; echo three; exec sleep 1000"
    boot = BootSpec(verify_commands=("test -w .", "true"), start_swactor_command=command)
    ground.bootstrap(node, boot)

    # Then it passes its stages in order, speaks, and joins
    node.wait_joined()
    node.wait_said("three")
    node.wait_said("stubborn")
    wait_until(lambda: len(node.stages) == 3, "the last stage")
    assert node.stages == ["boot_checking", "swactor_starting", "waiting_for_swactor_join"]
    numbers = [number for stream, number, _ in node.lines if stream is Stream.STDOUT]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [line for line in node.lines if line[0] is Stream.STDERR] == [(Stream.STDERR, 1, "two")]
    assert ground.provider.find_bootstrap(node.identity) == node.session_id
    assert all(is_living(pid) for pid in node.pids().values())
    assert sorted(node.pids()) == ["agent", "command", "shim"]

    # And it lives on after the hand-over, until it is cancelled
    ground.provider.accept_convergence(node.identity, node.session_id, SwactorId("n-0/1"))
    assert len(node.processes()) >= 4
    ground.provider.cancel_bootstrap(node.identity, node.session_id)
    assert node.processes() == []
    ground.provider.cancel_bootstrap(node.identity, node.session_id)

    # And destroyed, twice; nobody calls that a loss
    assert ground.destroy(node)
    assert ground.destroy(node)
    assert not node.directory.exists()
    assert (node.losses, node.failures) == ([], [])
    [kept] = ground.provider.ended_dir.iterdir()
    assert (kept / "stderr.log").read_text(encoding="utf-8") == "two\n"
    assert "one\n" in (kept / "stdout.log").read_text(encoding="utf-8")


def test_a_destroy_without_a_cancel_ends_everything(ground: Ground) -> None:
    node = ground.start(STUBBORN + "trap '' TERM; while :; do sleep 1; done")
    node.wait_said("stubborn")
    node.wait_joined()

    assert ground.destroy(node)

    assert node.processes() == []
    assert not node.directory.exists()
    assert node.losses == []


def test_a_command_that_heeds_term_is_given_the_time_to(ground: Ground) -> None:
    node = ground.start("trap 'echo farewell; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    node.wait_said("up")

    assert ground.destroy(node)

    node.wait_said("farewell")
    assert node.losses == []


def test_a_node_without_a_command_is_its_agent_alone(ground: Ground) -> None:
    node = ground.start("", args=("not", "a", "command"))

    node.wait_joined()

    assert sorted(node.pids()) == ["agent", "shim"]
    assert ground.destroy(node)


def test_arguments_environment_and_directory_reach_the_command(ground: Ground) -> None:
    node = ground.create(ground.node())
    boot = BootSpec(
        start_swactor_command='sh -c \'printf "%s\\n" "$PWD" "$GREETING" "$@"; sleep 1000\' sh',
        args=("a b", "$HOME", "it's"),
    )

    ground.bootstrap(node, boot, env={"GREETING": "hello  you"})

    node.wait_said("it's")
    assert node.said == [str(node.directory / "work"), "hello  you", "a b", "$HOME", "it's"]


def test_a_command_finds_who_it_is_in_its_environment(ground: Ground) -> None:
    own = "$CLUSTER_RECONCILER_RUN $CLUSTER_RECONCILER_NODE $CLUSTER_RECONCILER_ATTEMPT"
    node = ground.start(f"echo {own} $CLUSTER_RECONCILER_LEASE; exec sleep 1000", attempt=3)

    node.wait_said(f"7 n-0 3 {node.directory}")


def test_a_provider_says_where_to_look_for_a_node(ground: Ground) -> None:
    node = ground.start()
    node.wait_joined()

    described = ground.provider.describe_node(node.identity)

    assert set(described) == {"directory", "logs_when_ended", "shim", "agent", "command"}
    assert described["directory"] == str(node.directory)
    assert described["logs_when_ended"] == str(ground.provider.ended_dir)
    living = identify(node.pids()["command"])
    assert living is not None
    assert described["command"] == (
        f"boot {living.boot_id}, pid {living.pid}, started {living.started}"
    )


def test_reads_tell_what_is_there(ground: Ground) -> None:
    facts = LeaseFacts(KIND, node_id := ground.create(ground.node("other")).lease_id)
    node = ground.node()
    assert ground.provider.find_lease(node.identity) is None
    assert ground.provider.lookup_endpoint(node.identity, facts) == LeaseAbsent()
    assert [lease.lease.lease_id for lease in ground.provider.list_leases(RunId(7))] == [node_id]

    ground.create(node)

    found = ground.provider.find_lease(node.identity)
    assert found is not None
    assert found.lease == node.lease
    assert ground.provider.lookup_endpoint(node.identity, found.lease) == EndpointLookup(
        LocalEndpoint(str(node.directory))
    )
    listed = ground.provider.list_leases(RunId(7))
    assert {lease.identity for lease in listed} == set(ground.nodes)
    assert {lease.state for lease in listed} == {LeaseState.LIVE}
    assert all(str(ground.state_dir) in lease.detail for lease in listed)
    assert ground.provider.list_leases(RunId(8)) == []


def test_a_second_start_beside_a_living_session_is_refused(ground: Ground) -> None:
    node = ground.start()
    node.wait_joined()
    before = node.pids()

    with pytest.raises(ProviderError, match=r"session 1 .* still runs"):
        ground.bootstrap(node, BootSpec(start_swactor_command="exec sleep 1000"))

    assert node.pids() == before
    assert all(is_living(pid) for pid in before.values())


def test_a_cancel_of_another_session_leaves_this_one_alone(ground: Ground) -> None:
    node = ground.start()
    node.wait_joined()

    ground.provider.cancel_bootstrap(node.identity, BootstrapSessionId(99))

    assert all(is_living(pid) for pid in node.pids().values())


def test_a_start_without_a_lease_says_so(ground: Ground) -> None:
    node = ground.node()

    with pytest.raises(ProviderError, match="is gone: there is no"):
        ground.bootstrap(node, BootSpec())

    ground.provider.cancel_bootstrap(node.identity, node.session_id)
    assert ground.destroy(node)


def test_an_ended_session_is_told_again_to_whoever_looks(ground: Ground) -> None:
    node = ground.start("exit 3")
    reason = node.wait_lost()
    wait_until(lambda: node.failures == [reason], "the failure")

    found = ground.provider.find_bootstrap(node.identity)

    assert found == node.session_id
    assert node.failures == [reason, reason]
    assert node.losses == [reason, reason]
