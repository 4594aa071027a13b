"""The gRPC server of the provider: messages of the contract to calls of the provider, and TLS."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from kubenode.api.v1alpha1 import MachineSet
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.process import CannotStart, forever
from kubenode.runtime.tls.files import PemFiles
from machine.autoscaler.contract import MESSAGES, METHODS, SERVICE, message_names
from machine.autoscaler.metrics import OK, AutoscalerMetrics
from machine.autoscaler.nodebytes import encode_node
from machine.autoscaler.nodegroup import (
    GroupInstance,
    GroupStatus,
    NodeGroupError,
    NodeHandle,
    limits_of,
)
from machine.autoscaler.provider import AutoscalerProvider

log = logging.getLogger(__name__)

GRACE_SECONDS = 5.0
"""Time for calls to end when the server stops. The autoscaler waits for as long by default."""
FLAG = "--autoscaler-port"
HANDSHAKE_SECONDS = 10
"""Time for the TLS handshake of a connection. gRPC allows 120 s by default."""
OPTIONS = (("grpc.server_handshake_timeout_ms", HANDSHAKE_SECONDS * 1000),)

Call = Callable[[Any], Awaitable[Any]]


class ContractCalls:
    """The methods of the contract, from request message to response message."""

    def __init__(self, provider: AutoscalerProvider) -> None:
        self._provider = provider
        self.by_method: dict[str, Call] = {
            "NodeGroups": self._node_groups,
            "NodeGroupForNode": self._group_for_node,
            "GPULabel": self._gpu_label,
            "GetAvailableGPUTypes": self._gpu_types,
            "Cleanup": self._cleanup,
            "Refresh": self._refresh,
            "NodeGroupTargetSize": self._target_size,
            "NodeGroupIncreaseSize": self._increase_size,
            "NodeGroupDeleteNodes": self._delete_nodes,
            "NodeGroupDecreaseTargetSize": self._decrease_target_size,
            "NodeGroupNodes": self._list_instances,
            "NodeGroupTemplateNodeInfo": self._template,
            "NodeGroupGetOptions": self._options,
        }

    async def _node_groups(self, request: Any) -> Any:
        groups = map(_group_message, self._provider.list_groups())
        return MESSAGES["NodeGroupsResponse"](nodeGroups=groups)

    async def _group_for_node(self, request: Any) -> Any:
        group = self._provider.find_group(_handle(request.node))
        message = MESSAGES["NodeGroup"]() if group is None else _group_message(group)
        return MESSAGES["NodeGroupForNodeResponse"](nodeGroup=message)

    async def _gpu_label(self, request: Any) -> Any:
        return MESSAGES["GPULabelResponse"](label=self._provider.gpu_label)

    async def _gpu_types(self, request: Any) -> Any:
        types = {name: MESSAGES["Any"]() for name in self._provider.list_gpu_types()}
        return MESSAGES["GetAvailableGPUTypesResponse"](gpuTypes=types)

    async def _cleanup(self, request: Any) -> Any:
        """Do nothing: the provider outlives the autoscaler, which may be another replica next."""
        return MESSAGES["CleanupResponse"]()

    async def _refresh(self, request: Any) -> Any:
        self._provider.check_fresh()
        return MESSAGES["RefreshResponse"]()

    async def _target_size(self, request: Any) -> Any:
        size = self._provider.target_size(request.id)
        return MESSAGES["NodeGroupTargetSizeResponse"](targetSize=size)

    async def _increase_size(self, request: Any) -> Any:
        await self._provider.increase_size(request.id, request.delta)
        return MESSAGES["NodeGroupIncreaseSizeResponse"]()

    async def _delete_nodes(self, request: Any) -> Any:
        await self._provider.delete_nodes(request.id, [_handle(node) for node in request.nodes])
        return MESSAGES["NodeGroupDeleteNodesResponse"]()

    async def _decrease_target_size(self, request: Any) -> Any:
        await self._provider.decrease_target_size(request.id, request.delta)
        return MESSAGES["NodeGroupDecreaseTargetSizeResponse"]()

    async def _list_instances(self, request: Any) -> Any:
        instances = map(_instance_message, self._provider.list_instances(request.id))
        return MESSAGES["NodeGroupNodesResponse"](instances=instances)

    async def _template(self, request: Any) -> Any:
        node = encode_node(self._provider.build_template(request.id))
        return MESSAGES["NodeGroupTemplateNodeInfoResponse"](nodeInfo=node, nodeBytes=node)

    async def _options(self, request: Any) -> Any:
        return MESSAGES["NodeGroupAutoscalingOptionsResponse"]()


def _handle(node: Any) -> NodeHandle:
    return NodeHandle(node.name, node.providerID)


def _group_message(group: MachineSet) -> Any:
    limits, spec = limits_of(group), group.spec
    return MESSAGES["NodeGroup"](
        id=group.metadata.name,
        minSize=limits.min_replicas,
        maxSize=limits.max_replicas,
        debug=f"MachineSet {group.metadata.name} of MachineClass {spec.template.spec.class_ref}",
    )


def _instance_message(instance: GroupInstance) -> Any:
    message = MESSAGES["Instance"](id=instance.id)
    message.status.instanceState = instance.state
    if instance.error_code:
        error = message.status.errorInfo
        error.errorCode, error.errorMessage = instance.error_code, instance.error_message
        error.instanceErrorClass = instance.error_class
    return message


class AutoscalerServer:
    """A Part: the server. `port` 0 takes a free one, which `port` then returns.

    files: certificate, key and the authority of the clients. Without a certificate there is no TLS.
    """

    name = "autoscaler server"

    def __init__(
        self,
        provider: AutoscalerProvider,
        metrics: AutoscalerMetrics,
        address: str,
        port: int,
        files: PemFiles,
    ) -> None:
        self._calls, self._metrics = ContractCalls(provider).by_method, metrics
        self._address, self.port, self._files = address, port, files

    async def run(self) -> None:
        """Serve until cancelled. Raises CannotStart."""
        server = grpc.aio.server(options=OPTIONS)
        handlers = {method: self._handler(method) for method in METHODS}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self.port = self._listen(server)
        await server.start()
        log.info("server listens", extra={"address": self._address, "port": self.port})
        try:
            await forever()
        finally:
            await server.stop(GRACE_SECONDS)

    def _listen(self, server: Any) -> int:
        where = f"{self._address}:{self.port}"
        try:
            if self._files.certificate is None:
                port: int = server.add_insecure_port(where)
            else:
                port = server.add_secure_port(where, ServerFiles(self._files).credentials())
        except RuntimeError as error:
            raise CannotStart(
                f"cannot listen on {where}: {error}; choose another {FLAG}"
            ) from error
        return port

    def _handler(self, method: str) -> Any:
        request, response = (MESSAGES[name] for name in message_names(method))

        async def serve_call(message: Any, context: Any) -> Any:
            try:
                answer = await self._calls[method](message)
            except NodeGroupError as error:
                status, why = error.status, str(error)
            except (KubeError, TimeoutError) as error:
                status, why = GroupStatus.UNAVAILABLE, str(error)
            else:
                self._metrics.calls.labels(method, OK).inc()
                return answer
            self._metrics.calls.labels(method, status).inc()
            log.warning("call failed", extra={"method": method, "status": status, "error": why})
            await context.abort(grpc.StatusCode[status], why)

        return grpc.unary_unary_rpc_method_handler(
            serve_call,
            request_deserializer=request.FromString,
            response_serializer=response.SerializeToString,
        )


class ServerFiles:
    """Certificate, key and authority of the clients, read again for each new connection."""

    def __init__(self, files: PemFiles) -> None:
        self._files = files
        self._loaded: tuple[bytes, ...] = ()

    def credentials(self) -> Any:
        """Return credentials that require a client certificate. Raises CannotStart."""
        try:
            self._loaded = self._read()
        except OSError as error:
            raise CannotStart(f"{error.filename}: cannot be read: {error.strerror}") from error
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._loaded), self._renewed, require_client_authentication=True
        )

    def _renewed(self) -> Any:
        """Return the configuration if the files have changed, None to keep the earlier one."""
        try:
            content = self._read()
        except OSError as error:
            log.error("certificate is not read again", extra={"error": str(error)})
            return None
        if content == self._loaded:
            return None
        self._loaded = content
        return _configuration(content)

    def _read(self) -> tuple[bytes, ...]:
        files = self._files.key, self._files.certificate, self._files.client_authorities
        return tuple(Path(file).read_bytes() for file in files if file is not None)


def _configuration(content: tuple[bytes, ...]) -> Any:
    key, certificate, authorities = content
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
