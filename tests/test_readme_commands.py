"""The commands of the README that need a cluster that runs: the copy that is watched, the edit, and
the kill.  What needs no set-up is run by `test_documents`."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.process_kit import wait_until

BLOCK = re.compile(r"^```bash\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_readmes_kill_and_its_watched_copy_do_what_it_says(
    repository: Path, tmp_path: Path
) -> None:
    kill, watch = (
        found["text"].replace(".venv/bin/", f"exec {Path(sys.executable).parent}/")
        for found in BLOCK.finditer((repository / "README.md").read_text(encoding="utf-8"))
    )
    (tmp_path / "examples").symlink_to(repository / "examples")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    said = tmp_path / "said"
    with said.open("wb") as out:
        up = subprocess.Popen(
            ["sh", "-euc", watch], cwd=tmp_path, env=environment, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip

    def tells(pattern: str) -> None:
        wait_until(lambda: re.search(pattern, said.read_text()), pattern)

    try:
        tells("converged: 5 of 5 nodes are ready")
        subprocess.run(["sh", "-euc", kill], cwd=tmp_path, env=environment, check=True)
        tells(r"worker-1 failed: the node is lost: .* was ended by SIGKILL")
        tells(r"worker-1 ready \(attempt [67]\)")
        shape = tmp_path / "shape.toml"
        shape.write_text(shape.read_text().replace("count = 3", "count = 4"))
        tells("generation 2, 5 kept, 1 added, 0 removed, 0 replaced")
        tells("converged: 6 of 6 nodes are ready")
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=60) == 143
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(up.pid, signal.SIGKILL)
        up.wait()
    assert "drained: nothing is left" in said.read_text()
