"""Client connections on real sockets: order, bounds and endings."""

from __future__ import annotations

import re
import socket
import threading
import time

import hiredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goblin_raft import errors
from goblin_raft.dispatch import CHUNK_REQUESTS_MAX
from goblin_raft.resp_frontend import OUTPUT_BYTES_HIGH, READY_BYTES_MAX
from tests.socket_node import SocketNode, receive, receive_all, wait_until
from tests.stories import TRANSCRIPTS, Stage, read_reply, read_story, tell, text_of


def pack(*words):
    return hiredis.pack_command(words)


CLAIM = pack(b"GOBLIN.CLAIM", b"c", b"r", b"t", b"30")
CLUSTERDOWN = b"-CLUSTERDOWN no leader; the command was not executed, try again\r\n"


@pytest.fixture
def node():
    with SocketNode() as started:
        yield started


def test_mixed_requests_are_answered_in_their_order(node):
    wire = (
        pack(b"PING")
        + pack(b"SET", b"k", b"1")
        + pack(b"GET", b"k")
        + b"ECHO inline\r\n\r\n*0\r\n"
        + pack(b"NOSUCH", b"x")
        + pack(b"set", b"k", b"2")
        + pack(b"SELECT", b"3")
        + pack(b"GET", b"k")
        + pack(b"SELECT", b"0")
        + pack(b"GET", b"k")
        + pack(b"GET")
        + CLAIM
    )
    assert node.exchange(wire) == (
        b"+PONG\r\n+OK\r\n$1\r\n1\r\n$6\r\ninline\r\n"
        b"-ERR unknown command 'NOSUCH', with args beginning with: 'x' \r\n"
        b"+OK\r\n+OK\r\n$-1\r\n+OK\r\n$1\r\n2\r\n"
        b"-ERR wrong number of arguments for 'get' command\r\n"
        b"$7\r\nCLAIMED\r\n"
    )


def test_the_same_byte_by_byte(node):
    with node.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in pack(b"SET", b"k", b"v") + b"PING\r\n" + pack(b"GET", b"k"):
            client.sendall(bytes([byte]))
        assert receive(client, 19) == b"+OK\r\n+PONG\r\n$1\r\nv\r\n"


def test_a_protocol_is_true_only_for_what_follows_hello(node):
    wire = pack(b"GET", b"no") + pack(b"HELLO", b"3") + pack(b"GET", b"no") + pack(b"RESET")
    replies = node.exchange(wire + pack(b"GET", b"no"))
    assert replies.startswith(b"$-1\r\n%7\r\n")
    assert replies.endswith(b"_\r\n+RESET\r\n$-1\r\n")


def test_a_read_before_readonly_still_waits_for_its_barrier(node):
    node.engine.holding = True
    with node.connect() as client:
        client.sendall(pack(b"GET", b"k") + pack(b"READONLY"))
        wait_until(lambda: node.engine.held)
        node.call(node.engine.release)
        assert receive(client, 10) == b"$-1\r\n+OK\r\n"


def test_readonly_reads_at_once_and_readwrite_ends_it(node):
    with node.connect() as client:
        client.sendall(pack(b"READONLY"))
        assert receive(client, 5) == b"+OK\r\n"
        node.engine.refusals = [errors.CLUSTERDOWN.failure()]
        client.sendall(pack(b"GET", b"k"))
        assert receive(client, 5) == b"$-1\r\n"
        client.sendall(pack(b"READWRITE") + pack(b"GET", b"k"))
        assert receive(client, 5 + len(CLUSTERDOWN)) == b"+OK\r\n" + CLUSTERDOWN


def test_info_sees_what_was_written_before_it(node):
    replies = node.exchange(pack(b"SET", b"k", b"v") + pack(b"INFO", b"keyspace"))
    assert b"db0:keys=1" in replies


