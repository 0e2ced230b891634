# SPDX-License-Identifier: GPL-2.0

"""Tests of the parts of scripts/vm and scripts/ktap that judge: a judge that errs hides failures."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import demo
import guest
import kernel_log
import ktap
import layers
import main
import matrix
import soak


def counted(text):
    """(passed, failed, skipped) of a document."""
    totals = ktap.Totals()
    ktap.count("test", text, totals)
    return totals.passed, totals.failed, totals.skipped


class Layers(unittest.TestCase):
    """The import graph."""

    @staticmethod
    def tree(**files):
        """The tree of files given by their text; `__` in a name is a folder."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = pathlib.Path(root, *name.split("__")).with_suffix(".rs")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return layers.Tree(root, sorted({name.split("__")[0] for name in files}))

    def test_use_tree_is_taken_apart(self):
        found = layers.leaves("super::{\n a::{self, B,\n }, d::E as F,\n}")
        self.assertEqual(found, [("super", "a"), ("super", "a", "B"), ("super", "d", "E")])

    def test_cycle_within_an_engine_is_found(self):
        tree = self.tree(smc__a="use super::b::B;\n", smc__b="use super::c::C;\n",
                         smc__c="fn f() { crate::smc::a::g() }\n", smc__d="use super::a::A;\n")
        found = layers.cycles(tree.graph())
        self.assertEqual(found, [[("smc", "a"), ("smc", "b"), ("smc", "c")]])
        self.assertTrue(layers.is_forbidden(found[0]))

    def test_cycle_within_another_folder_is_allowed(self):
        tree = self.tree(kapi__net__a="use super::b::B;\n", kapi__net__b="use super::a::A;\n")
        found = layers.cycles(tree.graph())
        self.assertEqual([layers.is_forbidden(cycle) for cycle in found], [False])

    def test_cycle_between_folders_is_forbidden(self):
        tree = self.tree(kapi__net__a="use crate::kapi::mem::b::B;\n",
                         kapi__mem__b="use crate::kapi::net::a::A;\n")
        found = layers.cycles(tree.graph())
        self.assertEqual([layers.is_forbidden(cycle) for cycle in found], [True])

    def test_name_that_is_passed_on_counts_for_its_file(self):
        tree = self.tree(proto__mod="pub(crate) use self::wire::Mac;\n", proto__wire="",
                         smc__a="use crate::proto::Mac;\n")
        self.assertEqual(tree.graph()[("smc", "a")], {("proto", "wire")})

    def test_tests_and_comments_do_not_count(self):
        inline = "#[cfg(test)]\nmod tests {\n    use crate::smc::b::B;\n}\n"
        tree = self.tree(smc__a="// use super::b::B;\n" + inline,
                         smc__b="#[cfg(test)]\nmod inner;\n",
                         smc__b__inner="use crate::smc::a::A;\n")
        self.assertEqual(tree.graph(), {("smc", "a"): set(), ("smc", "b"): set()})

    def test_import_against_the_table_is_a_breach(self):
        table = layers.read_table("# layers\nkapi:\nproto:\nproto/clc: proto\n"
                                  "smc: kapi proto proto/clc\n")
        tree = self.tree(kapi__a="use crate::proto::b::B;\n", proto__b="",
                         proto__clc__c="use crate::proto::b::B;\n",
                         smc__d="use crate::{kapi::a::A, proto::clc::c::C};\n")
        found = layers.breaches(table, tree.graph())
        self.assertEqual(found, [(("kapi", "a"), ("proto", "b"))])

    def test_main_file_mounts_the_layers_of_its_line(self):
        text = ("mod bindings;\n\n/// Doc.\nmod kapi {\n    //! mod smc;\n    pub(crate) mod base;\n\n"
                "    pub(crate) mod net {\n        pub(crate) mod addr;\n    }\n    mod mem;\n}\n"
                "mod smc;\n")
        self.assertEqual(layers.mounts(text),
                         ["bindings", "kapi/base", "kapi/net/addr", "kapi/mem", "smc"])
        self.assertEqual(layers.wrong_mounts(["bindings", "kapi/base", "kapi/net"], text),
                         ["kapi/mem", "smc"])


class Guest(unittest.TestCase):
    """What is kept of a guest."""

    def test_end_of_console_has_its_last_lines_and_those_of_the_emulator(self):
        with tempfile.TemporaryDirectory() as folder:
            one = guest.Guest("a", pathlib.Path(folder, "a"), pathlib.Path(folder, "out"), "")
            self.assertEqual(one.end_of_console(), "")
            lines = [f"line {number}" for number in range(50)]
            (one.folder / "console.log").write_text("\n".join(lines), encoding="utf-8")
            (one.folder / "host.log").write_text("killed\n", encoding="utf-8")
            self.assertEqual(one.end_of_console().splitlines(), lines[-20:] + ["killed"])


