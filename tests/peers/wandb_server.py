"""A server that takes what `wandb sync` uploads, as far as that needs: wandb_server.py PORT FILE

Every row of the history that arrives is written to FILE as a JSON line with the run's name.
"""
import gzip
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, content, status=200):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def do_GET(self):
        self.answer({})

    def do_PUT(self):
        self.body()
        self.answer({})

    def do_POST(self):
        body = self.body()
        stream = re.match(r"/files/([^/]+)/([^/]+)/([^/]+)/file_stream", self.path)
        if stream:
            content = json.loads(body)
            file = content.get("files", {}).get("wandb-history.jsonl", {})
            with open(sys.argv[2], "a", encoding="utf-8") as out:
                for line in file.get("content", []):
                    out.write(json.dumps({"run": stream[3], "row": json.loads(line)}) + "\n")
                if content.get("complete"):
                    out.write(json.dumps({"run": stream[3], "exit": content.get("exitcode")}) + "\n")
            return self.answer({"exitcode": None, "limits": {}})
        try:
            request = json.loads(body or b"{}")
        except ValueError:
            return self.answer({})  # telemetry
        query, variables = request.get("query", ""), request.get("variables", {})
        name = variables.get("name") or "run"
        project = {"name": variables.get("project") or "p", "entity": {"name": "me"}}
        bucket = {"id": name, "name": name, "displayName": name, "config": "{}", "sweepName": None, "project": project,
                  "historyLineCount": 0, "logLineCount": 0, "eventsLineCount": 0, "history": "[]", "events": "[]",
                  "historyTail": "[]", "eventsTail": "[]", "summaryMetrics": "{}", "tags": [], "files": {"edges": []},
                  "wandbConfig": "{}"}
        if "upsertBucket" in query:
            return self.answer({"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}})
        if "serverInfo" in query or "QueryType" in query or "__type" in query or "__schema" in query:
            return self.answer({"data": {"serverInfo": {"cliVersionInfo": {}, "latestLocalVersionInfo": None, "features": []},
                                         "QueryType": {"fields": []}, "MutationType": {"fields": []},
                                         "ServerInfoType": {"fields": []}, "__type": {"fields": [], "inputFields": []},
                                         "__schema": {"types": []}}})
        if "createRunFiles" in query:
            return self.answer({"data": {"createRunFiles": {"runID": name, "uploadHeaders": [], "files": []}}})
        if "viewer" in query:
            viewer = {"id": "me", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}, "apiKeys": {"edges": []}}
            return self.answer({"data": {"viewer": viewer}})
        if "model" in query or "project" in query:
            return self.answer({"data": {"model": {"bucket": None, "name": "p", "entityName": "me"}, "project": None}})
        return self.answer({"data": {}})


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
