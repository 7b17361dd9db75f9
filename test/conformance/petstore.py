"""A petstore in Python that implements the specification and nothing else."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qs, urlsplit

STATUSES = ("available", "pending", "sold")
key, port = sys.argv[1:]
pets, lock = [], Lock()


def is_int64(value):
    return type(value) is int and -(2**63) <= value < 2**63


def is_draft(value):
    return (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and is_int64(value.get("categoryId"))
        and ("status" not in value or value["status"] in STATUSES)
    )


class Petstore(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def respond(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fail(self, status, code, message):
        self.respond(status, {"code": code, "message": message, "status": status})

    def is_authorized(self):
        if self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.fail(401, "unauthorized", "Send a key.")
        return False

    def do_GET(self):
        if not self.is_authorized():
            return
        url = urlsplit(self.path)
        if url.path == "/v1/pets":
            query = parse_qs(url.query)
            limit = int(query.get("limit", ["20"])[0])
            status = query.get("status", [None])[0]
            found = [pet for pet in pets if status is None or pet.get("status") == status]
            return self.respond(200, found[: min(limit, 100)])
        pet_id = url.path.removeprefix("/v1/pets/")
        if pet_id.isdecimal() and 1 <= int(pet_id) <= len(pets):
            return self.respond(200, pets[int(pet_id) - 1])
        self.fail(404, "not_found", "There is no such pet.")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.is_authorized():
            return
        try:
            draft = json.loads(body)
        except ValueError:
            return self.fail(400, "invalid_json", "Send JSON.")
        if not is_draft(draft):
            return self.fail(400, "invalid_body", "Send name, categoryId and perhaps status.")
        fields = {name: draft[name] for name in ("name", "categoryId", "status") if name in draft}
        with lock:
            pet = {"id": len(pets) + 1, **fields}
            pets.append(pet)
        self.respond(201, pet)

    def log_message(self, *_):
        pass


ThreadingHTTPServer.request_queue_size = 64
ThreadingHTTPServer(("127.0.0.1", int(port)), Petstore).serve_forever()
