"""What a sound shape file means: the same in every format, and nothing that it does not say."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from cluster_reconciler.actors.cli import file_structs
from cluster_reconciler.actors.cli.durations import format_duration, parse_duration
from cluster_reconciler.actors.cli.shape_file import (
    LoadedShape,
    ProviderSettings,
    SwarmSettings,
    load,
    next_generation,
)
from cluster_reconciler.decider import RetryPolicy
from cluster_reconciler.messages import (
    BootSpec,
    ClusterShape,
    DesiredNodeShape,
    NodeGroupId,
    ProviderKind,
    ProviderLimits,
    ProviderMount,
    RoleId,
    RunId,
    RunNodeGroupSpec,
    SwarmJoinTemplate,
)

TOML = """\
run_id = 7
generation = 3

[[groups]]
group_id = "worker"
role = "worker"
count = 4
provider = "big"
[groups.shape]
disk_gb = 10
min_reliability = 1
provider_labels = { zone = "a" }
[groups.boot]
verify_commands = ["test -w ."]
start_swactor_command = "serve"
env = { GREETING = "hello", API_KEY = "env:MY_API_KEY" }
[[groups.boot.mounts]]
host_path = "/data"
container_path = "/mnt"
[groups.swarm_join]
join_token_ref = "env:TOKEN"

[retry]
initial_delay = "500ms"
max_delay = 90
jitter = 0
join_timeout = "1h30m"
seed = 11
[limits.big]
in_flight = 8
[swarm]
listen = "[::1]:7000"
heartbeat = "2s"
grace = 7.5
[providers.big]
kind = "process"
state_dir = "state"
"""

YAML = """\
run_id: 7
generation: 3
groups:
- {group_id: worker, role: worker, count: 4, provider: big,
   shape: {disk_gb: 10, min_reliability: 1.0, provider_labels: {zone: a}, require_verified: false},
   boot: {verify_commands: [test -w .], start_swactor_command: serve, args: [],
          env: {GREETING: hello, API_KEY: "env:MY_API_KEY"},
          mounts: [{host_path: /data, container_path: /mnt, readonly: false}]},
   swarm_join: {join_token_ref: "env:TOKEN"}}
