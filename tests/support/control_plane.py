"""A real Kubernetes control plane on loopback: etcd, kube-apiserver with RBAC, and more on request.

    with ControlPlane(kwok=True) as cp:
        cp.kubectl("apply", "-f", "-", stdin=yaml)
        Kube(connect(str(cp.kubeconfig)))

Certificates, ports and data are made anew for every start; nothing is left after `with`, also when
a part does not start. The servers come from tests/control_plane/build.sh (see support.components);
a missing one raises MissingComponent before anything is started.
"""

import base64
import json
import os
import shutil
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.components import control_plane_folder
from support.daemons import Daemon, free_port
from support.pki import LIFETIME, Authority, Identity

METADATA_AUDIT = '{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Metadata"}]}'
READY_SECONDS = 90.0
"""Generous: 3.5 s on an idle machine, but builds and other suites share the cores."""


class ControlPlane:
    """A control plane that lives as long as the `with` block.

    address          where kube-apiserver listens; give 10.88.0.1 when nspawn hosts must reach it
    kwok             simulate kubelets for all nodes, or those of `kwok_annotation` ("key=value")
    audit            write one JSON line for every request to `audit_log`
    controllers, scheduler   start kube-controller-manager, kube-scheduler
    *_args           more flags for a server
    """

    def __init__(
        self,
        *,
        address: str = "127.0.0.1",
        kwok: bool = False,
        kwok_annotation: str = "",
        controllers: bool = True,
        scheduler: bool = True,
        audit: bool = False,
        apiserver_args: Sequence[str] = (),
        controller_args: Sequence[str] = (),
        kwok_args: Sequence[str] = (),
    ) -> None:
        self._address = address
        self._kwok = kwok
        self._kwok_annotation = kwok_annotation
        self._controllers = controllers
        self._scheduler = scheduler
        self._audit = audit
        self._apiserver_args = apiserver_args
        self._controller_args = controller_args
        self._kwok_args = kwok_args
        self._parts: dict[str, Daemon] = {}
        self._issued = 0

    # ---- life

    def __enter__(self) -> Self:
        self._bin = control_plane_folder()
        self.folder = Path(tempfile.mkdtemp(prefix="kubenode-control-plane-"))
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _start(self) -> None:
        self.port = free_port(self._address)
        self.server = f"https://{self._address}:{self.port}"
        self._authority = Authority(self.folder)
        self.ca_file = self._authority.cert_file
        self.admin = self.issue_client_cert("admin", ["system:masters"])
        self.kubeconfig = self.folder / "admin.kubeconfig"
        self.write_kubeconfig(self.kubeconfig, self.admin)
        self._tls = ssl.create_default_context(cafile=str(self.ca_file))
        self._tls.load_cert_chain(self.admin.cert_file, self.admin.key_file)
        self._start_etcd()
        self._start_apiserver()
        others = [
            self._controller_manager() if self._controllers else None,
            self._kube_scheduler() if self._scheduler else None,
            self._kwok_controller() if self._kwok else None,
        ]
        for part in others:
            if part is not None:
                part.start()
        if self._controllers:
            self._parts["kube-controller-manager"].wait_until(self._has_namespace, READY_SECONDS)

    def _stop(self) -> None:
        # kube-apiserver before etcd: without its store it holds on to requests for a minute.
        order = [*(name for name in reversed(self._parts) if name != "etcd"), "etcd"]
        for name in order:
            if name == "kube-apiserver" and name in self._parts:
                self._parts.pop(name).kill()  # its data is thrown away; it would wait for watches
            elif name in self._parts:
                self._parts.pop(name).stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def part(self, name: str) -> Daemon:
        """A running server, to measure, freeze or end it: "etcd", "kube-apiserver", "kwok" ..."""
        return self._parts[name]

    def restart(self, name: str) -> None:
        """Start a stopped or killed part again; for "kube-apiserver" wait until it is ready."""
        self._parts[name].start()
        if name == "kube-apiserver":
            self._parts[name].wait_until(self._ready, READY_SECONDS)

    def compact(self) -> None:
        """Have etcd forget its history: only how things are now can be read from it."""
        every = base64.b64encode(b"\0").decode()
        now = self._ask_etcd("range", {"key": every, "range_end": every, "count_only": True})
        request = {"revision": now["header"]["revision"], "physical": True}
        self._ask_etcd("compaction", request)

    def _ask_etcd(self, what: str, request: dict[str, Any]) -> Any:
        body = json.dumps(request).encode()
        with urllib.request.urlopen(f"{self._etcd}/v3/kv/{what}", body, timeout=30) as answer:
            return json.load(answer)

    # ---- identities

    def issue_client_cert(
        self, cn: str, orgs: Sequence[str] = (), life: timedelta = LIFETIME
    ) -> Identity:
        """A client certificate for the user `cn` in the groups `orgs`; it may do what RBAC says."""
        self._issued += 1
        return self._authority.issue(f"client-{self._issued}", cn, orgs, life=life)

    def issue_server_cert(self, name: str, sans: Sequence[str]) -> Identity:
        """A certificate for a server of a test, by the authority that everybody here trusts."""
        return self._authority.issue(name, name, sans=sans)

    def write_kubeconfig(self, path: Path, identity: Identity) -> Path:
        """A kubeconfig for `identity` that refers to certificate files; JSON is YAML."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": self.server,
                        "certificate-authority": str(self.ca_file),
                    },
                }
            ],
            "users": [
                {
                    "name": "test",
                    "user": {
                        "client-certificate": str(identity.cert_file),
                        "client-key": str(identity.key_file),
                    },
                }
            ],
        }
        path.write_text(json.dumps(config, indent=1))
        return path

    def kubeconfig_for(self, cn: str, orgs: Sequence[str] = ()) -> Path:
        """A kubeconfig file of a new user."""
        identity = self.issue_client_cert(cn, orgs)
        return self.write_kubeconfig(identity.cert_file.with_suffix(".kubeconfig"), identity)

    # ---- use

    def kubectl(
        self,
        *args: str | Path,
        stdin: str | None = None,
        check: bool = True,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as admin. With `check` a failure raises AssertionError with its output."""
        return run_kubectl(
            self.kubeconfig, *args, stdin=stdin, check=check, timeout=timeout, home=self.folder
        )

    def get(self, path: str) -> Any:
        """The decoded answer of a GET as admin, by blocking I/O: for fixtures, not for the loop."""
        with urllib.request.urlopen(self.server + path, context=self._tls, timeout=10) as answer:
            return json.load(answer)

    def metrics(self) -> str:
        """kube-apiserver's own metrics, Prometheus text."""
        url = self.server + "/metrics"
        with urllib.request.urlopen(url, context=self._tls, timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    @property
    def audit_log(self) -> Path:
        """One JSON object a line (audit.k8s.io/v1 Event); needs `audit=True`."""
        return self.folder / "audit.log"

    # ---- parts

    def _add(self, name: str, *args: str) -> Daemon:
        part = Daemon(name, [self._bin / name, *args], self.folder / f"{name}.log")
        self._parts[name] = part
        return part

    def _start_etcd(self) -> None:
        client = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        self._etcd = client
        etcd = self._add(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        etcd.start()
        etcd.wait_until(lambda: _answers(f"{client}/health", None), READY_SECONDS)

    def _start_apiserver(self) -> None:
        sans = [self._address, "127.0.0.1", "localhost", "kubernetes.default.svc", "10.0.0.1"]
        serving = self._authority.issue("apiserver", "kube-apiserver", sans=sans)
        accounts = self._authority.issue("sa", "service-accounts")
        self._accounts_key = accounts.key_file
        flags = [
            f"--etcd-servers={self._etcd}",
            f"--bind-address={self._address}",
            f"--advertise-address={self._address}",
            f"--secure-port={self.port}",
            f"--tls-cert-file={serving.cert_file}",
            f"--tls-private-key-file={serving.key_file}",
            f"--client-ca-file={self.ca_file}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts.cert_file}",
            f"--service-account-signing-key-file={accounts.key_file}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--kubelet-client-certificate={self.admin.cert_file}",
            f"--kubelet-client-key={self.admin.key_file}",
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged=true",
            "--enable-bootstrap-token-auth=true",
            f"--cert-dir={self.folder / 'certs'}",
            "--endpoint-reconciler-type=none",  # refuses a loopback address as an endpoint
        ]
        if self._audit:
            policy = self.folder / "audit-policy.json"
            policy.write_text(METADATA_AUDIT)
            flags += [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]
        apiserver = self._add("kube-apiserver", *flags, *self._apiserver_args)
        apiserver.start()
        apiserver.wait_until(self._ready, READY_SECONDS)

    def _controller_manager(self) -> Daemon:
        return self._add(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--service-account-private-key-file={self._accounts_key}",
            f"--root-ca-file={self.ca_file}",
            f"--cluster-signing-cert-file={self._authority.cert_file}",
            f"--cluster-signing-key-file={self._authority.key_file}",
            "--use-service-account-credentials=true",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            *self._controller_args,
        )

    def _kube_scheduler(self) -> Daemon:
        return self._add(
            "kube-scheduler",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
        )

    def _kwok_controller(self) -> Daemon:
        chosen = (
            f"--manage-nodes-with-annotation-selector={self._kwok_annotation}"
            if self._kwok_annotation
            else "--manage-all-nodes=true"
        )
        stages = sorted((self._bin / "stages").glob("*.yaml"))
        return self._add(
            "kwok",
            f"--kubeconfig={self.kubeconfig}",
            chosen,
            "--node-lease-duration-seconds=200",
            f"--server-address=127.0.0.1:{free_port()}",
            *(f"--config={stage}" for stage in stages),
            *self._kwok_args,
        )

    # ---- readiness

    def _ready(self) -> bool:
        return _answers(f"{self.server}/readyz", self._tls)

    def _has_namespace(self) -> bool:
        """The controller-manager works once it made the default service account."""
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        return _answers(self.server + path, self._tls)


def kubectl_command(
    kubeconfig: Path, *args: str | Path, home: Path
) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of a kubectl; `home` holds its discovery cache."""
    command = [str(control_plane_folder() / "kubectl"), *(str(arg) for arg in args)]
    # Its own HOME: a cached discovery of another server on the same port would be believed.
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "KUBECONFIG": str(kubeconfig),
        "HOME": str(home),
    }
    return command, environment


def run_kubectl(
    kubeconfig: Path,
    *args: str | Path,
    stdin: str | None = None,
    check: bool = True,
    timeout: float = 60,
    home: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the built kubectl against any kubeconfig; `home` holds its discovery cache.

    With `check` a failure raises AssertionError with both outputs.
    """
    command, environment = kubectl_command(kubeconfig, *args, home=home or kubeconfig.parent)
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"kubectl {' '.join(command[1:])} ended with {done.returncode}\n"
            f"{done.stdout}{done.stderr}"
        )
    return done


def _answers(url: str, tls: ssl.SSLContext | None) -> bool:
    try:
        with urllib.request.urlopen(url, context=tls, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
