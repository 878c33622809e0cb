-- An old mail server: version 2, an answer to every step, two messages and an abort on one
-- connection.
local conn = mt.connect("inet:" .. port .. "@127.0.0.1")
assert(conn, "no connection")
-- The program takes the steps before the actions, unlike its manual.
assert(mt.negotiate(conn, 2, 0, SMFIF_ADDHDRS + SMFIF_CHGHDRS) == nil, "not negotiated")

local function continues(failure, what)
    assert(failure == nil, what .. ": " .. tostring(failure))
    assert(mt.getreply(conn) == SMFIR_CONTINUE, what .. ": reply " .. tostring(mt.getreply(conn)))
end

continues(mt.conninfo(conn, "client.example", "192.0.2.9"), "connect")
continues(mt.helo(conn, "client.example"), "helo")

-- Begun and given up: what it said is forgotten.
continues(mt.mailfrom(conn, "<first@example.org>"), "sender")
continues(mt.rcptto(conn, "<a@example.org>"), "recipient")
continues(mt.header(conn, "X-Verdict", "reject"), "header")
assert(mt.abort(conn) == nil)

for _, verdict in ipairs({"none", "tag"}) do
    continues(mt.mailfrom(conn, "<otto@example.org>"), "sender")
    continues(mt.rcptto(conn, "<anna@example.org>"), "recipient")
    local tagged = verdict == "tag"
    continues(mt.header(conn, tagged and "X-Verdict" or "X-None", verdict), "header")
    continues(mt.header(conn, "X-Tag", "forged"), "header")
    continues(mt.eoh(conn), "end of headers")
    continues(mt.bodystring(conn, "text\r\n"), "body")
    continues(mt.bodyrandom(conn, 20000), "body")
    continues(mt.eom(conn), "end of message")
    assert(mt.eom_check(conn, MT_HDRADD, "X-Tag", "1") == tagged, verdict .. ": X-Tag")
    assert(mt.eom_check(conn, MT_HDRDELETE, "X-Tag") == tagged, verdict .. ": forged")
end
mt.disconnect(conn)