class Ktap(unittest.TestCase):
    """Counting of results."""

    def test_flat_document(self):
        self.assertEqual(counted("TAP version 13\n1..3\nok 1 a\nnot ok 2 b\nok 3 c # SKIP no device\n"),
                         (1, 1, 1))

    def test_plan_may_come_last(self):
        self.assertEqual(counted("KTAP version 1\nok 1 a\n1..1\n"), (1, 0, 0))

    def test_kunit_counts_leaves(self):
        self.assertEqual(counted(
            "KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: s\n    1..2\n    ok 1 a\n"
            "    ok 2 b\n# s: pass:2 fail:0 skip:0 total:2\nok 1 s\n"), (2, 0, 0))

    def test_kunit_in_the_kernel_log(self):
        self.assertEqual(counted(
            "[    1.000000] KTAP version 1\n[    1.000001] 1..1\n[    1.0]     KTAP version 1\n"
            "[    1.0]     1..1\n[    1.0]     not ok 1 a\n[    1.0] not ok 1 s\n"), (0, 1, 0))

    def test_kselftest_runner_prefix(self):
        self.assertEqual(counted(
            "TAP version 13\n1..2\n# timeout set to 45\n# selftests: socket: one\n# TAP version 13\n# 1..2\n"
            "# # Starting 2 tests\n# ok 1 x\n# ok 2 y # SKIP z\nok 1 selftests: socket: one\n"
            "# selftests: socket: two\nok 2 selftests: smc: two\n"), (2, 0, 1))

    def test_truncated_block_fails(self):
        self.assertEqual(counted("KTAP version 1\n1..2\nok 1 a\n"), (1, 1, 0))
        self.assertEqual(counted(
            "KTAP version 1\n1..1\n  KTAP version 1\n  1..3\n  ok 1 a\nok 1 s\n"), (1, 1, 0))

    def test_missing_plan_fails(self):
        self.assertEqual(counted("TAP version 13\nok 1 a\n"), (1, 1, 0))

    def test_empty_or_foreign_document_fails(self):
        self.assertEqual(counted(""), (0, 1, 0))
        self.assertEqual(counted("hello\n"), (0, 1, 0))
        self.assertEqual(counted("TAP version 13\n1..0\n"), (0, 1, 0))

    def test_failure_says_what_the_test_said(self):
        totals = ktap.Totals()
        ktap.count("test", "TAP version 13\n1..2\n# before\nok 1 a\n# why\nnot ok 2 b\n", totals)
        self.assertEqual(totals.complaints, ["test: not ok: b\n    # why"])

    def test_skipped_document(self):
        self.assertEqual(counted("TAP version 13\n1..0 # SKIP no RDMA\n"), (0, 0, 1))

    def test_failed_parent_of_passed_parts_fails(self):
        self.assertEqual(counted(
            "TAP version 13\n1..1\n# TAP version 13\n# 1..1\n# ok 1 x\nnot ok 1 selftests: socket: one # exit=1\n"),
            (1, 1, 0))

    def test_failure_in_parts_counts_once(self):
        self.assertEqual(counted(
            "TAP version 13\n1..1\n# TAP version 13\n# 1..1\n# not ok 1 x\nnot ok 1 selftests: socket: one # exit=1\n"),
            (0, 1, 0))

    def test_bail_out_fails(self):
        self.assertEqual(counted("TAP version 13\n1..1\nok 1 a\nBail out! no more\n"), (1, 1, 0))

    def test_wrong_number_fails(self):
        self.assertEqual(counted("TAP version 13\n1..2\nok 1 a\nok 3 b\n"), (2, 1, 0))

    def test_two_documents_in_a_row(self):
        self.assertEqual(counted("TAP version 13\n1..1\nok 1 a\nTAP version 13\n1..1\nok 1 b\n"), (2, 0, 0))

    def test_cargo_log(self):
        totals = ktap.Totals()
        ktap.count_cargo("log", "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured\n", totals)
        self.assertEqual((totals.passed, totals.failed, totals.skipped), (3, 1, 2))

    def test_cargo_log_names_what_failed(self):
        totals = ktap.Totals()
        ktap.count_cargo("log", "test a::one ... FAILED\ntest b ... ok\ntest result: FAILED. 1 passed; 1 failed; "
                         "0 ignored; 0 measured\n", totals)
        self.assertEqual(totals.complaints, ["log: a::one"])


