-- A recipient beyond the limit is refused when it is named, so that the mail server sends it another
-- message (RFC 5321, section 4.5.3.1.10); the message continues with those before it.
local conn = mt.connect("inet:" .. port .. "@127.0.0.1")
assert(conn, "no connection")
assert(mt.negotiate(conn, 2, 0, SMFIF_ADDHDRS + SMFIF_CHGHDRS) == nil, "not negotiated")
assert(mt.conninfo(conn, "client.example", "192.0.2.9") == nil)
assert(mt.helo(conn, "client.example") == nil)

for message = 1, 2 do
    assert(mt.mailfrom(conn, "<otto@example.org>") == nil)
    for recipient = 1, 4 do
        assert(mt.rcptto(conn, "<" .. recipient .. "@example.org>") == nil)
        local expected = recipient <= 2 and SMFIR_CONTINUE or SMFIR_REPLYCODE
        local what = "message " .. message .. ", recipient " .. recipient
        assert(mt.getreply(conn) == expected, what .. ": " .. tostring(mt.getreply(conn)))
    end
    assert(mt.header(conn, "Subject", "hello") == nil)
    assert(mt.eoh(conn) == nil)
    assert(mt.bodystring(conn, "text\r\n") == nil)
    assert(mt.eom(conn) == nil)
    assert(mt.getreply(conn) == SMFIR_CONTINUE, "the message: " .. tostring(mt.getreply(conn)))
end
mt.disconnect(conn)
