"""Tells a Go test how Python tests went."""

import json
import unittest


class Lines(unittest.TestResult):
    """Reports each test as one line of JSON."""

    def __init__(self, rename):
        super().__init__()
        self.rename = rename

    def say(self, test, fault=""):
        print(json.dumps({"test": self.rename(test.id().rsplit(".", 1)[-1]), "fault": fault}), flush=True)

    def addSuccess(self, test):
        self.say(test)

    def addFailure(self, test, err):
        self.say(test, self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.say(subtest, self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        self.say(test, "skipped: " + reason)


def run(case, api=""):
    """Runs the tests of a class. Those of several APIs are told apart as "api test"."""
    rename = (lambda name: api + " " + name.removeprefix("test_")) if api else str
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(Lines(rename))
