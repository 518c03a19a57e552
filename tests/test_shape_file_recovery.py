"""A fault of syntax hides no other fault, and is the cause of none that is not there (case F26)."""

import tomllib
from pathlib import Path

import pytest
import yaml

from cluster_reconciler.actors.cli.shape_file import load

GROUP = 'group_id = "w"\nrole = "r"\ncount = 1\nprovider = "process"\n'


def told(name: str, text: str) -> list[str]:
    """Line and place of each fault; a fault of syntax of no known place has its words instead."""
    Path(name).write_text(text)
    loading = load(name)
    assert loading.loaded is None
    return [f"{fault.line}: {fault.path or fault.expected}" for fault in loading.faults]


def _is_yaml(text: str) -> bool:
    try:
        yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return False
    return True


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TOML = [
    pytest.param("run_id = \n[[groups]]\n" + GROUP, ["1: run_id"], id="required_key_broken"),
    pytest.param(f"run id = 1\n[[groups]]\n{GROUP}", ["1: an equals sign after the key"], id="key"),
    pytest.param(
        f"run_id = 1\n[[groups]\n{GROUP}[groups.boot]\nargs = 3\n",
        ["2: a closing bracket of the table's name", "8: groups[0].boot.args"],
        id="header_broken",
    ),
    pytest.param(
        f"run_id = 1\n[[groups]]\n{GROUP}[]\nzzz = 1\n",
        ["7: a key"],
        id="header_without_a_name",
    ),
    pytest.param(
        f"run_id = 1\n[[groups]]\n{GROUP}[groups.boot]\nenv = {{\n  A = 'x',\n  B = 'y',\n}}\n",
        ["8: groups[0].boot.env"],
        id="inline_table_over_lines",
    ),
    pytest.param(
        f'run_id = 1\n[[groups]]\n{GROUP}[groups.boot]\nargs = ["a"\nenv = {{A = 1}}\n',
        ["9: groups[0].boot.args", "9: groups[0].boot.env.A"],
        id="list_never_closed",
    ),
    pytest.param(
        f'run_id = 1\n[[groups]]\n{GROUP}[groups.boot]\nargs = ["""x\ncount = 7\nrun_id = 8\n',
        ["11: groups[0].boot.args"],
        id="text_within_a_list_never_ends",
    ),
    pytest.param(
        f'run_id = 1\n[[groups]]\n{GROUP}[groups.boot]\nssh_user = """x\nrun_id = 8\n[groups]\n',
        ["11: groups[0].boot.ssh_user"],
        id="text_never_ends",
    ),
    pytest.param(
        f"run_id = 1\n[providers.gpu]\nkind = x\n[[groups]]\n{GROUP.replace('process', 'gpu')}",
        ["3: providers.gpu.kind"],
        id="provider_broken",
    ),
    pytest.param(f"run_id = x\n[[groups]]\n{GROUP}run_id = 5\n", ["1: run_id"], id="run_id_broken"),
    pytest.param(
        f"run_id = 1\n[[groups]]\n{GROUP}[retry]\nseed = 1\n[retry]\nseed = 2\njitter = 3\n",
        ["9: retry", "10: retry.seed", "11: retry.jitter"],
        id="table_twice",
    ),
    pytest.param(
        f"run_id = 1\n[[groups]]\n{GROUP}[groups.boot]\nenv = {{A = 'x', A = 'y', B = 2}}\n",
        ["8: groups[0].boot.env.A", "8: groups[0].boot.env.B"],
        id="twice_in_an_inline_table",
    ),
    pytest.param(
        f"run_id = 1\n[[groups]]\n{GROUP}[groups]\n{GROUP}count = 3\n",
        [
            "7: [[groups]] for one more entry of the list",
            "8: groups[1].group_id",
            "12: groups[1].count",
        ],
        id="one_bracket_too_few",
    ),
    pytest.param(
        f'run_id = 1\nswarm.grace = "7s"\n[swarm]\nheartbeat = "x"\n[[groups]]\n{GROUP}x = 1\n',
        ["3: swarm", "4: swarm.heartbeat", "10: groups[0].x"],
        id="table_and_dotted_key",
    ),
    pytest.param(
        f"run_id = 1\n[[groups]]\n{GROUP}boot.args = []\n[groups.boot]\nssh_user = 3\n",
        ["8: groups[0].boot", "9: groups[0].boot.ssh_user"],
        id="table_of_a_group_and_dotted_key",
    ),
    pytest.param(
        f"run_id = 1\n[[groups]]\n{GROUP}boot = {{}}\n[groups.boot.env]\nB = 3\n",
        ["8: groups[0].boot", "9: groups[0].boot.env.B"],
        id="table_within_an_inline_table",
    ),
    pytest.param(
        f"run_id = 1\n[swarm]\n[[groups]]\n{GROUP}boot = {{}}\nboot.args = 3\n",
        ["9: groups[0].boot", "9: groups[0].boot.args"],
        id="dotted_key_within_an_inline_table",
    ),
    pytest.param(
        f"run_id = 1\nswarm = {{}}\n[swarm]\nx = 3\n[[groups]]\n{GROUP}",
        ["3: swarm", "4: swarm.x"],
        id="table_and_inline_table",
    ),
    pytest.param(
        f"run_id = 1\n[groups.boot]\nargs = []\n[[groups]]\n{GROUP}x = 3\n[[groups]]\n",
        ["2: [groups.boot] below a [[groups]]", "9: groups[0].x"]
        + [f"10: groups[1].{key}" for key in ("group_id", "role", "count", "provider")],
        id="table_above_its_group",
    ),
    pytest.param(
        f"run_id = 1\n[groups]\n{GROUP}[[groups]]\n{GROUP}x = 3\n",
        [
            "2: [[groups]] for one more entry of the list",
            "8: groups[1].group_id",
            "12: groups[1].x",
        ],
        id="first_group_with_one_bracket",
    ),
    pytest.param(
        f"retry = 1\nrun_id = 1\n[[groups]]\n{GROUP}[retry.x]\ny = 1\n",
        ["1: retry", "8: retry"],
        id="table_within_a_number",
    ),
]


