"""Which Kubernetes server, and with which credentials.

A kubeconfig (the context's, or the library's search order), else the service account of the pod that tpuctl
runs in. In a kubeconfig the entry of the context's own cluster is used, never just the current one.
`endpoint_kubernetes` of the context replaces the server; without a kubeconfig, its token file is the
credential. The library reads all of this, credential plugins included; the file is never written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import kube_errors, parallel
from tpuctl.model import errors
from tpuctl.ops import context as context_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubernetes import client

T = TypeVar("T")

PLUGIN_TIMEOUT_S = 60.0
"""Real seconds for everything that a credential plugin does, a person's sign-in included."""
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


def load(context: context_module.Context) -> client.ApiClient:
    """A client whose credentials are loaded, with the library's own retries off.

    Raises UsageError for a missing or damaged kubeconfig, NotPermitted if there are no credentials or the
    plugin for them failed.
    """
    from kubernetes import client  # noqa: PLC0415 - slow to import

    configuration: Any = client.Configuration()
    if context.endpoint_kubernetes is not None and context.kubeconfig is None:
        _use_token_file(configuration, context)
    elif context.kubeconfig is None and _IN_CLUSTER in os.environ and not _has_kubeconfig():
        _use_service_account(configuration)
    else:
        _use_kubeconfig(configuration, context)
    if context.endpoint_kubernetes is not None:
        configuration.host = context.endpoint_kubernetes.rstrip("/")
    if context_module.is_loopback(configuration.host):
        configuration.proxy = None
    # urllib3 takes False for "never": one retry policy, in one place.
    configuration.retries = False
    return client.ApiClient(configuration)


def authorization(configuration: Any) -> dict[str, str]:
    """The headers that carry the credentials; the library asks a plugin again when they have expired.

    Raises NotPermitted if the plugin fails.
    """
    with _heard() as ear:
        settings = _in_time(ear.during(configuration.auth_settings))
    found = {
        str(setting["key"]): str(setting["value"])
        for setting in settings.values()
        if setting.get("in") == "header" and setting.get("value")
    }
    if ear.words:
        raise _plugin_failed(ear.words)
    if configuration.api_key and not found:
        # Version 36.0.0 of the library loses the header without a word (kubernetes-client/python #2582).
        raise errors.NotPermitted(
            "the installed kubernetes library does not send the credentials of the kubeconfig",
            hint="install another version: pip install 'kubernetes!=36.0.0'",
        )
    return found


def _use_kubeconfig(configuration: Any, context: context_module.Context) -> None:
    import yaml  # noqa: PLC0415 - comes with kubernetes.config, which is slow to import

    config = _library()
    where = context.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    path = os.path.expanduser(context.kubeconfig) if context.kubeconfig else None  # noqa: PTH111 - may be a list
    if path is not None and not pathlib.Path(path).is_file():
        raise errors.UsageError(f"kubeconfig {path} does not exist", hint=_hint(context))

    def read() -> None:
        config.load_kube_config(
            config_file=path,
            context=context.kubeconfig_name,
            client_configuration=configuration,
            persist_config=False,
        )

    try:
        with _heard() as ear:
            _in_time(ear.during(read))
    except (config.ConfigException, yaml.YAMLError, UnicodeDecodeError) as error:
        raise errors.UsageError(
            f"kubeconfig {where}: {cloud_errors.clean(error)}", hint=_hint(context)
        ) from error
    except OSError as error:
        raise errors.UsageError(f"kubeconfig {where} cannot be read: {error.strerror}") from error
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise errors.UsageError(f"kubeconfig {where} is damaged: {cloud_errors.clean(error)}") from error
    if ear.words:
        raise _plugin_failed(ear.words)


def _hint(context: context_module.Context) -> str:
    return f"write one with: {kube_errors.credentials_command(context)}"


def _library() -> Any:
    """kubernetes.config, whose functions have no types."""
    from kubernetes import config  # noqa: PLC0415 - slow to import

    return config


def _has_kubeconfig() -> bool:
    """If true, there is a file in the library's search order; its own constant is read at import."""
    listed = os.environ.get("KUBECONFIG") or "~/.kube/config"
    return any(pathlib.Path(part).expanduser().is_file() for part in listed.split(os.pathsep) if part)


def _use_service_account(configuration: Any) -> None:
    config = _library()
    try:
        config.incluster_config.InClusterConfigLoader(
            token_filename=config.incluster_config.SERVICE_TOKEN_FILENAME,
            cert_filename=config.incluster_config.SERVICE_CERT_FILENAME,
        ).load_and_set(configuration)
    except config.ConfigException as error:
        raise errors.NotPermitted(f"no service account in this pod: {cloud_errors.clean(error)}") from error


def _use_token_file(configuration: Any, context: context_module.Context) -> None:
    if context.token_file is not None:
        configuration.api_key["authorization"] = f"Bearer {read_token(context.token_file)}"
        # Versions differ in which of the two names they look up.
        configuration.api_key["BearerToken"] = configuration.api_key["authorization"]


def read_token(path: str) -> str:
    """The token in a file, without the line end; raises NotPermitted if there is none."""
    try:
        token = pathlib.Path(path).expanduser().read_text(encoding="ascii").strip()
    except OSError as error:
        raise errors.NotPermitted(f"token file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise errors.NotPermitted(f"token file {path} holds no token") from error
    if not token or not token.isprintable() or " " in token:
        raise errors.NotPermitted(f"token file {path} holds no token")
    return token


def _in_time(call: Callable[[], T]) -> T:
    """The result of `call`, which may run a credential plugin; the library waits for one without limit."""
    try:
        return parallel.run_all([call], timeout_s=PLUGIN_TIMEOUT_S)[0]
    except TimeoutError as error:
        raise errors.NotPermitted(
            f"the credential plugin of the kubeconfig gave no answer in {PLUGIN_TIMEOUT_S:.0f} s",
            hint="run its command by hand",
        ) from error


class _Ear(logging.Handler):
    """Collects what the loader of kubeconfigs logs at error level during one call."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.words: list[str] = []
        self._thread: int | None = None

    def during(self, call: Callable[[], T]) -> Callable[[], T]:
        """The same call, listened to in the thread that makes it.

        Others may log at the same time: a plugin that was given up on fails in a thread of its own, later.
        """

        def heard() -> T:
            self._thread = threading.get_ident()
            return call()

        return heard

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread and record.module in ("kube_config", "exec_provider"):
            self.words.append(record.getMessage())


@contextlib.contextmanager
def _heard() -> Iterator[_Ear]:
    """What the library logs inside: it reports a failing plugin to the root logger only and goes on without.

    A handler must be there in any case, or its call of `logging.error` would install one on stderr.
    """
    ear = _Ear()
    root = logging.getLogger()
    root.addHandler(ear)
    try:
        yield ear
    finally:
        root.removeHandler(ear)


def _plugin_failed(words: list[str]) -> errors.NotPermitted:
    return errors.NotPermitted(
        f"the credential plugin of the kubeconfig failed: {cloud_errors.clean('; '.join(words))}",
        hint="run its command by hand; for GKE: gcloud components install gke-gcloud-auth-plugin",
    )
