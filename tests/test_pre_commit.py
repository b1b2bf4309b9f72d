"""The hook in the real pre-commit: what it refuses, what it lets through, when it runs. Run by `make test-peers`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers

REPOSITORY = Path(__file__).parents[1]
CASE = REPOSITORY / "tests" / "cases" / "GW101"
BOTH = "default_install_hook_types: [pre-commit, pre-push]\n"


class Project:
    """A user's repository whose pre-push hook is ours, with a remote, and nothing of this machine's settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        bin = folder / "bin"
        for path in (self.folder, bin, folder / "hooks"):
            path.mkdir()
        # The command as it is in the user's environment.
        (bin / "gradwright").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gradwright "$@"\n')
        (bin / "gradwright").chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))}
        self.env = {
            **kept,
            "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "PRE_COMMIT_HOME": str(folder / "cache"),
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "a@b.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        # pre-commit clones what is committed: the hook's file as it stands here, in a repository of its own.
        shutil.copy(REPOSITORY / ".pre-commit-hooks.yaml", folder / "hooks")
        self.rev = self._committed(folder / "hooks")
        self.hooks = folder / "hooks"
        self("git", "init", "--quiet", "--bare", str(folder / "remote.git"))
        self("git", "init", "--quiet", "--initial-branch=main")
        self("git", "remote", "add", "origin", str(folder / "remote.git"))

    def __call__(self, *words: str, fails: bool = False, cwd: Path | None = None) -> str:
        done = subprocess.run(
            words, cwd=cwd or self.folder, env=self.env, capture_output=True, text=True, timeout=300, check=False
        )
        said = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, said
        return said

    def _committed(self, folder: Path) -> str:
        self("git", "init", "--quiet", cwd=folder)
        self("git", "add", "--all", cwd=folder)
        self("git", "commit", "--quiet", "--message", "hooks", cwd=folder)
        return self("git", "rev-parse", "HEAD", cwd=folder).strip()

    def configure(self, args: str) -> None:
        hook = f"      - id: gradwright\n{f'        args: {args}' if args else ''}\n"
        text = f"{BOTH}repos:\n  - repo: {self.hooks}\n    rev: {self.rev}\n    hooks:\n{hook}"
        (self.folder / ".pre-commit-config.yaml").write_text(text)
        (self.folder / ".gitignore").write_text(".gradwright/\n")

    def commit(self) -> str:
        self("git", "add", "--all")
        return self("git", "commit", "--message", "work")

    def pre_commit(self, *words: str, fails: bool = False) -> str:
        return self(sys.executable, "-m", "pre_commit", *words, fails=fails)

    def pushed(self) -> str:
        return self("git", "ls-remote", "--heads", "origin")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_manifest_is_one(project: Project) -> None:
    assert project.pre_commit("validate-manifest", str(project.hooks / ".pre-commit-hooks.yaml")) == ""


def test_a_push_of_a_wrong_gradient_is_refused_and_of_a_right_one_goes_through(project: Project) -> None:
    project.configure("[--no-rerun, train.py, --epochs, '1']")
    (project.folder / "train.py").write_text((CASE / "bad.py").read_text())
    assert "pre-push" in project.pre_commit("install")
    project.commit()
    assert not (project.folder / ".gradwright").exists()  # a commit waits for no run
    refused = project("git", "push", "--quiet", "origin", "main", fails=True)
    assert "- exit code: 1" in refused and "GW101" in refused and project.pushed() == ""
    assert (project.folder / ".gradwright" / "last.json").is_file()

    (project.folder / "train.py").write_text((CASE / "good.py").read_text())
    project.commit()
    assert "Passed" in project("git", "push", "origin", "main")
    assert "refs/heads/main" in project.pushed()


def test_a_hook_without_a_script_says_so_and_fails(project: Project) -> None:
    project.configure("")
    (project.folder / "train.py").write_text((CASE / "good.py").read_text())
    project("git", "add", "--all")
    said = project.pre_commit("run", "--all-files", "--hook-stage", "pre-push", fails=True)
    assert "which script?" in said and "- exit code: 2" in said


def test_nothing_is_run_where_no_python_has_changed(project: Project) -> None:
    project.configure("[train.py]")
    project("git", "add", "--all")
    assert "no files to check" in project.pre_commit("run", "--all-files", "--hook-stage", "pre-push")