class KernelLog(unittest.TestCase):
    """Finding reports."""

    def reports(self, text, allow="# nothing\n", leaked=""):
        """The reports in a console log, and in what the leak detector says."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "console.log").write_text(text, encoding="utf-8")
            if leaked:
                (folder / "kmemleak").write_text(leaked, encoding="utf-8")
            (folder / "allow").write_text(allow, encoding="utf-8")
            return kernel_log.reports(folder, folder / "allow")

    def test_reports_are_found(self):
        for line in (
                "WARNING: CPU: 0 PID: 1 at net/core/dev.c:1 f+0x1/0x2",
                "WARNING: net/core/dev.c:1 at f+0x1/0x2, CPU#0: a/1",
                "BUG: KASAN: slab-use-after-free in f",
                "Oops: 0000 [#1] SMP",
                "UBSAN: array-index-out-of-bounds in a.c:1:2",
                "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
                "refcount_t: underflow; use-after-free.",
                "ODEBUG: free active (active state 0) object type: timer_list",
                "INFO: task a:1 blocked for more than 120 seconds.",
                "rcu: INFO: rcu_sched self-detected stall on CPU",
                "WARNING: possible circular locking dependency detected",
                "WARNING: suspicious RCU usage",
                "BUG: MAX_LOCKDEP_CHAINS too low!",
                "unregister_netdevice: waiting for lo to become free. Usage count = 2",
                "Out of memory: Killed process 1 (a) total-vm:1kB",
                "rust_kernel: panicked at a.rs:1:2:",
                "Kernel panic - not syncing: x"):
            self.assertEqual(len(self.reports(f"[    1.000000] {line}\n")), 1, line)

    def test_ordinary_lines_are_not(self):
        self.assertEqual(self.reports(
            "[    0.1] Linux version 7.3.4\n[    0.2] rdma_rxe: loaded\n[    1.0] debug: BUGS none\n"
            "[    2.0] python3[12]: segfault at 0 ip 1 sp 2 error 4\n[    3.0] reboot: Power down\n"
            "[    0.0] ... MAX_LOCKDEP_ENTRIES:     32768\n"), [])

    def test_allowed_lines_are_not(self):
        self.assertEqual(self.reports("[    1.0] WARNING: known thing\n",
                                      "WARNING: known # it is known\n"), [])

    def test_trace_with_an_allowed_entry_is_allowed_and_a_warning_with_it_is_not(self):
        trace = "[    1.0] Call Trace:\n[    1.0]  [<6005bca1>] ? f+0x1/0x2\n" \
            "[    1.0]  [<602f821f>] ? mem_cgroup_oom+0xaf/0xc0\n[    1.0] end\n"
        allow = "mem_cgroup_oom # a cgroup without memory\n"
        self.assertEqual(self.reports(trace, allow), [])
        self.assertEqual(len(self.reports(trace)), 1)
        self.assertEqual(len(self.reports("[    1.0] WARNING: x\n" + trace, allow)), 1)
        # The trace ends before the known line.
        late = trace.replace("[    1.0]  [<602f821f>] ?", "[    1.0] found")
        self.assertEqual(len(self.reports(late, allow)), 1)

    def test_trace_behind_an_allowed_line_is_allowed_and_another_is_not(self):
        text = "[    1.0] known thing\n[    1.0] Call Trace:\n[    1.0]  f+0x1\n"
        self.assertEqual(self.reports(text, "known # it is known\n"), [])
        self.assertEqual(len(self.reports(text)), 1)
        self.assertEqual(len(self.reports(text + "[    2.0] Call Trace:\n", "known # it is known\n")), 1)

    def leaks(self, log, *entries):
        """The reports of a log and of objects that leaked, whose traces have these entries."""
        objects = [f"unreferenced object 0x1 (size 128):\n  backtrace (crc 1):\n    0xabba\n    {entry}\n"
                   for entry in entries]
        return self.reports(log, "leak: tasklet_act # it is known\n", "".join(objects))

    def test_known_leak_is_no_report_and_another_is(self):
        one = "[    1.0] kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)\n"
        self.assertEqual(self.leaks(one, "tasklet_action_common+0x36e/0x7a0"), [])
        self.assertEqual(len(self.leaks(one, "process_one_work+0x1/0x2")), 2)
        both = self.leaks(one + one, "tasklet_action_common+0x36e/0x7a0", "process_one_work+0x1/0x2")
        self.assertEqual(len(both), 2)
        self.assertNotIn("tasklet", both[-1])
        # A suspect of which the detector has no object at the end.
        self.assertEqual(len(self.leaks(one + one, "tasklet_action_common+0x36e/0x7a0")), 1)

    def test_entry_of_a_known_leak_allows_no_warning(self):
        log = "[    1.0] WARNING: x\n[    1.0]  tasklet_action_common+0x1/0x2\n"
        self.assertEqual(len(self.leaks(log)), 1)

    def test_one_report_gives_one_excerpt(self):
        self.assertEqual(len(self.reports(
            "[    1.0] WARNING: a.c:1 at f\n[    1.0] Call Trace:\n[    1.0]  f+0x1\n")), 1)


def end(**values):
    """A record of one end of a connection that ended well."""
    fields = dict.fromkeys(soak.Record._fields, 0)
    fields.update(seed=1, begin=1000, end=2000, progress=2000, state=soak.OVER, mode=soak.BY_RDMA,
                  wrong_at=soak.ALL_RIGHT, saw_end=1, shut=1, pid=1)
    fields.update(values)
    return soak.Record(**fields)


class Kinds(unittest.TestCase):
    """The kernels that scripts/vm takes."""

    @staticmethod
    def parsed(word, *more):
        """The command line with this kernel."""
        return main.parse([word, *(more or ("--", "true"))])

    def test_pair_is_not_part_of_the_kind(self):
        self.assertEqual((self.parsed("lab").kind, self.parsed("lab").pair), ("lab", False))
        pair = self.parsed("stock-forky2", "--a", "true", "--b", "true")
        self.assertEqual((pair.kind, pair.pair), ("stock-forky", True))

    def test_kernels_of_suites_run_in_qemu(self):
        for word, backend in (("stock", main.qemu), ("stock-sid", main.qemu), ("debug", main.uml)):
            self.assertIs(main.backend_of(self.parsed(word)), backend)
        self.assertEqual(self.parsed("stock-sid").timeout, self.parsed("stock").timeout)
        self.assertEqual(self.parsed("debug").timeout, 4 * self.parsed("lab").timeout)

    def test_other_words_are_refused(self):
        for word in ("", "2", "lab3", "lab-sid", "stock-", "stock-7", "stocks"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                self.parsed(word)


class Matrix(unittest.TestCase):
    """The table of kernels."""

    GOOD = "stock\t7.3.4\t1.85.1\t0.71.1\tpassed\t5 passed, 0 failed, 0 skipped\n"
    OTHER = "stock-sid\t7.2.13\t1.97.1\t0.72.1\tpassed\t5 passed, 0 failed, 0 skipped\n"
    UNFIT = "stock-forky\t-\t1.97.1\t0.72.1\tunfit\tno CONFIG_RUST\n"

    def test_columns_are_in_line_and_suites_have_their_names(self):
        lines = matrix.table(matrix.read(self.GOOD + self.UNFIT)).splitlines()
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertEqual([line.split()[1] for line in lines[2:]], ["trixie-backports", "forky"])
        self.assertIn("not tested: no CONFIG_RUST", lines[3])

    def test_two_versions_have_to_pass(self):
        self.assertEqual(matrix.complaint(matrix.read(self.GOOD + self.OTHER + self.UNFIT)), "")
        same = self.GOOD + self.GOOD.replace("stock", "stock-sid")
        for text in (self.GOOD, self.GOOD + self.UNFIT, same):
            self.assertIn("are needed", matrix.complaint(matrix.read(text)))

    def test_suite_that_failed_fails_the_run(self):
        bad = self.OTHER.replace("sid", "experimental").replace("\tpassed", "\tfailed")
        rows = matrix.read(self.GOOD + self.OTHER + bad)
        self.assertEqual(matrix.complaint(rows), "failed: experimental")
        self.assertIn("FAILED: 5 passed", matrix.table(rows))

    def test_unknown_result_is_refused(self):
        with self.assertRaises(ValueError):
            matrix.read(self.GOOD.replace("\tpassed", "\tfine"))

    def test_only_the_text_between_the_marks_is_replaced(self):
        page = f"a\n{matrix.BEGIN}\n\nold\n{matrix.END}\nb\n"
        new = matrix.replaced(page, "| x |\n")
        self.assertEqual(new, f"a\n{matrix.BEGIN}\n\n| x |\n\n{matrix.END}\nb\n")
        self.assertEqual(matrix.replaced(new, "| x |\n"), new)
        with self.assertRaises(ValueError):
            matrix.replaced("nothing here\n", "| x |\n")


class Demo(unittest.TestCase):
    """The rates of the demonstration's programs."""

    @staticmethod
    def compared(seconds, payload):
        """The ratio of a program that takes a second by RDMA for 64 octets, and these over TCP."""
        rows = [{"program": "curl", "protocol": "smc", "part": part, "seconds": took, "payload_bytes": octets}
                for part, took, octets in (("rdma", 1.0, 64), ("fallback", seconds, payload))]
        demo.compare(rows)
        return [row["rate_of_tcp"] for row in rows]

    def test_row_by_rdma_has_the_ratio_to_tcp(self):
        """A program that takes half the time over TCP."""
        self.assertEqual(self.compared(0.5, 64), [0.5, None])

    def test_program_that_failed_over_tcp_has_no_ratio(self):
        """It carried nothing, and may have ended at once."""
        self.assertEqual(self.compared(3.0, 0), [None, None])
        self.assertEqual(self.compared(0.0, 0), [None, None])

    def test_row_without_its_twin_has_no_ratio(self):
        """The guests of the second part may fail."""
        rows = [{"program": "curl", "protocol": "smc", "part": "rdma", "seconds": 1.0, "payload_bytes": 64}]
        demo.compare(rows)
        self.assertIsNone(rows[0]["rate_of_tcp"])