def test_one_entry_for_a_pipeline_with_a_write(node):
    node.exchange(pack(b"GET", b"a") + pack(b"SET", b"a", b"1") + pack(b"GET", b"a"))
    assert [len(commands) for commands in node.engine.proposed] == [3]


def test_node_commands_answer_while_data_commands_wait(node):
    node.engine.holding = True
    with node.connect() as waiting, node.connect() as other:
        waiting.sendall(CLAIM)
        wait_until(lambda: node.engine.held)
        other.sendall(pack(b"PING") + pack(b"HELLO") + pack(b"CLIENT", b"ID"))
        assert receive(other, 7) == b"+PONG\r\n"
        node.call(node.engine.release)
        assert receive(waiting, 13) == b"$7\r\nCLAIMED\r\n"


def test_what_came_with_a_refused_command_is_refused_too(node):
    node.engine.refusals = [errors.CLUSTERDOWN.failure()]  # for the first chunk alone
    count = 3 * CHUNK_REQUESTS_MAX
    with node.connect() as client:
        client.sendall(pack(b"DEL", b"k") * count + b"PING\r\n")  # few enough for one segment
        expected = CLUSTERDOWN * count + b"+PONG\r\n"
        assert receive(client, len(expected)) == expected
        client.sendall(CLAIM)
        assert receive(client, 13) == b"$7\r\nCLAIMED\r\n"
    assert [len(commands) for commands in node.engine.proposed] == [CHUNK_REQUESTS_MAX, 1]


def test_a_request_that_was_only_begun_belongs_to_what_was_refused(node):
    node.engine.holding = True
    with node.connect() as client:
        client.sendall(CLAIM + CLAIM[:20])
        wait_until(lambda: node.engine.held)
        node.engine.held.clear()
        refuse = node.engine.settles.pop()
        node.call(lambda: refuse([errors.CLUSTERDOWN.failure()]))
        node.engine.holding = False
        client.sendall(CLAIM[20:] + CLAIM)
        assert receive(client, 3 * len(CLUSTERDOWN)) == 3 * CLUSTERDOWN
        client.sendall(CLAIM)
        assert receive(client, 13) == b"$7\r\nCLAIMED\r\n"


def test_what_is_uncertain_says_nothing_of_what_follows(node):
    node.engine.refusals = [errors.UNCERTAIN.failure()]
    answer = node.exchange(CLAIM + b"PING\r\n" + CLAIM)
    assert answer.startswith(b"-UNCERTAIN ")
    assert answer.endswith(b"+PONG\r\n$7\r\nCLAIMED\r\n")


def test_a_half_closed_client_gets_all_its_replies(node):
    node.engine.holding = True
    with node.connect() as client:
        client.sendall(CLAIM + pack(b"PING"))
        client.shutdown(socket.SHUT_WR)
        wait_until(lambda: node.engine.held)
        node.call(node.engine.release)
        assert receive_all(client) == b"$7\r\nCLAIMED\r\n+PONG\r\n"


def test_quit_answers_and_closes_and_drops_what_follows(node):
    assert node.exchange(pack(b"QUIT") + CLAIM, half_close=False) == b"+OK\r\n"
    assert node.engine.proposed == []


@pytest.mark.parametrize(
    "line", [b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"Host: x\r\n", b"*1\r\n$4\r\npost\r\n"]
)
def test_a_browser_is_closed_without_a_word(node, line):
    assert node.exchange(line, half_close=False) == b""


@pytest.mark.parametrize(
    "garbage",
    [
        b"*1\r\n$-5\r\n",
        b"*1\r\n>200000000\r\n",
        b"*1\r\n~200000000\r\n",
        b"*1\r\n|200000000\r\n",
        b"*2000000000\r\n",
        b"*1048576\r\n$99999999\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
        b'GET "a\r\n',
        b"*1\r\n$16777217\r\n",
    ],
)
def test_garbage_costs_its_own_connection_and_nothing_else(node, garbage):
    with node.connect() as bystander:
        started_s = time.monotonic()
        answer = node.exchange(pack(b"PING") + garbage, half_close=False)
        assert answer.startswith(b"+PONG\r\n-ERR Protocol error: ")
        assert answer.count(b"\r\n") == 2
        bystander.sendall(b"PING\r\n")
        assert receive(bystander, 7) == b"+PONG\r\n"
        assert time.monotonic() - started_s < 1


