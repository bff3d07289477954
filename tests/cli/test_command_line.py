# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from vllm_dflash import __version__
from vllm_dflash.cli import env
from vllm_dflash.cli import main as command_line
from vllm_dflash.errors import UserError


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = [sys.executable, "-m", "vllm_dflash.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_an_unknown_command_is_refused_with_the_known_ones() -> None:
    done = run("benhc")
    assert done.returncode == 2
    assert "invalid choice: 'benhc'" in done.stderr
    assert "bench" in done.stderr


def test_without_a_command_it_says_how_to_use_it() -> None:
    done = run()
    assert done.returncode == 2
    assert done.stderr.startswith("usage: vllm-dflash")


def test_version() -> None:
    assert run("--version").stdout == f"vllm-dflash {__version__}\n"


def test_only_commands_that_exist_are_listed() -> None:
    listed = run("--help").stdout
    for name, (module, _) in command_line.COMMANDS.items():
        assert (f"\n    {name} " in listed) == (find_spec(module) is not None), name


def test_help_imports_no_command() -> None:
    script = (
        "import sys\nfrom vllm_dflash.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('torch', 'vllm', 'transformers') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(args: object) -> int:
        raise UserError("too many taps", field="taps", found=9, needed="at most 8")

    module = SimpleNamespace(add_arguments=lambda parser: parser.add_argument("--x"), run=fail)
    monkeypatch.setattr(command_line, "import_module", lambda name: module)


@pytest.mark.usefixtures("failing")
def test_bad_input_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["env", "--x", "1"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "vllm-dflash: too many taps; taps: found 9; needed at most 8\n")


def test_env_as_json_and_as_text_tell_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env, "_own_words", lambda: {"V1": "ready", "V2": "INACTIVE: no"})
    monkeypatch.setenv("VLLM_API_KEY", "sesame")
    assert command_line.main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["vllm-dflash"] == __version__
    assert command_line.main(["env"]) == 0
    text = capsys.readouterr().out
    for value in (found["versions"]["torch"], found["cpu"]["model"], "V2: INACTIVE: no"):
        assert value in text
    assert "sesame" not in text + json.dumps(found)


def test_env_says_when_vllm_would_not_load_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "another")
    assert env.plugin_state()["state"] == "INACTIVE: VLLM_PLUGINS=another does not list dflash"
    monkeypatch.setattr(env.metadata, "entry_points", lambda **_: ())
    assert "not installed" in env.plugin_state()["state"]


def test_env_says_that_the_plugin_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vllm", reason="needs vLLM")
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    monkeypatch.setenv("VLLM_DFLASH", "0")
    assert "VLLM_DFLASH=0" in str(env.plugin_state()["state"])
