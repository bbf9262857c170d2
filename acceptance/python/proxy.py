"""What a Python test asks the proxy itself, past the client under test."""

import time

import httpx2

QUESTION = "Wie lange dauert es?"
ENDLESS = {"ignore_eos": True, "max_tokens": 30000}


class Proxy:
    def __init__(self, base_url, model):
        self.base_url, self.model = base_url, model

    def get(self, path):
        reply = httpx2.get(self.base_url + path)
        reply.raise_for_status()
        return reply.json()

    def running(self):
        """The id of the request that runs."""
        return self.get("/queue")["slots"][0].get("request_id")

    def cancel(self):
        """Cancels what runs, as the operator."""
        return httpx2.delete(f"{self.base_url}/queue/{self.running()}").raise_for_status()

    def ended(self, outcome):
        """Waits until the newest request has ended so."""
        for _ in range(400):
            last = self.get("/usage")["data"][0]["outcome"]
            if last == outcome:
                return
            time.sleep(0.05)
        raise AssertionError(f"the newest request has the outcome {last}, want {outcome}")

    def crowd(self):
        return Crowd(self)


class Crowd:
    """Fills the line, so that the next request is refused, and empties it again with
    the first response that it is told of."""

    def __init__(self, proxy):
        self.seen, self.client = [], httpx2.Client(timeout=60)
        body = {"model": proxy.model, "stream": True, "messages": [{"role": "user", "content": QUESTION}], **ENDLESS}
        request = self.client.build_request("POST", proxy.base_url + "/chat/completions", json=body)
        # A response's head comes once the request has its place.
        self.held = [self.client.send(request, stream=True) for _ in range(proxy.get("/queue")["limit"] + 1)]

    def leave(self, response):
        self.seen.append(response.status_code)
        self.client.close()

    def refused_once(self):
        return self.seen[0] == 429 and self.seen[-1] == 200