retry: {initial_delay: 500ms, max_delay: 90s, jitter: 0.0, join_timeout: 90m, seed: 11}
limits: {big: {in_flight: 8}}
swarm: {listen: "[::1]:7000", heartbeat: 2, grace: 7500ms}
providers: {big: {kind: process, state_dir: state}}
"""


def loaded(file: Path, text: str) -> LoadedShape:
    file.write_text(text)
    loading = load(str(file))
    assert [str(fault) for fault in loading.faults] == []
    assert loading.loaded is not None
    return loading.loaded


def test_every_key_of_the_file_arrives_where_it_belongs(tmp_path: Path) -> None:
    found = loaded(tmp_path / "shape.toml", TOML)

    group = RunNodeGroupSpec(
        run_id=RunId(7),
        group_id=NodeGroupId("worker"),
        role=RoleId("worker"),
        count=4,
        provider=ProviderKind("big"),
        shape=DesiredNodeShape(disk_gb=10, min_reliability=1.0, provider_labels={"zone": "a"}),
        boot=BootSpec(
            verify_commands=("test -w .",),
            start_swactor_command="serve",
            env={"GREETING": "hello", "API_KEY": "env:MY_API_KEY"},
            mounts=(ProviderMount("/data", "/mnt"),),
        ),
        swarm_join=SwarmJoinTemplate(join_token_ref="env:TOKEN"),
    )
    limits = {ProviderKind("big"): ProviderLimits(8)}
    assert found == LoadedShape(
        file=str(tmp_path / "shape.toml"),
        shape=ClusterShape(RunId(7), 3, (group,), limits),
        retry=RetryPolicy(
            initial_delay=timedelta(milliseconds=500),
            max_delay=timedelta(seconds=90),
            jitter=0.0,
            join_timeout=timedelta(minutes=90),
            seed=11,
        ),
        swarm=SwarmSettings(
            "[::1]:7000", timedelta(seconds=2), timedelta(seconds=7, milliseconds=500), None
        ),
        providers=(
            ProviderSettings(ProviderKind("big"), ProviderKind("process"), tmp_path / "state"),
        ),
        generation_given=True,
        run_id_line=1,
    )


def test_a_shape_means_the_same_in_every_format(tmp_path: Path) -> None:
    # given the same shape in TOML, in YAML with its defaults written out, and in JSON
    from_toml = loaded(tmp_path / "shape.toml", TOML)
    from_yaml = loaded(tmp_path / "shape.YML", YAML)
    as_json = msgspec.json.encode(msgspec.yaml.decode(YAML)).decode()
    from_json = loaded(tmp_path / "shape.json", "\ufeff" + as_json)
    # then they differ in their file alone (design rule 5)
    shapes = [msgspec.structs.replace(each, file="") for each in (from_toml, from_yaml, from_json)]
    assert shapes == [shapes[0]] * 3


def test_what_a_file_leaves_out_is_the_default(tmp_path: Path) -> None:
    found = loaded(tmp_path / "shape.yaml", "run_id: 1\ngroups: []\n")
    assert found.shape == ClusterShape(RunId(1), 1, ())
    assert found.retry == RetryPolicy()
    assert found.swarm == SwarmSettings(
        "127.0.0.1:0", timedelta(seconds=1), timedelta(seconds=5), None
    )
    assert found.providers == ()
    assert not found.generation_given


@pytest.mark.parametrize(
    ("entry", "spec"),
    [
        (file_structs.GroupEntry, RunNodeGroupSpec),
        (file_structs.MachineEntry, DesiredNodeShape),
        (file_structs.BootEntry, BootSpec),
        (file_structs.MountEntry, ProviderMount),
        (file_structs.SwarmJoinEntry, SwarmJoinTemplate),
        (file_structs.RetryEntry, RetryPolicy),
        (file_structs.LimitsEntry, ProviderLimits),
        (file_structs.ShapeFile, ClusterShape),
    ],
)
def test_the_file_speaks_the_names_of_the_messages_and_has_their_defaults(
    entry: type[msgspec.Struct], spec: type[msgspec.Struct]
) -> None:
    of_file = {field.name: field for field in msgspec.structs.fields(entry)}
    for field in msgspec.structs.fields(spec):
        assert field.name in of_file
        if field.default is not msgspec.NODEFAULT and not isinstance(field.default, msgspec.Struct):
            assert of_file[field.name].default == field.default


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "12:30", "012", "2024-01-01"])
def test_yaml_words_that_other_readers_turn_into_something_else_stay_words(
    tmp_path: Path, word: str
) -> None:
    text = "run_id: 1\ngroups:\n- group_id: w\n  count: 1\n  provider: process\n"
    found = loaded(tmp_path / "shape.yaml", f"{text}  role: {word}\n")
    assert [group.role for group in found.shape.groups] == [word]


def test_yaml_aliases_give_a_value_to_many_groups(tmp_path: Path) -> None:
    found = loaded(
        tmp_path / "shape.yaml",
        "run_id: 1\ngroups:\n"
        "- {group_id: a, role: r, count: 1, provider: process, boot: &boot {args: [x]}}\n"
        "- {group_id: b, role: r, count: 1, provider: process, boot: *boot}\n",
    )
    assert [group.boot.args for group in found.shape.groups] == [("x",), ("x",)]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("500ms", 0.5), ("10s", 10), ("2m", 120), ("1h", 3600), ("1h30m", 5400), (3, 3), (0.25, 0.25)],
)
def test_durations(written: object, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize("written", ["", "5", "-1s", "1 day", "s", "1s!", -1, True, None, 10**400])
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["500ms", "1.5s", "2m", "1m30s", "1h", "26h1m1s"])
def test_a_duration_is_told_as_it_is_written(written: str) -> None:
    assert format_duration(parse_duration(written)) == written


class TestNextGeneration:
    TEXT = "run_id: 1\ngroups:\n- {group_id: w, role: r, count: %d, provider: process}\n"

    def test_the_same_content_keeps_the_generation(self, tmp_path: Path) -> None:
        old = msgspec.structs.replace(
            loaded(tmp_path / "a.yaml", self.TEXT % 1).shape, generation=5
        )
        new = next_generation(old, loaded(tmp_path / "b.yaml", self.TEXT % 1))
        assert new == old

    def test_other_content_counts_up(self, tmp_path: Path) -> None:
        old = msgspec.structs.replace(
            loaded(tmp_path / "a.yaml", self.TEXT % 1).shape, generation=5
        )
        new = next_generation(old, loaded(tmp_path / "b.yaml", self.TEXT % 2))
        assert (new.generation, new.groups[0].count) == (6, 2)

    def test_a_generation_that_the_file_gives_stays_for_the_driver_to_judge(
        self, tmp_path: Path
    ) -> None:
        old = msgspec.structs.replace(
            loaded(tmp_path / "a.yaml", self.TEXT % 1).shape, generation=5
        )
        new = next_generation(old, loaded(tmp_path / "b.yaml", self.TEXT % 2 + "generation: 2\n"))
        assert new.generation == 2


SOUND = """\
run_id = 7
[[groups]]
group_id = "worker"
role = "worker"
count = 4
provider = "big"
[groups.boot]
start_swactor_command = "serve"
env = { GREETING = "hello", API_KEY = "env:MY_API_KEY" }
[groups.swarm_join]
join_token_ref = "env:TOKEN"
[swarm]
listen = "[::1]:7000"
[providers.big]
kind = "process"
"""


class TestCautions:
    @pytest.fixture(autouse=True)
    def secrets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_API_KEY", "one")
        monkeypatch.setenv("TOKEN", "two")

    def cautions(self, tmp_path: Path, text: str) -> list[str]:
        (tmp_path / "shape.toml").write_text(text)
        loading = load(str(tmp_path / "shape.toml"))
        assert loading.loaded is not None, "a caution is no fault"
        return [f"{found.line}: {found.path}: {found.text}" for found in loading.cautions]

    def test_a_literal_that_looks_like_a_secret(self, tmp_path: Path) -> None:
        found = self.cautions(tmp_path, SOUND.replace('"env:MY_API_KEY"', '"sk-0123456789abcdef"'))
        assert found == [
            (
                "9: groups[0].boot.env.API_KEY: this looks like a secret, and would stand in plain "
                "text in this file and in traces; name where it is instead: "
                '"env:API_KEY" or "file:PATH"'
            )
        ]

    def test_a_reference_that_leads_nowhere_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("TOKEN")
        found = self.cautions(tmp_path, SOUND.replace("env:MY_API_KEY", "file:/no/such/file"))
        assert found == [
            (
                "9: groups[0].boot.env.API_KEY: leads to nothing here and now: "
                "file:/no/such/file: cannot be read: No such file or directory"
            ),
            (
                "11: groups[0].swarm_join.join_token_ref: leads to nothing here and now: "
                "env:TOKEN: the variable TOKEN is not set where the reconciler runs; set it there"
            ),
        ]

    def test_wishes_that_the_provider_does_not_read(self, tmp_path: Path) -> None:
        wishes = """\
