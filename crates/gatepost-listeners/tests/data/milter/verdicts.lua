-- A mail server of today: every verdict, with everything that a filter may do.
local function send(verdict, body)
    local conn = mt.connect("inet:" .. port .. "@127.0.0.1")
    assert(conn, "no connection")
    assert(mt.negotiate(conn, nil, nil, nil) == nil, "not negotiated")
    assert(mt.conninfo(conn, "client.example", "192.0.2.9") == nil)
    assert(mt.helo(conn, "client.example") == nil)
    assert(mt.macro(conn, SMFIC_MAIL, "i", "Q1", "{auth_authen}", "anna") == nil)
    assert(mt.mailfrom(conn, "<otto@example.org>", "SIZE=10") == nil)
    assert(mt.rcptto(conn, "<anna@example.org>") == nil)
    assert(mt.header(conn, "Subject", "hello") == nil)
    assert(mt.header(conn, "X-Verdict", verdict) == nil)
    assert(mt.bodystring(conn, body or "text\r\n") == nil)
    assert(mt.eom(conn) == nil)
    return conn
end

local conn = send("accept")
assert(mt.getreply(conn) == SMFIR_CONTINUE)
local results = mt.getheader(conn, "Authentication-Results", 0)
assert(results == " gate.example; auth=pass smtp.auth=anna", tostring(results))
mt.disconnect(conn)

conn = send("tag")
assert(mt.getreply(conn) == SMFIR_CONTINUE)
assert(mt.eom_check(conn, MT_HDRINSERT, "X-Tag", " 1", 0))
assert(mt.eom_check(conn, MT_HDRCHANGE, "Subject", " [SPAM] hello"))
mt.disconnect(conn)

conn = send("reject")
assert(mt.getreply(conn) == SMFIR_REPLYCODE)
assert(mt.eom_check(conn, MT_SMTPREPLY, "550", "5.7.1", "asked to reject"))
mt.disconnect(conn)

conn = send("defer")
assert(mt.getreply(conn) == SMFIR_REPLYCODE)
assert(mt.eom_check(conn, MT_SMTPREPLY, "451", "4.7.1", "asked to defer"))
mt.disconnect(conn)

conn = send("drop")
assert(mt.getreply(conn) == SMFIR_DISCARD)
mt.disconnect(conn)

conn = send("quarantine")
assert(mt.getreply(conn) == SMFIR_CONTINUE)
assert(mt.eom_check(conn, MT_QUARANTINE, "asked to quarantine"))
mt.disconnect(conn)

-- Larger than the limit, reported at the end.
conn = send("accept", string.rep("x", 70) .. "\r\n")
assert(mt.getreply(conn) == SMFIR_CONTINUE)
mt.disconnect(conn, false)
conn = send("accept", string.rep(string.rep("x", 70) .. "\r\n", 800))
assert(mt.getreply(conn) == SMFIR_REPLYCODE)
mt.disconnect(conn)