def test_a_value_over_its_limit_is_refused_with_the_connection_intact(node):
    with node.connect() as client:
        client.sendall(pack(b"SET", b"k", b"x" * 3_000_000) + pack(b"PING"))
        expected = b"-ERR value is longer than 1048576 bytes\r\n+PONG\r\n"
        assert receive(client, len(expected)) == expected


def test_a_command_that_no_entry_can_hold_is_refused(node):
    wire = pack(b"DEL", *[b"%060000d" % i for i in range(100)])
    assert node.exchange(wire + pack(b"PING")) == (
        b"-ERR command is longer than 4194304 bytes\r\n+PONG\r\n"
    )
    assert node.engine.proposed == []


def test_a_request_without_end_is_refused(node):
    with node.connect() as client:
        wire = b"*1048576\r\n" + (b"$1000000\r\n" + b"x" * 1_000_000 + b"\r\n") * 40

        def send():
            try:
                client.sendall(wire)
            except OSError:
                pass  # closed meanwhile, as it should be

        sender = threading.Thread(target=send)
        sender.start()
        try:
            assert client.recv(100) == b"-ERR Protocol error: too big request\r\n"
        except ConnectionResetError:
            pass  # the reset overtook the line
        sender.join(10)
    wait_until(lambda: not node.frontend.connections)


def test_what_waits_for_an_answer_is_bounded_in_bytes(node):
    node.engine.holding = True
    wire = pack(b"SET", b"k", b"x" * 1_000_000) * 60
    with node.connect() as client:
        sender = threading.Thread(target=client.sendall, args=(wire,))
        sender.start()
        wait_until(lambda: any(each.input_paused for each in node.frontend.connections))
        for _ in range(3):  # reading is paused, so rounds of the loop bring nothing more
            node.call(lambda: None)
        (connection,) = node.frontend.connections
        waiting = sum(len(word) for request in connection.parser.ready for word in request)
        assert waiting + connection.parser.buffered_bytes < READY_BYTES_MAX + 2_000_000
        node.engine.holding = False
        node.call(node.engine.release)
        assert receive(client, 5 * 60) == b"+OK\r\n" * 60
        sender.join(10)


def test_a_pipeline_that_is_sent_whole_before_anything_is_read(node):
    """More replies than the sockets' buffers hold: whoever stopped reading would stop both."""
    count, value = 100_000, b"x" * 120
    node.exchange(pack(b"SET", b"k", value))
    with node.connect(timeout_s=60) as client:
        client.sendall(pack(b"GET", b"k") * count)
        replies = receive(client, 128 * count)
    assert replies == (b"$120\r\n" + value + b"\r\n") * count


def test_a_reply_of_gigabytes_is_bounded_in_memory(node, monkeypatch):
    """One request of some kilobytes may ask for it."""
    size, count = 1_000_000, 4_000
    reply = [b"x" * size] * count
    monkeypatch.setattr(node.engine.machine, "read", lambda command, now_ms: reply)
    with node.connect(timeout_s=30) as client:
        client.sendall(pack(b"GET", b"k"))
        assert receive(client, 7) == b"*%d\r\n" % count
        wait_until(lambda: any(each.output_full for each in node.frontend.connections))
        (connection,) = node.frontend.connections
        assert connection.transport.get_write_buffer_size() < OUTPUT_BYTES_HIGH + 2 * size
        member = b"$%d\r\n" % size + b"x" * size + b"\r\n"
        for _ in range(60):
            assert receive(client, len(member)) == member