[groups.shape]
gpu_name = "H100"
disk_gb = 0
options = { join_after = "0.5", cwd = "/" }
[[groups.boot.mounts]]
host_path = "/data"
container_path = "/mnt"
"""
        text = SOUND.replace("[groups.swarm_join]", f"{wishes}[groups.swarm_join]")
        found = self.cautions(tmp_path, text)
        unread = "a process provider does not read this: its nodes are this machine as it is"
        assert found == [
            f"11: groups[0].shape.gpu_name: {unread}",
            (
                "13: groups[0].shape.options.cwd: a process provider knows no option "
                '"cwd", only join_after'
            ),
            f"14: groups[0].boot.mounts: {unread}",
        ]

    def test_a_listener_that_other_machines_can_reach(self, tmp_path: Path) -> None:
        found = self.cautions(tmp_path, SOUND.replace("[::1]:7000", "0.0.0.0:7000"))
        assert found == [
            (
                "13: swarm.listen: other machines can reach this address; "
                "nodes prove themselves by token, unencrypted"
            )
        ]

    def test_a_sound_file_has_none(self, tmp_path: Path) -> None:
        assert self.cautions(tmp_path, SOUND) == []


def test_a_time_to_join_after_that_is_none_is_a_fault(tmp_path: Path) -> None:
    options = '[groups.shape]\noptions = { join_after = "soon" }\n'
    text = SOUND.replace("[groups.swarm_join]", f"{options}[groups.swarm_join]")
    (tmp_path / "shape.toml").write_text(text)

    [fault] = load(str(tmp_path / "shape.toml")).faults

    assert str(fault).endswith(
        "shape.toml:11:13: groups[0].shape.options.join_after: expected a time below a day, such "
        'as "500ms" or "2s", found the string "soon"'
    )


def test_a_token_in_place_of_its_reference_is_a_fault_that_does_not_quote_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "shape.toml").write_text(SOUND.replace("env:TOKEN", "ghp_0123456789abcdef"))

    [fault] = load(str(tmp_path / "shape.toml")).faults

    assert str(fault).endswith(
        "shape.toml:11:1: groups[0].swarm_join.join_token_ref: expected a reference to a secret: "
        '"env:NAME" or "file:PATH", found a string that names none'
    )


def test_the_example_is_valid(repository: Path) -> None:
    loading = load(str(repository / "examples" / "local.toml"))
    assert [*loading.faults, *loading.cautions] == []
    assert loading.loaded is not None
    assert [(g.group_id, g.count) for g in loading.loaded.shape.groups] == [
        ("web", 2),
        ("worker", 3),
    ]
