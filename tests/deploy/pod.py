# SPDX-License-Identifier: Apache-2.0
"""Runs the chart's pod without a cluster, as a kubelet would: folders of the node made as root, its
containers one after the other with their users, capabilities and mounts, until the probe says that
it serves; then has it compile, and ends it.

    unshare --mount --pid --fork python tests/deploy/pod.py IMAGE NODE

IMAGE: the files of an image, to which only mounts are added. NODE: an empty folder, for the node's.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tools"))

import chart  # noqa: E402

# As the image has it (deploy/container).
ENTRYPOINT = "/opt/tensord/bin/tensord"
ENVIRONMENT = {"PATH": "/opt/tensord/bin:/usr/bin:/bin", "XDG_RUNTIME_DIR": "/run",
               "XDG_CACHE_HOME": "/var/lib"}  # fmt: skip
CAPABILITIES = {"CHOWN": 0}
LAST_CAPABILITY = 40
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def source(volume: dict[str, Any], node: Path, documents: dict[str, Any]) -> Path:
    """The folder of a volume."""
    if "hostPath" in volume:
        folder = node / volume["hostPath"]["path"].lstrip("/")
        assert volume["hostPath"]["type"] == "DirectoryOrCreate"
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        return folder
    folder = node / "volumes" / volume["name"]
    folder.mkdir(parents=True)
    for part in volume.get("projected", {}).get("sources", []):
        for name, text in documents[f"ConfigMap/{part['configMap']['name']}"]["data"].items():
            (folder / name).write_text(text)
    if "emptyDir" in volume:
        folder.chmod(0o777)
    return folder


def start(container: dict[str, Any], spec: dict[str, Any], image: Path, command: list[str]) -> Any:
    """The process of a container, or of a probe of it."""
    context = {**spec["securityContext"], **container["securityContext"]}
    kept = {CAPABILITIES[name] for name in context["capabilities"].get("add", [])}
    assert context["capabilities"]["drop"] == ["ALL"] and not context["allowPrivilegeEscalation"]

    def confine() -> None:
        os.chroot(image)
        os.chdir("/")
        for capability in set(range(LAST_CAPABILITY + 1)) - kept:
            LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        os.setgroups([context["fsGroup"]])
        os.setgid(context["runAsGroup"])
        os.setuid(context["runAsUser"])

    return subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=confine, env=ENVIRONMENT)


def main() -> int:
    image, node = map(Path, sys.argv[1:])
    documents = chart.documents(chart.render())
    spec = documents["DaemonSet/tensord"]["spec"]["template"]["spec"]
    (daemon,) = spec["containers"]

    mount("--make-rprivate", "/")
    mount("--bind", image, image)
    for folder in ("proc", "dev"):
        (image / folder).mkdir(exist_ok=True)
    mount("-t", "proc", "proc", image / "proc")
    mount("-t", "tmpfs", "tmpfs", image / "dev")
    for device in ("null", "zero", "urandom"):
        (image / "dev" / device).touch()
        mount("--bind", f"/dev/{device}", image / "dev" / device)
    folders = {v["name"]: source(v, node, documents) for v in spec["volumes"]}
    for place in daemon["volumeMounts"]:
        target = image / place["mountPath"].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        mount("--bind", folders[place["name"]], target)
        if place.get("readOnly"):
            mount("-o", "remount,bind,ro", target)
    assert all(c["securityContext"]["readOnlyRootFilesystem"] for c in spec["initContainers"])
    mount("-o", "remount,bind,ro", image)

    for container in spec["initContainers"]:
        assert start(container, spec, image, container["command"]).wait() == 0
    served = start(daemon, spec, image, [ENTRYPOINT, *daemon["args"]])
    try:
        probe = daemon["startupProbe"]
        for _ in range(probe["failureThreshold"]):
            if start(daemon, spec, image, probe["exec"]["command"]).wait() == 0:
                break
            time.sleep(probe["periodSeconds"])
        else:
            return 1
        socket = folders["run"] / "tensord.sock"
        asked = subprocess.run(
            [sys.executable, HERE / "ask.py", "cuda"],
            env={**os.environ, "TENSORD_ADDRESS": f"unix:{socket}"}, check=False,
        )  # fmt: skip
    finally:
        served.terminate()
        ended = served.wait(spec["terminationGracePeriodSeconds"])
    owners = {
        f.stat().st_uid for f in (folders["run"], folders["store"], folders["store"] / "store")
    }
    assert owners == {spec["securityContext"]["runAsUser"]}
    assert (folders["store"] / "store").stat().st_mode & 0o777 == 0o700
    return asked.returncode or ended


if __name__ == "__main__":
    sys.exit(main())