MIXED = st.lists(
    st.sampled_from(
        [
            pack(b"SET", b"k", b"1"), pack(b"SET", b"k", b"2", b"GET"), pack(b"GET", b"k"),
            pack(b"DEL", b"k"), pack(b"EXISTS", b"k"), b"PING\r\n", b"\r\n", b"*0\r\n",
            pack(b"SELECT", b"1"), pack(b"SELECT", b"0"), pack(b"HELLO", b"3"), pack(b"RESET"),
            pack(b"READONLY"), pack(b"GET"), pack(b"NOSUCH"), pack(b"ECHO", b"x" * 3000),
            pack(b"INFO", b"keyspace"), pack(b"CLIENT", b"GETNAME"), pack(b"READWRITE"),
            pack(b"CLIENT", b"SETNAME", b"me"), pack(b"HSET", b"h", b"f", b"v"),
        ]
    ),
    max_size=40,
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(MIXED, st.integers(0, 4000))
def test_one_pipeline_is_answered_as_the_same_requests_one_by_one(requests, cut):
    """Reads, writes, commands of the node and refusals, in any order, cut anywhere."""
    with SocketNode() as one_by_one, SocketNode() as piped:
        with one_by_one.connect() as client:
            expected = b""
            for request in requests:
                client.sendall(request + b"ECHO end-of-reply\r\n")
                while not expected.endswith(b"$12\r\nend-of-reply\r\n"):
                    expected += client.recv(65536)
                expected = expected.removesuffix(b"$12\r\nend-of-reply\r\n")
        wire = b"".join(requests)
        with piped.connect() as client:
            client.sendall(wire[:cut])
            time.sleep(0)
            client.sendall(wire[cut:])
            client.shutdown(socket.SHUT_WR)
            got = receive_all(client)
    id_of_hello = re.compile(rb"(\$2\r\nid\r\n:)\d+")
    assert id_of_hello.sub(rb"\1", got) == id_of_hello.sub(rb"\1", expected)


def test_a_client_that_does_not_read_is_bounded(node):
    size, count = 1_000_000, 200
    node.exchange(pack(b"SET", b"k", b"x" * size))
    with node.connect(timeout_s=60) as client:
        client.sendall(pack(b"GET", b"k") * count)
        wait_until(lambda: any(each.output_full for each in node.frontend.connections))
        (connection,) = node.frontend.connections
        waiting = connection.transport.get_write_buffer_size()
        assert waiting < OUTPUT_BYTES_HIGH + 2 * size
        with node.connect() as other:
            other.sendall(b"PING\r\n")
            assert receive(other, 7) == b"+PONG\r\n"
        reply = b"$%d\r\n" % size + b"x" * size + b"\r\n"
        for _ in range(count):
            assert receive(client, len(reply)) == reply


def test_a_flood_of_small_requests_lets_others_have_their_turn(node):
    with node.connect() as flood, node.connect() as other:
        reader = threading.Thread(target=receive, args=(flood, 7 * 100_000), daemon=True)
        reader.start()
        threading.Thread(target=flood.sendall, args=(b"PING\n" * 100_000,), daemon=True).start()
        other.sendall(b"PING\r\n")
        started_s = time.monotonic()
        assert receive(other, 7) == b"+PONG\r\n"
        assert time.monotonic() - started_s < 2
        reader.join(20)
        assert not reader.is_alive()


def test_a_client_that_leaves_while_it_is_served(node):
    node.engine.holding = True
    with node.connect() as client:
        client.sendall(CLAIM * 10)
        wait_until(lambda: node.engine.held)
    with node.connect() as other:
        node.engine.holding = False
        node.call(node.engine.release)
        other.sendall(CLAIM)
        assert receive(other, 5) == b"$-1\r\n"


def test_more_clients_than_allowed_are_told_so():
    with SocketNode(maxclients=1) as node, node.connect() as first:
        first.sendall(b"PING\r\n")
        assert receive(first, 7) == b"+PONG\r\n"
        with node.connect() as second:
            assert receive_all(second) == b"-ERR max number of clients reached\r\n"
        first.sendall(b"PING\r\n")
        assert receive(first, 7) == b"+PONG\r\n"


@pytest.mark.parametrize("word", [b"a\r\n+OK", b"\n", b"\r", b"\x00\xff", b"x" * 1000])
def test_an_error_line_is_one_line(node, word):
    for wire in (pack(word), pack(b"CLIENT", word), pack(b"HELLO", b"3", word)):
        answer = node.exchange(wire)
        assert answer.startswith(b"-ERR ")
        assert answer.endswith(b"\r\n")
        assert b"\r" not in answer[:-2]
        assert b"\n" not in answer[:-2]


def test_a_subcommand_is_not_reached_by_one_word_with_a_blank(node):
    assert node.exchange(pack(b"CLIENT ID", b"x")).startswith(b"-ERR unknown command 'CLIENT ID'")


def test_a_node_command_that_fails_is_an_answer(node, monkeypatch):
    monkeypatch.setattr("resource.getrusage", lambda _: 1 / 0)
    assert node.exchange(pack(b"INFO", b"cpu") + b"PING\r\n") == (
        b"-ERR internal error\r\n+PONG\r\n"
    )


def test_after_refuse_only_node_commands_are_served(node):
    with node.connect() as client:
        client.sendall(b"PING\r\n")
        receive(client, 7)
        node.call(lambda: node.frontend.refuse(errors.CLUSTERDOWN.failure()))
        client.sendall(CLAIM + b"PING\r\n")
        assert receive(client, len(CLUSTERDOWN) + 7) == CLUSTERDOWN + b"+PONG\r\n"


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_every_story_through_a_socket_with_time_passing(node, path):
    story = read_story(path)
    with node.connect() as client, client.makefile("rb") as stream:

        def send(argv, _):
            client.sendall(pack(*argv))
            return read_reply(stream)

        assert text_of(tell(story, Stage(send, node.pass_time))) == text_of(story)


def test_a_whole_transaction_in_one_segment(node):
    wire = [(b"MULTI",), (b"SET", b"k", b"v"), (b"GET", b"k"), (b"EXEC",), (b"GET", b"k")]
    replies = node.exchange(b"".join(pack(*words) for words in wire))
    assert replies == b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n$1\r\nv\r\n$1\r\nv\r\n"


def test_an_aborted_transaction_is_a_null_array(node):
    wire = [(b"WATCH", b"k"), (b"SET", b"k", b"v"), (b"MULTI",), (b"PING",), (b"EXEC",)]
    data = b"".join(pack(*words) for words in wire)
    assert node.exchange(data).endswith(b"+QUEUED\r\n*-1\r\n")
    assert node.exchange(pack(b"HELLO", b"3") + data).endswith(b"+QUEUED\r\n_\r\n")


def test_a_transaction_that_is_not_finished_does_nothing(node):
    node.exchange(pack(b"MULTI") + pack(b"SET", b"k", b"v"))
    assert node.engine.proposed == []


def test_a_refused_transaction_is_refused_as_a_whole_and_so_is_what_came_with_it(node):
    node.engine.refusals = [errors.CLUSTERDOWN.failure()]
    wire = [(b"MULTI",), (b"SET", b"k", b"v"), (b"EXEC",), (b"SET", b"k", b"v")]
    replies = node.exchange(b"".join(pack(*words) for words in wire)).split(b"\r\n")
    assert replies[:2] == [b"+OK", b"+QUEUED"]
    assert [reply.split(b" ")[0] for reply in replies[2:4]] == [b"-CLUSTERDOWN"] * 2
    assert b"k" not in node.engine.machine.keyspaces[0].values
