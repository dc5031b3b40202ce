"""Against a running service: test_service.py SOCKET STATE REPLAY. Started by tests/it/python.rs."""

import http.client
import os
import sys
import tempfile
import unittest

from sarouter import Refused, Service, State, replay

SOCKET, STATE, REPLAY = sys.argv[1:4]


class Running(unittest.TestCase):
    """A service with jobs 1 on n1, n5 and n9, and 2 on n2 and n6."""

    def setUp(self):
        self.service = Service(SOCKET)

    def test_jobs_and_epochs_are_rows(self):
        self.assertTrue(self.service.health()["healthy"])
        jobs = self.service.jobs()
        self.assertEqual([job["id"] for job in jobs], ["1", "2"])
        self.assertGreaterEqual(jobs[0]["now_slowdown"], 1.0)
        self.assertIn("before_slowdown", jobs[0])
        self.assertEqual(State("/nonexistent").epochs(), [])
        epochs = self.service.epochs()
        self.assertEqual(epochs[-1]["epoch"], State(STATE).current())
        self.assertEqual(self.service.epochs(last=1), epochs[-1:])
        self.assertEqual(self.service.epoch()["plan"], State(STATE).plan(epochs[-1]["epoch"]))
        self.assertTrue(State(STATE).report(State(STATE).epochs()[-1])["verdict"]["accepted"])

    def test_channels_carry_the_routes_of_jobs(self):
        channels = self.service.channels()
        self.assertEqual([row["channel"] for row in channels], list(range(len(channels))))
        of_jobs = [sum(row["now"] for row in self.service.channels(job=job)) for job in (1, 2)]
        # Two hops between leaves, for each pair of hosts, both ways; a channel's figure may be more than one job's.
        self.assertEqual(of_jobs, [3 * 2 * 2, 2 * 1 * 2])
        self.assertEqual({row["from"] for row in channels}, set(self.service.fabric()["names"]))

    def test_questions(self):
        self.assertEqual(self.service.node("n1")["jobs"], ["1"])
        self.assertEqual(self.service.plan("9 n[3,7,11]")["jobs"], 1)
        with self.assertRaises(Refused) as refused:
            self.service.node("nowhere")
        self.assertEqual(refused.exception.status, 404)
        self.assertEqual(self.service.plan("9 nobody")["unknown_nodes"], ["nobody"])
        with self.assertRaises(Refused) as refused:
            self.service.plan("9 n[3-")
        self.assertEqual(refused.exception.status, 400)
        self.assertIn("n[3-", refused.exception.message)

    def test_a_token_stays_secret(self):
        with tempfile.NamedTemporaryFile("w") as token:
            token.write("secret\n")
            token.flush()
            for where in ("http://manager1:6830", "HTTP://10.0.0.7:6830", "http://127.0.0.1.example:6830"):
                with self.assertRaisesRegex(ValueError, "in the clear"):
                    Service(where, token_file=token.name)
                Service(where)
            for where in ("https://manager1:6830", "HTTPS://manager1:6830"):
                kept = Service(where, token_file=token.name)
                self.assertIsInstance(kept._connection(), http.client.HTTPSConnection)
                self.assertEqual(kept._headers["Authorization"], "Bearer secret")
            for where in ("http://localhost:6830", "http://127.0.0.1:6830", "http://[::1]:6830", SOCKET):
                Service(where, token_file=token.name)
            for mode in (0o640, 0o604, 0o620):
                os.chmod(token.name, mode)
                with self.assertRaisesRegex(ValueError, f"its mode is {mode:o}"):
                    Service("https://manager1:6830", token_file=token.name)

    def test_a_replay_is_rows(self):
        rows = replay(REPLAY)
        self.assertEqual({row["engine"] for row in rows}, {"updown", "balanced"})
        # What the notebook makes tables by names one row.
        keys = {(row["placement"], row["time"], row["engine"]) for row in rows}
        self.assertEqual((len(keys), len({row["placement"] for row in rows})), (len(rows), 2))
        self.assertTrue(all(row["slowdown_mean"] is None or row["slowdown_mean"] >= 1 for row in rows))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
