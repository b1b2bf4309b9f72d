"""Completion: in a real bash, and by the protocol that zsh and fish speak."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from gradwright.doctor.cli import main
from gradwright.doctor.commands import completing
from gradwright.doctor.render import FORMATS
from gradwright.doctor.rules import all_rules
from gradwright.exercises.catalog import all_exercises

COMMANDS = ["diagnose", "fix", "report", "diff", "explain", "rules", "exercise", "completion"]
NATIVE = "(the shell's own file names)"


def codes(start: str) -> list[str]:
    return [rule.rule.code for rule in all_rules() if rule.rule.code.startswith(start)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.py", "evaluate.py", "data.csv", "old.json", ".gradwright/last.json", "src/model.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture(scope="module")
def path_with_us(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH on which ``gradwright`` is this one."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "gradwright"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gradwright "$@"\n')
    command.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def complete(folder: Path, path_with_us: str) -> Callable[..., list[list[str]]]:
    """What bash offers at the end of each of these command lines."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")

    def offered(*lines: str) -> list[list[str]]:
        # Outside of a terminal there is no completion to set options of: that the shell is asked to go on by itself
        # is what `compopt` tells.
        script = (
            f'compopt() {{ echo "{NATIVE}"; }}\n'
            "source <(gradwright completion bash)\n"
            "complete -p gradwright >/dev/null || exit 1\n"
            'drive() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMPREPLY=(); _gradwright_completion gradwright;'
            ' printf "%s\\n" "${COMPREPLY[@]}" "--end--"; }\n'
        )
        # Bash hands "--format=x" over as three words.
        script += "".join(f"drive gradwright {line.replace('=', ' = ')}\n" for line in lines)
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            env={**os.environ, "PATH": path_with_us},
        )
        assert (done.returncode, done.stderr) == (0, "")
        parts = done.stdout.split("--end--\n")[:-1]
        return [[word for word in part.split("\n") if word] for part in parts]

    return offered


@pytest.fixture
def told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """What this command tells bash, without the bash and without the process."""
    completing.register()
    kind = get_completion_class("bash")
    assert kind is not None
    monkeypatch.chdir(folder)

    def words(line: str) -> list[str]:
        # Bash hands "--format=x" over as three words, each in a line of its own.
        split = ["gradwright", *line.replace("=", " = ").replace('""', "").split(" ")]
        monkeypatch.setenv("COMP_WORDS", "\n".join(split))
        monkeypatch.setenv("COMP_CWORD", str(len(split) - 1))
        made = kind(main, {}, "gradwright", completing.VARIABLE).complete().splitlines()
        return [NATIVE if word.startswith("file,") else word.removeprefix("plain,") for word in made]

    return words


SESSIONS = [".gradwright/last.json", "old.json"]
OFFERED = {
    '""': COMMANDS,
    "re": ["report"],
    "explain GW90": codes("GW90"),
    "explain GW301 GW3": [],  # what follows is a message's second word
    "rules spe": ["speed"],
    "rules gw30": codes("GW30"),
    "report --select GW1,GW30": [f"GW1,{code}" for code in codes("GW30")],
    "diagnose --ignore GW90": codes("GW90"),
    'report ""': SESSIONS,
    'diff ""': SESSIONS,
    "diff old.json .g": [".gradwright/last.json"],
    'fix --session ""': SESSIONS,
    'report --format ""': list(FORMATS),
    "report --format j": ["json"],
    "report --format=j": ["json"],
    "report --fo": ["--format"],
    'diff --format ""': ["terminal", "json"],
    'completion ""': ["bash", "zsh", "fish"],
    "exercise 1": [str(one.number) for one in all_exercises() if str(one.number).startswith("1")],
    "exercise 5 --h": ["--hint", "--help"],
    "exercise 5 --file ans": [NATIVE],
    'diagnose ""': ["evaluate.py", "train.py"],
    "diagnose t": ["train.py"],
    "diagnose src/": ["src/model.py"],
    "diagnose ./tr": ["./train.py"],
    "diagnose d": [NATIVE],  # no script begins so: a folder may
    "diagnose nowhere/x": [NATIVE],
    "diagnose --max-steps 3 ev": ["evaluate.py"],
    "diagnose -- t": ["train.py"],
    "diagnose --max-st": ["--max-steps"],
    "diagnose train.py --fo": [NATIVE],  # the script's own option, and the script's own file
    'diagnose train.py --format ""': [NATIVE],
    'diagnose train.py --select ""': [NATIVE],
    "fix train.py d": [NATIVE],
    "diagnose -m pack": [],
    "diagnose -m package.module da": [NATIVE],
}


@pytest.mark.parametrize("line", OFFERED)
def test_what_can_stand_there_is_offered(line: str, told: Callable) -> None:
    assert told(line) == OFFERED[line]


def test_a_real_bash_offers_the_same(complete: Callable) -> None:
    lines = ["re", "explain GW90", "report --format=j", 'diff ""', "diagnose t", 'diagnose train.py --format ""']
    assert complete(*lines) == [OFFERED[line] for line in lines]


def test_a_name_that_needs_quotes_is_left_to_the_shell(complete: Callable, folder: Path) -> None:
    (folder / "my train.py").touch()
    (folder / "train$(touch owned).py").touch()
    assert complete("diagnose m", 'diagnose ""', "diagnose t") == [[NATIVE]] * 3
    assert not (folder / "owned").exists()


def ask(shell: str, words: str, at: str, folder: Path) -> list[str]:
    environment = {**os.environ, "_GRADWRIGHT_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": at}
    command = [sys.executable, "-m", "gradwright"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_zsh_and_fish_get_codes_with_their_names(folder: Path) -> None:
    assert ask("zsh", "gradwright explain GW301", "2", folder) == ["plain", "GW301", "python-loop-over-elements"]
    assert ask("fish", "gradwright explain GW301", "GW301", folder) == ["plain,GW301\tpython-loop-over-elements"]
    assert ask("zsh", "gradwright diagnose tr", "2", folder) == ["plain", "train.py", "_"]
    assert ask("fish", "gradwright diagnose train.py da", "da", folder) == ["file,da"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_this_command_under_its_name(shell: str, path_with_us: str) -> None:
    done = subprocess.run(
        ["gradwright", "completion", shell], capture_output=True, text=True, env={**os.environ, "PATH": path_with_us}
    )
    assert done.returncode == 0
    assert f"_GRADWRIGHT_COMPLETE={shell}_complete" in done.stdout
    checker = shutil.which(shell)
    if checker is not None:
        subprocess.run([checker, "-n"], input=done.stdout, text=True, check=True)


def test_another_shell_is_wrong_usage() -> None:
    done = subprocess.run([sys.executable, "-m", "gradwright", "completion", "csh"], capture_output=True, text=True)
    assert done.returncode == 2 and "'csh' is not one of 'bash', 'zsh', 'fish'" in done.stderr
