"""The exchanges as data: how a YAML file of scenarios is read, run and compared.

A scenario is a list of steps on one API server:

    title: what is shown
    sim_only: true                    # needs something a real server does not offer
    steps:
      - POST: /api/v1/nodes           # method and path, with query
        body: {...}                   # sent as JSON; `text` sends a string as it is
        type: application/json        # content type
        accept: application/json
        as: admin                     # whose token; `none`, `wrong`
        expect:
          code: 201
          reason: Invalid             # of the Status
          causes: [[FieldValueRequired, spec.topology]]
          headers: {Warning: ...}
          body: {...}                 # what the answer must contain
          text: ...                   # the whole answer, if it is not JSON
        save: {revision: metadata.resourceVersion}
      - GET: /api/v1/nodes?watch=1
        meanwhile: [steps]            # done while the watch is open
        expect:
          lines: [{type: ADDED, object: {...}}]
          ends: true                  # the stream ends by itself after these
      - do: compact
      - advance: 60                   # simulated seconds

`${name}` stands for a saved value, `<any>` for any value, `<absent>` for a field that must not be there;
`FORMS` has words for values of a certain form.
"""

import json
import pathlib
import re

import yaml

HERE = pathlib.Path(__file__).parent
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
TIMEOUT_S = 20
GOOGLE = ("compute-", "gke-")
"""Starts of the names of files about Google's own APIs; all others are about Kubernetes."""
FORMS = {
    "<time>": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]\d\d:\d\d)"),
    "<digits>": re.compile(r"\d+"),
}


def scenarios(*, google=False):
    """(name of the file, scenario) for every scenario beside this file that is about these APIs."""
    for path in sorted(HERE.glob("*.yaml")):
        if path.stem.startswith(GOOGLE) is google:
            for scenario in yaml.safe_load(path.read_text(encoding="utf-8")):
                yield path.stem, scenario


class Runner:
    """Runs the steps of one scenario and remembers what they saved."""

    def __init__(self, cluster, *, saved=None):
        self._cluster = cluster
        self._saved = dict(saved or {})

    def run(self, steps):
        for step in steps:
            self._step(self._filled(step))

    def _step(self, step):
        if "do" in step:
            getattr(self._cluster, step["do"])(*step.get("with", ()))
            return
        if "advance" in step:
            self._cluster.advance(step["advance"])
            return
        method = next(name for name in METHODS if name in step)
        if "lines" in step.get("expect", {}):
            self._watch(step, method)
            return
        answer = self._send(step, method)
        self._save(step, answer)
        self.compare(answer, self._filled(step.get("expect", self.usual(method))))

    def usual(self, method):
        """What is expected of an answer if the step does not say."""
        return {"code": {"POST": 201}.get(method, 200)}

    def compare(self, answer, expected):
        compare(answer, expected)

    def _send(self, step, method, *, stream=False):
        headers = self._cluster.headers(step.get("as", "admin"))
        if "accept" in step:
            headers["Accept"] = step["accept"]
        data = step.get("text")
        if "body" in step:
            data = json.dumps(step["body"])
        if data is not None:
            headers["Content-Type"] = step.get("type", "application/json")
        return self._cluster.session.request(
            method,
            self._cluster.url + step[method],
            data=data,
            headers=headers,
            stream=stream,
            timeout=TIMEOUT_S,
        )

    def _watch(self, step, method):
        expected = step["expect"]
        with self._send(step, method, stream=True) as answer:
            assert answer.status_code == expected.get("code", 200), answer.text
            lines = answer.iter_lines()
            self.run(step.get("meanwhile", ()))
            for wanted in self._filled(expected["lines"]):
                found = json.loads(next(lines))
                problems = list(differences(found, wanted, "line"))
                assert not problems, (problems, found)
            if expected.get("ends"):
                assert list(lines) == []

    def _save(self, step, answer):
        for name, path in step.get("save", {}).items():
            value = answer.json()
            for part in path.split("."):
                value = value[int(part)] if isinstance(value, list) else value[part]
            self._saved[name] = value

    def _filled(self, value):
        """The value with saved names put in; what is not saved yet stays for later."""
        if isinstance(value, dict):
            return {self._filled(name): self._filled(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        if not isinstance(value, str):
            return value
        if (whole := re.fullmatch(r"\$\{(\w+)\}", value)) and whole[1] in self._saved:
            return self._saved[whole[1]]
        return re.sub(r"\$\{(\w+)\}", lambda found: str(self._saved.get(found[1], found[0])), value)


def compare(answer, expected):
    """Assert that an answer is as expected, in all that is named."""
    unknown = expected.keys() - {"code", "reason", "causes", "headers", "body", "text", "message"}
    assert not unknown, f"a scenario expects {unknown}"
    assert answer.status_code == expected.get("code", 200), answer.text
    for name, value in expected.get("headers", {}).items():
        found = answer.headers.get(name, "<absent>")
        assert found.split(";")[0] == value if name == "Content-Type" else found == value
    if "text" in expected:
        assert answer.text.strip() == expected["text"]
        return
    body = answer.json()
    if answer.status_code >= 400:
        compare_status(body, answer.status_code, expected)
    problems = list(differences(body, expected.get("body", {}), "body"))
    assert not problems, (problems, body)


def compare_status(body, code, expected):
    """A refusal is a Status that says the code itself, with the reason and causes expected."""
    assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
    assert body["code"] == code
    assert body["message"]
    assert body.get("reason") == expected["reason"]
    if "message" in expected:
        assert re.search(expected["message"], body["message"]), body["message"]
    # A real server repeats a cause when it validates twice; which causes there are is what counts.
    causes = {(item["reason"], item.get("field", "")) for item in body.get("details", {}).get("causes", ())}
    assert causes == {tuple(item) for item in expected.get("causes", ())}, body


def _has_form(found, wanted):
    """True if `wanted` is the word for a form that the text `found` has."""
    form = FORMS.get(wanted) if isinstance(wanted, str) else None
    return form is not None and isinstance(found, str) and bool(form.fullmatch(found))


def differences(found, wanted, path):
    """Where `found` lacks something of `wanted`; lists must have the same length."""
    if wanted == "<any>" or _has_form(found, wanted):
        return
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name, value in wanted.items():
            if value == "<absent>":
                if name in found:
                    yield f"{path}.{name} is there"
            elif name not in found:
                yield f"{path}.{name} is missing"
            else:
                yield from differences(found[name], value, f"{path}.{name}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        for place, (item, value) in enumerate(zip(found, wanted, strict=True)):
            yield from differences(item, value, f"{path}[{place}]")
    elif found != wanted or type(found) is not type(wanted):
        yield f"{path} is {found!r}, not {wanted!r}"