@pytest.mark.parametrize(("text", "lines"), TOML)
def test_in_toml_the_rest_of_the_file_is_judged(text: str, lines: list[str]) -> None:
    assert sorted(told("shape.toml", text)) == sorted(lines)


HEADERS = ("[[groups]]", "[groups.boot]", "[[groups.boot.mounts]]", "[retry]", "[providers.gpu]")
SOUND = (
    f"run_id = 1\n{{}}\n{GROUP}{{}}\nargs = []\n{{}}\nhost_path = '/a'\n"
    f"container_path = '/b'\n[[groups]]\n{GROUP.replace('w', 'v')}[groups.boot]\nargs = []\n"
    "{}\njitter = 0.5\n{}\nkind = 'process'\n"
)


def _broken(header: str) -> list[str]:
    """Whatever a slip of the keyboard makes of a header."""
    name = header.strip("[]")
    return [
        *(header.replace("[", "", 1), header.lstrip("["), header[:-1], header.rstrip("]")),
        *(f"[[[{name}]", f"[{name}]]", f"[[{name}]", f"@{header}", f"x {header}", f"'{header}"),
        *(f"{header} x", f"{header}]", f"[{header}", f"[@{name}]", f"[{name}x y]", f"[{name}.]"),
        *(f'["{name}]', f"[{name}}}", f"[[{name}@]]", f"={header}"),
    ]


@pytest.mark.parametrize("number", range(len(HEADERS)), ids=HEADERS)
def test_a_broken_header_is_one_fault_and_the_cause_of_no_other(number: int) -> None:
    before, behind = HEADERS[:number], HEADERS[number + 1 :]
    place = "".join(SOUND.split("{}")[: number + 1]).count("\n") + 1
    texts = {header: SOUND.format(*before, header, *behind) for header in _broken(HEADERS[number])}
    lines = {
        header: [each.split(":")[0] for each in told("shape.toml", text)]
        for header, text in texts.items()
        if not _is_toml(text)
    }
    assert lines == {header: [str(place)] for header in lines}
    assert len(lines) >= 15


def test_below_a_broken_header_the_meant_table_is_judged() -> None:
    text = f"run_id = 1\n@[[groups]]\n{GROUP}groups.boot]\nargs = 3\n[[[retry]\njitter = 2\n"
    assert told("shape.toml", text) == [
        "2: a key, a [table] or a comment",
        "7: an equals sign after the key",
        "8: groups[0].boot.args",
        "9: a key",
        "10: retry.jitter",
    ]


def test_a_table_above_its_group_is_told_where_it_belongs() -> None:
    Path("shape.toml").write_text(f"run_id = 1\n[groups.boot]\nargs = []\n[[groups]]\n{GROUP}")
    assert [str(fault) for fault in load("shape.toml").faults] == [
        (
            "shape.toml:2:1: expected [groups.boot] below a [[groups]], found it above the first "
            "one, which is on line 4; move it and its keys below the [[groups]] that it belongs to"
        )
    ]


YAML_GROUP = "groups:\n- {group_id: w, role: r, count: -1, provider: process}\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(f"run_id: @x\n{YAML_GROUP}", ["1: a value", "3: groups[0].count"], id="sign"),
        pytest.param(
            f'run_id: 1\nretry: "x\n{YAML_GROUP}',
            ["2: a closing quote", "4: groups[0].count"],
            id="quote_never_closed",
        ),
        pytest.param(
            f"run_id: 1\n generation: 2\n{YAML_GROUP}",
            ["2: one key on a line", "4: groups[0].count"],
            id="indentation",
        ),
    ],
)
def test_in_yaml_a_broken_value_hides_nothing_and_other_faults_end_it(
    text: str, lines: list[str]
) -> None:
    assert told("shape.yaml", text) == lines


