"""Tells a Go test how Python tests went."""

import json
import unittest


class Lines(unittest.TestResult):
    """Reports each test as one line of JSON."""

    def say(self, test, fault=""):
        print(json.dumps({"test": test.id().rsplit(".", 1)[-1], "fault": fault}), flush=True)

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


def run(case):
    """Runs the tests of a class."""
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(Lines())