class Soak(unittest.TestCase):
    """What counts as lost."""

    FAULT = [{"kind": "device", "detail": "", "begin": 1.5, "end": 1.6, "harmless": False}]

    def judge(self, client, server, events=()):
        """The counts for one connection."""
        verdict = soak.Verdict()
        verdict.connection("test", client, server, events)
        return verdict

    def test_record_has_the_size_of_the_programs_one(self):
        self.assertEqual(soak.RECORD.size, 112)
        self.assertEqual(len(soak.RECORD.unpack(bytes(112))), len(soak.Record._fields))

    def test_streams_that_came_whole_are_whole(self):
        verdict = self.judge(end(sent=100, got=7), end(sent=7, got=100, server=1))
        self.assertEqual((verdict.count["whole"], verdict.wrong), (1, []))

    def test_stream_that_ends_early_in_good_order_is_lost(self):
        verdict = self.judge(end(sent=100), end(got=99, server=1), self.FAULT)
        self.assertEqual((verdict.count["lost"], verdict.count["bytes lost"]), (1, 1))

    def test_stream_that_ends_early_with_an_error_is_broken(self):
        broken = end(got=99, saw_end=0, receive_error=104, server=1)
        verdict = self.judge(end(sent=100), broken, self.FAULT)
        self.assertEqual((verdict.count["broken"], verdict.wrong), (1, []))
        self.assertEqual(len(self.judge(end(sent=100), broken).wrong), 1)

    def test_end_behind_an_error_that_another_call_got_proves_nothing(self):
        verdict = self.judge(end(sent=100), end(got=99, send_error=32, server=1), self.FAULT)
        self.assertEqual((verdict.count["lost"], verdict.count["broken"]), (0, 1))

    def test_octets_that_are_wrong_or_were_not_sent_are_lost(self):
        for client, server in ((end(sent=100), end(got=5, wrong_at=5, server=1)),
                               (end(sent=4, sending=4), end(got=5, server=1)),
                               (None, end(got=5, server=1))):
            self.assertEqual(self.judge(client, server, self.FAULT).count["lost"], 1)

    def test_octets_of_a_call_that_never_came_back_may_have_been_sent(self):
        killed = end(sent=4, sending=9, ending=4, shut=0, saw_end=0)
        verdict = self.judge(killed, end(got=9, server=1))
        self.assertEqual((verdict.count["ended as planned"], verdict.wrong), (1, []))

    def test_connection_that_hangs_is_a_failure(self):
        self.assertEqual(len(self.judge(end(stuck=1), end(server=1)).wrong), 1)

    def test_end_that_tcp_had_no_memory_for_is_no_failure_of_ours(self):
        memory = [dict(self.FAULT[0], kind="memory", end=2.1)]
        waits = end(stuck=1, saw_end=0, mode=soak.BY_TCP)
        for waiting, events, count in ((waits, memory, 0), (waits, self.FAULT, 1),
                                       (waits._replace(mode=soak.BY_RDMA), memory, 1),
                                       (waits._replace(got=3), memory, 1)):
            verdict = self.judge(waiting, end(server=1, mode=soak.BY_TCP, sent=4 if waiting.got else 0), events)
            self.assertEqual(len(verdict.wrong), count, waiting)


if __name__ == "__main__":
    unittest.main()