JSON_GROUP = '"groups": [{"group_id": "w", "role": "r", "count": -1, "provider": "process"}]'


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param(
            '{"run_id": seven, # our\n' + JSON_GROUP + ",\n}\n",
            [
                "1: a value",
                "1: a key in double quotes",
                "2: groups[0].count",
                "3: a key in double quotes",
            ],
            id="word_comment_comma",
        ),
        pytest.param(
            '{"run_id": 1\n' + JSON_GROUP + "}",
            ["2: a comma, or the end of the list or table", "2: groups[0].count"],
            id="comma_missing",
        ),
        pytest.param(
            '{run_id: 007, "generation": 1, "x": "a\\d", "y": 1,\n' + JSON_GROUP + "}",
            [
                "1: a key in double quotes",
                "1: a number without zeros before it",
                "1: a valid escape after the backslash",
                "1: x",
                "1: y",
                "2: groups[0].count",
            ],
            id="key_zeros_escape",
        ),
        pytest.param(
            '{"run_id": 1, "retry": {"seed": "a\nb"}, "groups": [{"count": -1 ]}',
            [
                "1: a string that ends on its line",
                "1: retry.seed",
                "2: a comma, or the end of the list or table",
                "2: groups[0].count",
                *(f"2: groups[0].{key}" for key in ("group_id", "provider", "role")),
            ],
            id="string_over_lines_table_not_closed",
        ),
        pytest.param(
            '{"run_id": "1,\n' + JSON_GROUP + "}",
            ["1: a string that ends on its line"],
            id="quote_never_closed",
        ),
    ],
)
def test_in_json_what_other_languages_allow_hides_nothing_and_other_faults_end_it(
    text: str, lines: list[str]
) -> None:
    assert sorted(told("shape.json", text)) == sorted(lines)


WHOLE_JSON = """\
{"run_id": 1,
  "groups": [{
    "group_id": "w",
    "role": "r",
    "count": 1,
    "boot": {
      "args": [
        "a",
        "b"
      ],
      "env": {
        "A": "x"
      }
    },
    "provider": "process"
  }],
  "retry": {
    "jitter": 0.5
  }
}
"""
WHOLE_YAML = """\
run_id: 1
groups:
- group_id: w
  role: r
  count: 1
  boot:
    args:
    - a
    - b
    env:
      A: x
  provider: process
retry:
  jitter: 0.5
  seed: 1
  max_delay: 9s
"""


@pytest.mark.parametrize("more", ["}", "]", ",}", ",]", "{", "[", " x"])
def test_a_bracket_or_a_word_too_many_in_json_is_one_fault(more: str) -> None:
    lines = WHOLE_JSON.splitlines()
    texts = ["\n".join([*lines[:n], line + more, *lines[n + 1 :]]) for n, line in enumerate(lines)]
    assert {text: faults for text in texts if len(faults := told("shape.json", text)) > 1} == {}


@pytest.mark.parametrize("wrong", ["{} x", "  {}", "{}="])
def test_a_slip_in_the_structure_of_yaml_is_one_fault_rarely_two(wrong: str) -> None:
    lines = WHOLE_YAML.splitlines()
    texts = [
        "\n".join([*lines[:n], wrong.format(line).replace(":=", "="), *lines[n + 1 :]])
        for n, line in enumerate(lines)
    ]
    broken = [text for text in texts if not _is_yaml(text)]
    assert {text: faults for text in broken if len(faults := told("shape.yaml", text)) > 2} == {}
    assert len(broken) >= 4


@pytest.mark.parametrize("name", ["shape.toml", "shape.yaml", "shape.json"])
def test_a_file_of_another_kind_ends_after_some_faults(name: str) -> None:
    assert 1 <= len(told(name, "x: [}: =\n" * 5000)) <= 21


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shape.yaml", "run_id: 7\nheartbeat\ue000"),
        ("shape.yaml", 'run_id: "\\ue000"\ngroups: \ue000\n'),
        ("shape.json", '{"run_id": "\\ue000", "groups": "\ue000"}'),
        ("shape.json", '{"run_id": 0e00, "groups": [x, 0e01]}'),
    ],
)
def test_no_text_of_a_file_is_taken_for_a_value_that_could_not_be_read(
    name: str, text: str
) -> None:
    assert len(told(name, text)) >= 1


def test_what_is_repaired_moves_no_column() -> None:
    Path("shape.json").write_text('{run_id: 1, a: "\\d", "groups": [], "b": 1}')
    assert [(fault.column, fault.path) for fault in load("shape.json").faults] == [
        (2, ""),
        (13, ""),
        (13, "a"),
        (17, ""),
        (36, "b"),
    ]
