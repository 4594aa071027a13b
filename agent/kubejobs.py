"""Reads jobs from the API server and writes answers. The agent may write nothing else of a job."""

from collections.abc import Collection

from agent.wire import WireAnswer, WireJob, decode_job
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.paths import custom

PLURAL = "remedyoperationjobs"


class KubeJobs:
    """Implements agent.core.JobClient."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def read(self, name: str) -> WireJob | None:
        try:
            return await self._kube.get(custom(PLURAL, name), decode_job)
        except NotFound:
            return None

    async def answer(
        self, job: str, request_id: str, answer: WireAnswer, obsolete: Collection[str] = ()
    ) -> str:
        """Write with a merge patch, which changes these keys only, whatever the operator writes."""
        requests: dict[str, object] = {**dict.fromkeys(obsolete), request_id: _plain(answer)}
        body = {"status": {"agent": {"requests": requests}}}
        try:
            written = await self._kube.patch(custom(PLURAL, job, "status"), body, decode=decode_job)
        except NotFound:
            return ""
        return written.metadata.resource_version


def _plain(answer: WireAnswer) -> dict[str, object]:
    given = {
        "state": answer.state,
        "bootID": answer.boot_id,
        "startedAt": answer.started_at,
        "finishedAt": answer.finished_at,
        "code": answer.code,
        "output": answer.output,
    }
    return {name: value for name, value in given.items() if value is not None}
