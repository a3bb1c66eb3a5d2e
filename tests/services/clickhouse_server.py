"""ClickHouse in this process, behind as much of its HTTP interface as tests need: /ping; a query in the URL, in the body
or in both; GET changes nothing; formats by FORMAT or default_format; errors with their code and status."""

import http.server
import re
import signal
import sys
import threading
import types
import urllib.parse

# The module imports it for results that nobody here asks for.
sys.modules["pyarrow"] = types.SimpleNamespace(RecordBatchReader=None)
from chdb import session  # noqa: E402

PORT, DATA, CONFIG = int(sys.argv[1]), sys.argv[2], sys.argv[3]
READS = re.compile(r"\s*(SELECT|WITH|SHOW|DESCRIBE|DESC|EXISTS|EXPLAIN)\b", re.IGNORECASE)
FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
TYPES = {
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
}
# Of the codes that the server answers with something else than 500, those that a test may meet.
STATUS = {47: 404, 60: 404, 81: 404, 62: 400, 36: 400, 41: 400, 46: 404, 164: 500}


class Door(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "ClickHouse", ""
    timeout = 30

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/ping":
            return self.answer(200, b"Ok.\n", {})
        return self.run(url, "", reads_only=True)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        return self.run(urllib.parse.urlsplit(self.path), body, reads_only=False)

    def run(self, url, body, reads_only):
        parameters = dict(urllib.parse.parse_qsl(url.query))
        sql = "\n".join(part for part in (parameters.get("query", ""), body) if part)
        if not sql.strip():
            return self.refuse("Code: 62. DB::Exception: Syntax error: Empty query. (SYNTAX_ERROR)")
        if reads_only and not READS.match(sql):
            return self.refuse("Code: 164. DB::Exception: Cannot execute query in readonly mode. (READONLY)")
        named = FORMAT.search(sql)
        form = named[1] if named else parameters.get("default_format", "TabSeparated")
        try:
            with LOCK:
                found = ENGINE.query(sql, form).bytes()
        except Exception as error:  # whatever the engine says is its answer
            return self.refuse(str(error))
        json = "application/json; charset=UTF-8" if form.startswith("JSON") else "text/plain; charset=UTF-8"
        return self.answer(200, found, {"Content-Type": TYPES.get(form, json), "X-ClickHouse-Format": form})

    def refuse(self, text):
        code = re.search(r"Code: (\d+)", text)
        code = int(code[1]) if code else 1002
        headers = {"Content-Type": "text/plain; charset=UTF-8", "X-ClickHouse-Exception-Code": str(code)}
        self.answer(STATUS.get(code, 500), text.encode() + b"\n", headers)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def stop(*_):
    threading.Thread(target=SERVER.shutdown).start()


LOCK = threading.Lock()
ENGINE = session.Session(f"{DATA}?config-file={CONFIG}")
SERVER = Server(("127.0.0.1", PORT), Door)
for name in (signal.SIGTERM, signal.SIGINT):
    signal.signal(name, stop)
SERVER.serve_forever()
with LOCK:
    ENGINE.close()
