"""A start that fails since a provider of the host's is wrong: nothing was started, exit code 2."""

from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from cluster_reconciler.actors.cli.arguments import UpOptions, make_parser
from cluster_reconciler.actors.cli.shape_file import LoadedShape
from cluster_reconciler.actors.cli.up import up
from cluster_reconciler.actors.runtime import Cluster
from cluster_reconciler.executors.providers.memory import MemoryProvider
from tests.cli_kit import SHAPE, report_of


class Wrong(MemoryProvider):
    """Says of its settle time what the test wants: an error is raised."""

    def __init__(self, said: object) -> None:
        super().__init__("process")
        self.said = said

    @property
    def settle_time(self) -> timedelta:
        """See the class."""
        if isinstance(self.said, Exception):
            raise self.said
        return cast("timedelta", self.said)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param(
            "soon",
            "ValueError: provider 'process': its settle_time must be a timedelta of at least 0, "
            "found 'soon'",
            id="no timedelta",
        ),
        pytest.param(
            TypeError("not\nyet \x1b[2J"), "TypeError: not | yet \\x1b[2J", id="an error of its own"
        ),
    ],
)
def test_a_provider_that_is_none_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], said: object, error: str
) -> None:
    # Given
    (tmp_path / "shape.yaml").write_text(SHAPE)
    words = ["up", str(tmp_path / "shape.yaml"), "--once", "--json", "-q"]

    def start(loaded: LoadedShape, trace: Path | None, drain_timeout: timedelta) -> Cluster:
        return Cluster.start(
            loaded.shape, providers=[Wrong(said)], trace=trace, drain_timeout=drain_timeout
        )

    # When
    code = up(make_parser().parse_args(words, UpOptions()), start)

    # Then
    out, errors = capsys.readouterr()
    report = report_of(out)
    assert (code, report.exit_code, report.error, errors) == (2, 2, error, error + "\n")
