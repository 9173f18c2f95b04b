"""How a credential plugin ends decides whether its answer counts; what it says on stderr is no token."""

from __future__ import annotations

import pytest

from tests.cloud import test_kube_config as configs
from tpuctl.model import errors

home, server = configs.home, configs.server
TOKEN = configs.answer_of({"token": "from-plugin"})


@pytest.mark.parametrize("end", ["exit 1", "exit 2", "exit 126", "exit 127", "kill -9 $$"])
def test_a_token_of_a_plugin_that_failed_is_not_used(server, tmp_path, end):
    """xpk's batches: a negative code counted as success, and stderr was merged into the value."""
    user = configs.plugin(tmp_path, f"cat <<'END'\n{TOKEN}\nEND\n{end}")
    with pytest.raises(errors.NotPermitted, match="credential plugin of the kubeconfig failed") as refused:
        configs.read(configs.kubeconfig(tmp_path, server.url, user), tmp_path)
    assert "from-plugin" not in refused.value.message
    assert server.requests == []


def test_what_a_plugin_says_on_stderr_is_no_part_of_its_answer(server, tmp_path):
    user = configs.plugin(tmp_path, f"echo '{{\"status\": 1}}' >&2\ncat <<'END'\n{TOKEN}\nEND")
    configs.read(configs.kubeconfig(tmp_path, server.url, user), tmp_path)
    assert server.requests[0].headers["authorization"] == "Bearer from-plugin"
