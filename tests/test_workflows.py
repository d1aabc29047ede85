"""What GitHub and cnb.cool run: make targets, no stranger's code on a GPU, no site with stale stamps."""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
GITHUB = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")}
CNB = yaml.safe_load((ROOT / ".cnb.yml").read_text())
BRANCHES = {name: events for name, events in CNB.items() if not name.startswith(".")}
GPU = "cnb:arch:amd64:gpu"


def triggers(workflow: dict) -> set[str]:
    return set(workflow[True])  # YAML reads the key `on` as a truth value


def steps() -> Iterator[dict]:
    for workflow in GITHUB.values():
        for job in workflow["jobs"].values():
            yield from job.get("steps", [])


def pipelines(event: str = "") -> Iterator[tuple[str, dict]]:
    for events in BRANCHES.values():
        for name, found in events.items():
            if name.startswith(event):
                yield from ((name, pipeline) for pipeline in found)


def reached(name: str) -> Iterator[dict]:
    """The jobs of a workflow, and of those it calls."""
    for job in GITHUB[name]["jobs"].values():
        yield job
        if "uses" in job:
            yield from reached(Path(job["uses"]).name)


def holds(condition: str, **values: object) -> bool:
    """Evaluate a condition of GitHub's; what it uses of the language is close to Python."""
    text = re.sub(r"^\$\{\{(.*)\}\}$", r"\1", condition.strip(), flags=re.S)
    for theirs, ours in (("&&", " and "), ("||", " or "), ("!cancelled", "not cancelled"), ("\n", " ")):
        text = text.replace(theirs, ours)
    functions = {
        "cancelled": lambda: False,
        "fromJSON": json.loads,
        "contains": lambda some, one: one in some,
    }
    return bool(eval(text.strip(), {"__builtins__": {}} | functions | values))


def test_every_command_is_the_projects_own() -> None:
    commands = [step["run"] for step in steps() if "run" in step]
    commands += [
        stage["script"] for _, found in pipelines() for stage in found["stages"] if "script" in stage
    ]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    assert {".ci/run", "make gpu", "make publish", "make test"} == set(commands)
    for command in set(commands) - {".ci/run"}:
        assert command.removeprefix("make ") in targets
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_every_python_is_tested_in_both_places() -> None:
    """The oldest by all that CI runs, later ones by the tests."""
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    wanted = {oldest.removeprefix(">="): ".ci/run", "3.12": "make test", "3.13": "make test"}
    github = {}
    for job in GITHUB["ci.yml"]["jobs"].values():
        (version,) = (step["with"]["python-version"] for step in job["steps"] if "setup-python" in str(step))
        versions = job["strategy"]["matrix"]["python"] if "matrix" in version else [version]
        github |= dict.fromkeys(versions, job["steps"][-1]["run"])
    assert github == wanted
    for event in ("push", "pull_request"):
        images = {found["docker"]["image"]: found["stages"][-1]["script"] for _, found in pipelines(event)}
        assert images == {f"python:{version}-bookworm": command for version, command in wanted.items()}


def test_actions_are_pinned_with_their_version_beside_them() -> None:
    lines = [
        line
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line and "uses: ./" not in line
    ]
    assert lines
    for line in lines:
        assert re.search(r"uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_workflows_may_read_and_only_the_deployment_writes() -> None:
    for workflow in GITHUB.values():
        assert workflow["permissions"] == {"contents": "read"}
        assert workflow["concurrency"]
        for name, job in workflow["jobs"].items():
            assert job.get("permissions", {}) == (
                {"pages": "write", "id-token": "write"} if name == "deploy" else {}
            )
            assert "uses" in job or job["timeout-minutes"]


def test_pull_requests_never_reach_a_gpu() -> None:
    for name, workflow in GITHUB.items():
        assert not triggers(workflow) & {"pull_request_target", "workflow_run", "issue_comment"}
        if "pull_request" in triggers(workflow):
            assert all(job.get("runs-on", "ubuntu-24.04") == "ubuntu-24.04" for job in reached(name)), name
    ours = [job for workflow in GITHUB.values() for job in workflow["jobs"].values()]
    (gpu,) = (job for job in ours if job.get("runs-on") == ["self-hosted", "gpu"])
    for event, ref, variable, expected in (
        ("workflow_dispatch", "refs/heads/a", "", True),
        ("push", "refs/heads/main", "true", True),
        ("push", "refs/heads/main", "", False),
        ("push", "refs/heads/a", "true", False),
        ("pull_request", "refs/heads/main", "true", False),
    ):
        github = SimpleNamespace(event_name=event, ref=ref)
        assert holds(gpu["if"], github=github, vars=SimpleNamespace(GPU_RUNNER=variable)) == expected
    assert {event for event, found in pipelines() if found["runner"]["tags"] == GPU} == {"web_trigger_gpu"}
    assert {found["runner"]["tags"] for _, found in pipelines("pull_request")} == {"cnb:arch:amd64"}


def test_only_a_passed_and_fresh_site_is_published() -> None:
    jobs = GITHUB["pages.yml"]["jobs"]
    assert GITHUB["pages.yml"][True] == {"push": {"branches": ["main"]}}
    assert (jobs["build"]["needs"], jobs["deploy"]["needs"]) == (["ci", "gpu"], "build")
    for ci, gpu, expected in (
        ("success", "success", True),
        ("success", "skipped", True),
        ("success", "failure", False),
        ("failure", "skipped", False),
    ):
        needs = SimpleNamespace(ci=SimpleNamespace(result=ci), gpu=SimpleNamespace(result=gpu))
        assert holds(jobs["build"]["if"], needs=needs) == expected
    names = [step.get("run") or step["uses"].split("@")[0] for step in jobs["build"]["steps"]]
    assert names[-3:] == ["actions/download-artifact", "make publish", "actions/upload-pages-artifact"]
    (upload,) = (step for step in steps() if "upload-artifact@" in step.get("uses", ""))
    (download,) = (step for step in steps() if "download-artifact@" in step.get("uses", ""))
    assert download["with"]["pattern"] == upload["with"]["name"]
    assert upload["with"]["path"] == f"{download['with']['path']}/verified.json"
    command = ["make", "-n", "publish", "NOVENV=1"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    assert re.search(r"^SOURCE_DATE_EPOCH=.* FRESH=true .* mkdocs build --strict$", told, re.M)


def test_cnb_file_has_the_form_that_cnb_reads() -> None:
    """There is no schema to validate against that may be kept here; these are the keys of its manual."""
    events = {event for event, _ in pipelines()}
    assert events == {"push", "pull_request", "web_trigger_gpu"}
    for _, pipeline in pipelines():
        assert pipeline.keys() == {"name", "runner", "docker", "stages"}
        assert pipeline["runner"].keys() == {"tags"}
        assert pipeline["docker"].keys() == {"image"}
        for stage in pipeline["stages"]:
            assert stage.keys() in ({"name", "script"}, {"name", "image", "settings"})
    buttons = yaml.safe_load((ROOT / ".cnb/web_trigger.yml").read_text())["branch"]
    shown = {
        (branch, button["event"])
        for place in buttons
        for branch in BRANCHES
        if re.search(place["reg"], branch)
        for button in place["buttons"]
    }
    assert shown == {("main", "web_trigger_gpu")}
    assert all(event in BRANCHES[branch] for branch, event in shown)
