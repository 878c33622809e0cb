"""What schemathesis cannot serialise by itself: mail."""

import schemathesis


@schemathesis.serializer("message/rfc822")
def mail(context, value):
    """Any text is a mail, if need be one without header fields."""
    return str(value).encode(errors="replace")
