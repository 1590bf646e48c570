"""`goblin-raft status`: what it makes of the answers, and of the silence, of nodes."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from goblin_raft import status
from goblin_raft.config import Address
from goblin_raft.resp_client import RespClient, RespError, parse_info


def fields(node_id, role="follower", *, leader="n1", term=3, commit=10, applied=10, peers=()):
    """INFO raft of a node, as parse_info gives it."""
    return {
        "raft_node_id": node_id,
        "raft_role": role,
        "raft_leader": leader,
        "raft_term": str(term),
        "raft_commit_index": str(commit),
        "raft_applied_index": str(applied),
        "raft_log_bytes": "4096",
        "raft_state": "up",
        **{
            f"raft_peer{i}": f"id={peer},raft=h{peer}:7101,resp={resp},connected=1,match_index=10"
            for i, (peer, resp) in enumerate(peers)
        },
    }


PEERS_OF_N1 = (("n2", "h:7002"), ("n3", "h:7003"))
ASKED = Address("h", 7001)


def answers(**nodes):
    """A stand-in for the network: port 7001 is n1's, and so on; None does not answer."""

    def ask(address):
        answer = nodes.get(f"n{address.port - 7000}")
        if answer is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return answer

    return ask


def test_one_row_for_each_member_with_its_lag():
    ask = answers(
        n1=fields("n1", "leader", peers=PEERS_OF_N1),
        n2=fields("n2"),
        n3=fields("n3", commit=7, applied=6),
    )
    rows = status.collect(ASKED, ask)
    assert [(row.id, row.role, row.lag) for row in rows] == [
        ("n1", "leader", 0),
        ("n2", "follower", 0),
        ("n3", "follower", 4),
    ]
    assert status.leader_of(rows) == "n1"


def test_a_node_that_does_not_answer_is_shown_as_such(capsys):
    ask = answers(n1=fields("n1", "leader", peers=PEERS_OF_N1), n3=fields("n3"))
    assert status.run(ASKED, as_json=False, ask=ask) == 0
    out = capsys.readouterr().out
    assert "n2  h:7002  unreachable" in out
    assert "n2 at h:7002: Connection refused" in out
    assert out.endswith("leader: n1\n")


def test_no_answer_at_all_is_exit_code_1(capsys):
    assert status.run(ASKED, as_json=False, ask=answers()) == 1
    assert capsys.readouterr().out.endswith("no leader\n")


def test_no_leader_is_exit_code_1(capsys):
    ask = answers(n1=fields("n1", "candidate", leader="", peers=PEERS_OF_N1))
    assert status.run(ASKED, as_json=True, ask=ask) == 1
    assert json.loads(capsys.readouterr().out)["leader"] is None


def test_of_two_leaders_the_one_of_the_later_term_counts():
    ask = answers(
        n1=fields("n1", "leader", peers=PEERS_OF_N1), n2=fields("n2", "leader", leader="n2", term=4)
    )
    assert status.leader_of(status.collect(ASKED, ask)) == "n2"


def test_a_leader_out_of_reach_is_still_the_leader_when_the_others_name_it():
    ask = answers(n1=fields("n1", leader="n3", peers=PEERS_OF_N1), n2=fields("n2", leader="n3"))
    assert status.leader_of(status.collect(ASKED, ask)) == "n3"


def test_a_node_that_listens_everywhere_is_asked_at_its_raft_host():
    seen = []

    def ask(address):
        seen.append(address)
        return fields("n1", "leader", peers=(("n2", "0.0.0.0:7002"),))

    status.collect(ASKED, ask)
    assert seen[1] == Address("hn2", 7002)


def test_a_peer_that_was_never_heard_has_no_address_yet():
    ask = answers(n1=fields("n1", peers=(("n2", ""),)))
    assert status.collect(ASKED, ask)[1].error == "its RESP address is not known"


def test_json_has_a_row_for_each_node(capsys):
    ask = answers(n1=fields("n1", "leader", peers=PEERS_OF_N1), n2=fields("n2"))
    status.run(ASKED, as_json=True, ask=ask)
    answer = json.loads(capsys.readouterr().out)
    assert (answer["asked"], answer["leader"]) == ("h:7001", "n1")
    assert [node["reachable"] for node in answer["nodes"]] == [True, True, False]
    assert answer["nodes"][0]["commit_index"] == 10
    assert answer["nodes"][2]["term"] is None


@pytest.fixture
def stub():
    """A server that sends prepared pieces after the first request, whatever it was."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads = []

    def serve(*pieces):
        def run():
            peer, _ = listener.accept()
            with peer:
                peer.recv(4096)
                for piece in pieces:
                    peer.sendall(piece)
                peer.settimeout(5)
                # Until the client goes: closing first would be another story.
                while pieces and peer.recv(4096):
                    pass

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return listener.getsockname()

    yield serve
    for thread in threads:
        thread.join(5)
    listener.close()


@pytest.mark.parametrize(
    "wire, reply", [(b"$2\r\nhi\r\n", b"hi"), (b":7\r\n", 7), (b"$-1\r\n", None)]
)
def test_client_reads_a_reply_that_comes_in_pieces(stub, wire, reply):
    with RespClient(*stub(*(wire[i : i + 1] for i in range(len(wire))))) as client:
        assert client.call("GET", "k") == reply


def test_client_raises_an_error_reply(stub):
    with RespClient(*stub(b"-CLUSTERDOWN no leader\r\n")) as client:
        with pytest.raises(RespError, match=r"^CLUSTERDOWN no leader$"):
            client.call("GET", "k")


def test_client_does_not_wait_for_ever(stub):
    with RespClient(*stub(b"$5\r\nhal"), timeout_s=0.1) as client, pytest.raises(TimeoutError):
        client.call("GET", "k")


def test_client_notices_a_closed_connection(stub):
    with RespClient(*stub()) as client, pytest.raises(ConnectionError, match="closed"):
        client.call("GET", "k")


def test_client_notices_what_is_not_redis(stub):
    with RespClient(*stub(b"HTTP/1.1 400\r\n")) as client, pytest.raises(ConnectionError):
        client.call("GET", "k")


def test_info_is_read_by_field():
    reply = b"# Raft\r\nraft_role:leader\r\nraft_peer0:id=n2,raft=h:1\r\n\r\n# Other\r\n"
    assert parse_info(reply) == {"raft_role": "leader", "raft_peer0": "id=n2,raft=h:1"}
