"""A schema registry in this process, which speaks Confluent's REST and can be away, or refuse.

It knows what clients of confluent-kafka ask: schemas by number, versions of a subject,
registrations, and the kinds that there are. It judges nothing, so hostile schemas can be put in.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

Answer = tuple[int, Any]


@dataclass
class RegistryDouble:
    """What is registered.

    Attributes:
        schemas: By number, as the registry answers.
        versions: By subject the numbers of its versions, the first one first.
        asked: Paths that were asked for.
        away: An HTTP status that everything is answered with; None: it is well.
        authorization: The header that a client must send; None: none.
        url: Where it answers.
        serializes: Whether it gives schemas of Protobuf in another form than as texts.
    """

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    away: int | None = None
    authorization: str | None = None
    url: str = ""
    serializes: bool = True

    def add(
        self,
        schema: Any,
        kind: str = "AVRO",
        subject: str = "",
        references: Sequence[Mapping[str, Any]] = (),
        **more: Any,
    ) -> int:
        """Registers a schema, as JSON or as text, and returns its number.

        One of Protobuf is its compiled file in base64, which is what who asks for it so gets.
        """
        text = schema if isinstance(schema, str) else json.dumps(schema)
        number = len(self.schemas) + 1
        self.schemas[number] = {
            "schema": text,
            **({} if kind == "AVRO" else {"schemaType": kind}),
            **({"references": list(references)} if references else {}),
            **more,
        }
        self.versions.setdefault(subject or f"subject-{number}", []).append(number)
        return number

    def answer(self, method: str, path: str, body: Any) -> Answer:
        match (method, *path.strip("/").split("/")):
            case ("GET", "schemas", "types"):
                return 200, ["AVRO", "JSON", "PROTOBUF"]
            case ("GET", "schemas", "ids", number) if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case ("GET", "schemas", "ids", _):
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case ("GET", "subjects", subject, "versions", version):
                numbers = self.versions.get(unquote(subject), [])
                if not 0 < int(version) <= len(numbers):
                    return 404, {"error_code": 40402, "message": "Version not found"}
                number = numbers[int(version) - 1]
                named = {"subject": unquote(subject), "version": int(version), "id": number}
                return 200, {**named, **self.schemas[number]}
            case ("POST", "subjects", subject, "versions"):
                kind, references = body.get("schemaType", "AVRO"), body.get("references") or []
                number = self.add(body["schema"], kind, unquote(subject), references)
                return 200, {"id": number, **body}
        return 404, "no such path"


@contextmanager
def registry_double(tls: Path | None = None) -> Iterator[RegistryDouble]:
    """Runs a registry that is empty; over TLS where a file has its key and certificate."""
    double = RegistryDouble()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            path, query = urlsplit(self.path).path, urlsplit(self.path).query
            double.asked.append(path)
            if double.away is not None:
                status, told = double.away, {"error_code": double.away * 100, "message": "away"}
            elif double.authorization not in (None, self.headers["Authorization"]):
                status, told = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                status, told = double.answer(self.command, path, body)
                is_text = "format=serialized" not in query or not double.serializes
                if isinstance(told, dict) and is_text and told.get("schemaType") == "PROTOBUF":
                    told = {**told, "schema": "message Event {}"}  # which needs a compiler
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        double.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield double
        finally:
            server.shutdown()
