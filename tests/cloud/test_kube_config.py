"""Where credentials come from, and what happens when they do not come."""

from __future__ import annotations

import dataclasses
import json
import logging
import stat
import types

import pytest

from tests.cloud import scripted
from tpuctl.cloud import kube as kube_module
from tpuctl.cloud import kube_config, kube_errors
from tpuctl.model import errors

SERVER_LIST = {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No kubeconfig and no pod of this machine reaches a test."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.fixture
def server():
    with scripted.Server(lambda _: scripted.Reply(200, SERVER_LIST)) as running:
        yield running


def kubeconfig(directory, url, user, *, name="config"):
    path = directory / name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u"}},
            {"name": "nobody", "context": {"cluster": "c", "user": "missing"}},
        ],
        "current-context": "main",
    }
    path.write_text(json.dumps(document))
    return path


def plugin(directory, script):
    """A credential plugin that is a shell script."""
    path = directory / "plugin.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": str(path),
            "interactiveMode": "Never",
        }
    }


def answer_of(status):
    return json.dumps(
        {"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": status}
    )


def read(path, directory, **changes):
    changes = {
        "endpoint_kubernetes": None,
        "kubeconfig": str(path) if path else None,
        "kubeconfig_context": "main",
    } | changes
    kube = kube_module.Kube(
        scripted.context("http://127.0.0.1:1", directory, **changes), scripted.FakeClock()
    )
    return kube.listing("/api/v1/nodes", lambda item: item, what="list nodes")


def test_a_token_of_a_kubeconfig(server, tmp_path):
    read(kubeconfig(tmp_path, server.url, {"token": "from-config"}), tmp_path)
    assert server.requests[0].headers["authorization"] == "Bearer from-config"


def test_a_named_context(server, tmp_path):
    path = kubeconfig(tmp_path, server.url, {"token": "from-config"})
    read(path, tmp_path, kubeconfig_context="nobody")
    assert "authorization" not in server.requests[0].headers


def test_the_endpoint_replaces_the_server_and_keeps_the_credentials(server, tmp_path):
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "from-config"})
    read(path, tmp_path, endpoint_kubernetes=server.url)
    assert server.requests[0].headers["authorization"] == "Bearer from-config"


def test_the_librarys_search_order(server, tmp_path, monkeypatch):
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", server.url, {"token": "from-home"})
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / ".kube" / "config")
    )
    read(None, tmp_path)
    assert server.requests[0].headers["authorization"] == "Bearer from-home"


def test_basic_credentials(server, tmp_path):
    read(kubeconfig(tmp_path, server.url, {"username": "u", "password": "p"}), tmp_path)
    assert server.requests[0].headers["authorization"] == "Basic dTpw"


def test_a_plugin_gives_the_token(server, tmp_path):
    user = plugin(tmp_path, f"echo '{answer_of({'token': 'from-plugin'})}'")
    read(kubeconfig(tmp_path, server.url, user), tmp_path)
    assert server.requests[0].headers["authorization"] == "Bearer from-plugin"


def test_a_plugin_is_asked_again_when_its_token_has_expired(server, tmp_path):
    # Each call of the plugin leaves a mark, and its number is in the token.
    script = (
        f"echo x >> {tmp_path}/calls; n=$(wc -l < {tmp_path}/calls | tr -d ' ')\n"
        f"echo '{answer_of({'token': 'NUMBER', 'expirationTimestamp': '2020-01-01T00:00:00Z'})}'"
        " | sed s/NUMBER/call-$n/"
    )
    read(kubeconfig(tmp_path, server.url, plugin(tmp_path, script)), tmp_path)
    assert server.requests[0].headers["authorization"] == "Bearer call-2"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo you shall not pass >&2; exit 3", "returned 3"),
        ("echo this is no JSON", "decode"),
        ("echo '{}'", "missing"),
        (f"echo '{answer_of({})}'", "missing token"),
    ],
)
def test_a_plugin_that_fails_is_one_clear_error(server, tmp_path, script, words, capfd):
    path = kubeconfig(tmp_path, server.url, plugin(tmp_path, script))
    with pytest.raises(errors.NotPermitted) as caught:
        read(path, tmp_path)
    assert "credential plugin" in caught.value.message
    assert words in caught.value.message
    assert server.requests == [], "nothing is sent without credentials"
    assert capfd.readouterr() == ("", "")


def test_a_plugin_that_is_not_installed(server, tmp_path):
    user = plugin(tmp_path, "true")
    user["exec"]["command"] = "no-such-plugin-here"
    with pytest.raises(errors.NotPermitted, match="no-such-plugin-here"):
        read(kubeconfig(tmp_path, server.url, user), tmp_path)


def test_a_plugin_that_never_answers(server, tmp_path, monkeypatch):
    monkeypatch.setattr(kube_config, "PLUGIN_TIMEOUT_S", 0.05)
    path = kubeconfig(tmp_path, server.url, plugin(tmp_path, "exec sleep 1"))
    with pytest.raises(errors.NotPermitted, match="gave no answer"):
        read(path, tmp_path)


