"""What a sarouter service knows, and what its files say, for programs in Python.

Only the standard library is needed. Where pandas is installed, :func:`frame` makes data frames of rows.

>>> from sarouter import Service, frame
>>> service = Service("/var/lib/sarouter/api.sock")
>>> frame(service.jobs())            # a row for each job: nodes, slow-down now and without routes for jobs
>>> frame(service.epochs(last=100))  # a row for each epoch
>>> frame(service.channels())        # a row for each channel between switches, and the jobs' routes on it
"""

from __future__ import annotations

import csv
import http.client
import ipaddress
import json
import os
import socket
import ssl
import urllib.parse
from pathlib import Path
from typing import Any, Iterable, Iterator

__all__ = ["Refused", "Service", "State", "frame", "replay"]

Row = dict[str, Any]


class Refused(Exception):
    """The service answered with an error.

    ``status`` is that of HTTP, ``message`` what the service said.
    """

    def __init__(self, status: int, message: str):
        super().__init__(f"{message} (status {status})")
        self.status = status
        self.message = message


class _Unix(http.client.HTTPConnection):
    """HTTP over the service's socket."""

    def __init__(self, path: str, timeout: float):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _is_near(host: str | None) -> bool:
    """Whether what is sent there does not leave this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _secret(path: str | Path) -> str:
    """What is in a file that belongs to root or to the user of this process, and that nobody else can read."""
    with open(path, encoding="utf-8") as file:
        # Of the open file: what is checked is what is read.
        found = os.fstat(file.fileno())
        if found.st_uid not in (0, os.geteuid()):
            raise ValueError(f"{path}: it is not used: it belongs to user {found.st_uid}")
        if found.st_mode & 0o077:
            raise ValueError(f"{path}: it is not used: its mode is {found.st_mode & 0o777:o}, it must be 600")
        return file.read().strip()


class Service:
    """A running service, asked over its socket or over the network.

    :param where: path of the socket, or ``https://HOST:PORT``; of a service with several fabrics also
        ``https://HOST:PORT/fabrics/NAME``
    :param fabric: which of several fabrics
    :param token_file: file with the token, for the network; only its owner may read it
    :param ca: file with the certificate that the service must show
    :param timeout: seconds that a question waits at most
    :raises ValueError: if a token would be sent in the clear, or others could read or replace its file
    """

    def __init__(self, where: str | Path, token_file: str | Path | None = None, ca: str | Path | None = None,
                 timeout: float = 30.0, fabric: str | None = None):
        self._where = str(where)
        url = urllib.parse.urlsplit(self._where) if "://" in self._where else None
        self._below = url.path.rstrip("/") if url is not None else ""
        if fabric is not None:
            self._below = "/fabrics/" + urllib.parse.quote(fabric, safe="")
        self._timeout = timeout
        self._headers = {"Accept": "application/json"}
        self._tls = None
        if url is not None and url.scheme == "https":
            self._tls = ssl.create_default_context(cafile=None if ca is None else str(ca))
        if token_file is not None:
            if url is not None and self._tls is None and not _is_near(url.hostname):
                raise ValueError(f"{self._where}: the token would be sent in the clear: "
                                 "use https, or http to this machine only")
            self._headers["Authorization"] = "Bearer " + _secret(token_file)

    def _connection(self) -> http.client.HTTPConnection:
        if "://" not in self._where:
            return _Unix(self._where, self._timeout)
        url = urllib.parse.urlsplit(self._where)
        if url.scheme not in ("http", "https") or url.hostname is None:
            raise ValueError(f"{self._where}: neither a socket nor http(s)://HOST:PORT")
        if self._tls is not None:
            return http.client.HTTPSConnection(url.hostname, url.port, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(url.hostname, url.port, timeout=self._timeout)

    def ask(self, path: str, body: Any = None, **query: Any) -> Any:
        """The answer to ``GET path``, or with a body to ``POST path``.

        :raises Refused: if the service answers with an error
        :raises OSError: if it does not answer
        """
        query = {key: value for key, value in query.items() if value is not None}
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = dict(self._headers)
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body)
        connection = self._connection()
        try:
            connection.request("GET" if body is None else "POST", self._below + path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            try:
                message = json.loads(text)["error"]
            except (ValueError, KeyError, TypeError):
                message = answer.reason
            raise Refused(answer.status, message)
        return json.loads(text)

    def health(self) -> Row:
        """Whether all is well, and the troubles if not."""
        return self.ask("/v1/health")

    def epochs(self, last: int | None = None) -> list[Row]:
        """Epochs, oldest first: when, why, slow-down before, after and without jobs.

        :param last: so many, the newest; usually as many as the service tells at once
        """
        return self.ask("/v1/epochs", limit=last)["epochs"]

    def epoch(self, number: int | str = "current") -> Row:
        """Plan and report of an epoch."""
        return self.ask(f"/v1/epochs/{number}")

    def jobs(self) -> list[Row]:
        """Jobs of the newest look. Figures of a job in fields of their own, such as ``now_slowdown``."""
        none = dict.fromkeys(("slowdown", "max", "links"))
        jobs = self.ask("/v1/jobs")["jobs"]
        for job, when in ((job, when) for job in jobs for when in ("now", "before")):
            job[when] = none | (job.get(when) or {})
        return [_flat(job) for job in jobs]

    def fabric(self) -> Row:
        """Switches, cables, and where to draw them."""
        return self.ask("/v1/fabric")

    def channels(self, epoch: int | None = None, job: str | int | None = None) -> list[Row]:
        """Channels between switches with the jobs' routes on them, in this epoch and in the one before.

        :param job: routes of this job alone
        """
        fabric = self.fabric()
        names = fabric["names"]
        load = self.ask("/v1/load", epoch=epoch, job=job)
        rows = []
        for cable, (a, b) in enumerate(fabric["cables"]):
            for channel, source, target in ((2 * cable, a, b), (2 * cable + 1, b, a)):
                rows.append({
                    "channel": channel,
                    "from": names[source],
                    "to": names[target],
                    "now": load["now"][channel],
                    "before": None if load["before"] is None else load["before"][channel],
                })
        return rows

    def node(self, name: str) -> Row:
        """Where a node is attached, and its jobs."""
        return self.ask("/v1/nodes/" + urllib.parse.quote(name, safe=""))

    def order(self, job: str | int) -> Row:
        """The order of ranks that was found for a job."""
        return self.ask(f"/v1/jobs/{urllib.parse.quote(str(job), safe='')}/order")

    def plan(self, jobs: str) -> Row:
        """What the service would do if these jobs ran: lines of job, host list and, if it is known, pattern."""
        return self.ask("/v1/plan", {"jobs": jobs})


class State:
    """The state directory of a service: what is there when no service runs."""

    def __init__(self, directory: str | Path = "/var/lib/sarouter"):
        self.directory = Path(directory)

    def current(self) -> int | None:
        """The epoch in force."""
        link = self.directory / "current"
        return int(link.readlink().name) if link.is_symlink() else None

    def epochs(self) -> list[int]:
        """Epochs that are kept, ascending."""
        names = (entry.name for entry in (self.directory / "epochs").glob("*"))
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def plan(self, epoch: int) -> Row:
        """What was planned, for which jobs."""
        return self._read(epoch, "plan.json")

    def report(self, epoch: int) -> Row:
        """Its figures and the checker's verdict."""
        return self._read(epoch, "report.json")

    def _read(self, epoch: int, name: str) -> Row:
        with open(self.directory / "epochs" / f"{epoch:06}" / name, encoding="utf-8") as file:
            return json.load(file)


def replay(directory: str | Path) -> list[Row]:
    """The time series of ``sarouter replay --out DIRECTORY``: a row for each placement, moment and engine.

    Numbers are numbers; what an engine has no figure for is ``None``.
    """
    with open(Path(directory) / "series.csv", encoding="utf-8", newline="") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None


def frame(rows: Iterable[Row]) -> Any:
    """A pandas data frame of rows.

    :raises ImportError: without pandas
    """
    import pandas

    return pandas.DataFrame.from_records(list(rows))


def _flat(row: Row) -> Row:
    """Figures inside a row, as fields of it."""
    return dict(_fields(row, ""))


def _fields(row: Row, before: str) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _fields(value, f"{before}{key}_")
        else:
            yield before + key, value
