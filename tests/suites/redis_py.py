"""redis-py's own tests against a follower of three nodes, as far as they use what this store has.

Takes the tests from the source package of redis-py, in a virtual environment of their own under
.clients/, and compares what fails with redis_py_expected.txt, where each failure has its reason:
what fails and is not listed is wrong, and so is what is listed and passes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
VERSION = "7.1.0"
HOME = ROOT / ".clients" / f"redis-py-tests-{VERSION}"
REQUIRES = [
    f"redis=={VERSION}", "pytest>=8", "pytest-asyncio", "pytest-timeout", "mock", "packaging",
    "PyJWT", "cryptography", "redis-entraid", "pybreaker", "numpy",
]  # fmt: skip
FILES = ["test_pipeline", "test_encoding", "test_connection_pool", "test_lock", "test_pubsub"]
FILES += ["test_connection", "test_commands"]
EXPECTED = HERE / "redis_py_expected.txt"


def set_up() -> Path:
    """Where the tests lie, with a Python beside them that can run them."""
    source = HOME / f"redis-{VERSION}"
    if (HOME / "ready").exists():
        return source
    subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
    pip = [HOME / "venv/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *REQUIRES], check=True)
    package = ["--no-deps", "--no-binary", ":all:", f"redis=={VERSION}", "--dest", HOME]
    subprocess.run([*pip, "download", *package], check=True)
    shutil.unpack_archive(HOME / f"redis-{VERSION}.tar.gz", HOME)
    (HOME / "ready").touch()
    return source


def run(port: int, protocol: int, files: list[str], within_s: float) -> dict[str, str]:
    """How each test ended: test id to outcome and last words."""
    source = set_up()
    with tempfile.TemporaryDirectory() as directory:
        outcomes = Path(directory) / "outcomes.json"
        command = [HOME / "venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "redis_py_plugin", "--timeout", "30", "--tb", "short"]
        command += ["--redis-url", f"redis://127.0.0.1:{port}/9", "--protocol", str(protocol)]
        command += [f"tests/{name}.py" for name in files]
        environment = {**os.environ, "PYTHONPATH": str(HERE), "OUTCOMES": str(outcomes)}
        done = subprocess.run(
            command, cwd=source, env=environment, capture_output=True, text=True, timeout=within_s
        )
        if not outcomes.exists():
            raise SystemExit(f"redis-py's tests did not run:\n{done.stdout}\n{done.stderr}")
        return json.loads(outcomes.read_text())


def expected_failures() -> dict[str, str]:
    """Test id to the reason, from lines like `test id  reason`."""
    lines = [line for line in EXPECTED.read_text().splitlines() if line and line[0] != "#"]
    return {test: reason for test, _, reason in (line.partition("  ") for line in lines)}


def differences(outcomes: dict[str, str]) -> list[str]:
    """What is not as the list says."""
    expected = expected_failures()
    failed = {test for test, outcome in outcomes.items() if outcome.startswith("failed")}
    return [f"fails: {test}: {outcomes[test]}" for test in sorted(failed - set(expected))] + [
        f"passes, but is on the list: {test}"
        for test in sorted(set(expected) & set(outcomes) - failed)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of a node; its database 9 is used")
    parser.add_argument("--protocol", type=int, default=2, choices=(2, 3))
    parser.add_argument("files", nargs="*", default=FILES, help="which of redis-py's test files")
    arguments = parser.parse_args()
    outcomes = run(arguments.port, arguments.protocol, arguments.files, 1200)
    wrong = differences(outcomes)
    print("\n".join(wrong))
    passed = sum(outcome.startswith("passed") for outcome in outcomes.values())
    print(f"{passed} of {len(outcomes)} pass, {len(wrong)} are not as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