def test_one_that_was_given_up_on_does_not_spoil_what_is_read_after_it(server, tmp_path, monkeypatch):
    """It goes on in a thread of its own, and fails there while another file is read."""
    slow = kubeconfig(tmp_path, server.url, plugin(tmp_path, "exec sleep 0.5"))
    with monkeypatch.context() as hasty:
        hasty.setattr(kube_config, "PLUGIN_TIMEOUT_S", 0.05)
        with pytest.raises(errors.NotPermitted, match="gave no answer"):
            read(slow, tmp_path)
    (tmp_path / "later").mkdir()
    answer = answer_of({"token": "t"})
    later = plugin(tmp_path / "later", f"sleep 1; echo '{answer}'")
    read(kubeconfig(tmp_path / "later", server.url, later), tmp_path)


def test_a_plugins_words_of_another_logger_are_not_taken_for_its_failure(server, tmp_path):
    user = plugin(tmp_path, f"echo '{answer_of({'token': 't'})}'")
    logging.getLogger("elsewhere").error("not the plugin")
    read(kubeconfig(tmp_path, server.url, user), tmp_path)
    assert logging.getLogger().handlers == [
        handler for handler in logging.getLogger().handlers if not isinstance(handler, kube_config._Ear)
    ]


def test_the_kubeconfig_is_never_written(server, tmp_path):
    user = plugin(
        tmp_path, f"echo '{answer_of({'token': 'x', 'expirationTimestamp': '2020-01-01T00:00:00Z'})}'"
    )
    path = kubeconfig(tmp_path, server.url, user)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    read(path, tmp_path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"a: b", b"\xff\xfe", b"clusters: 7", b"users: [7]", b"current-context: x"]
)
def test_a_damaged_kubeconfig_is_one_clear_error(tmp_path, content):
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(errors.UsageError, match="kubeconfig"):
        read(path, tmp_path)


def test_a_missing_kubeconfig(tmp_path):
    with pytest.raises(errors.UsageError, match="does not exist"):
        read(tmp_path / "nowhere", tmp_path)


def test_no_kubeconfig_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "nowhere")
    )
    with pytest.raises(errors.UsageError, match="kubeconfig"):
        read(None, tmp_path)


def test_the_entry_of_the_contexts_own_cluster_is_used_and_never_just_the_current_one(server, tmp_path):
    """A tool that acts on whatever kubectl points at deletes the slices of another cluster."""
    path = kubeconfig(tmp_path, server.url, {"token": "t"})
    with pytest.raises(errors.UsageError, match="gke_p1_us-central1_c1"):
        read(path, tmp_path, kubeconfig_context=None)
    document = json.loads(path.read_text())
    document["contexts"][0]["name"] = scripted.context(server.url, tmp_path).kubeconfig_name
    path.write_text(json.dumps(document))
    read(path, tmp_path, kubeconfig_context=None)
    assert [request.path for request in server.requests] == ["/api/v1/nodes"]


def test_an_unknown_kubeconfig_context(server, tmp_path):
    path = kubeconfig(tmp_path, server.url, {"token": "t"})
    with pytest.raises(errors.UsageError, match="nope"):
        read(path, tmp_path, kubeconfig_context="nope")


def test_a_pod_without_a_service_account(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(tmp_path / "none"))
    with pytest.raises(errors.NotPermitted, match="service account"):
        read(None, tmp_path)


def test_the_service_account_of_a_pod(tmp_path, monkeypatch):
    (tmp_path / "sa-token").write_text("from-pod")
    (tmp_path / "ca.crt").write_text("a certificate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    where = "kubernetes.config.incluster_config.SERVICE"
    monkeypatch.setattr(f"{where}_TOKEN_FILENAME", str(tmp_path / "sa-token"))
    monkeypatch.setattr(f"{where}_CERT_FILENAME", str(tmp_path / "ca.crt"))
    configuration = types.SimpleNamespace(api_key={})
    kube_config._use_service_account(configuration)
    assert configuration.host == "https://10.0.0.1:443"
    assert list(configuration.api_key.values()) == ["bearer from-pod"]


def test_a_client_that_loses_the_header_is_found_out():
    broken = types.SimpleNamespace(api_key={"authorization": "Bearer t"}, auth_settings=dict)
    with pytest.raises(errors.NotPermitted, match="does not send the credentials"):
        kube_config.authorization(broken)


@pytest.mark.parametrize("content", [b"", b"\n", b"two words\n", b"caf\xc3\xa9"])
def test_token_files_that_hold_no_token(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(errors.NotPermitted, match="token file"):
        kube_config.read_token(str(path))


def test_a_missing_token_file(tmp_path):
    with pytest.raises(errors.NotPermitted, match="cannot be read"):
        kube_config.read_token(str(tmp_path / "none"))


def test_a_proxy_is_not_used_for_this_machine(server, tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    read(kubeconfig(tmp_path, server.url, {"token": "t"}), tmp_path)
    assert len(server.requests) == 1


def test_the_hint_for_credentials_can_be_run(tmp_path):
    given = scripted.context("http://127.0.0.1:1", tmp_path)
    given = dataclasses.replace(
        given, project="p1", location="us-central1", cluster="c1", kubeconfig="/k/a b"
    )
    assert kube_errors.credentials_command(given) == (
        "KUBECONFIG='/k/a b' gcloud container clusters get-credentials c1 --location=us-central1 --project=p1"
    )
    with pytest.raises(errors.UsageError) as missing:
        kube_config.load(given)
    assert missing.value.hint == f"write one with: {kube_errors.credentials_command(given)}"
    plain = dataclasses.replace(given, kubeconfig=None)
    assert kube_errors.credentials_command(plain).startswith("gcloud container clusters get-credentials c1 ")
